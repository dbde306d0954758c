"""A session of the file as its account can have it: with the account's exercises, without what contradicts these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from importers.exercises import Exercises
from importers.fingerprints import set_fingerprint
from importers.history import ImportedBlock, ImportedSession, ImportedSet
from importers.matching import Stored
from importers.payload import content_of
from importers.tracking import contradiction


@dataclass(slots=True)
class Fitting:
    """What fits of a session: `blocks`, of which `archived` have exercises that take no new sets."""

    session: ImportedSession
    started_at: datetime | None
    blocks: list[ImportedBlock] = field(default_factory=list)
    in_use: list[ImportedBlock] = field(default_factory=list)
    archived: list[ImportedBlock] = field(default_factory=list)
    misfits: list[tuple[int, str]] = field(default_factory=list)
    """The lines of what does not fit, each with the reason."""
    misfit_sets: list[str] = field(default_factory=list)
    """The fingerprints of what does not fit."""
    exercises: Exercises = field(kw_only=True)

    def fingerprints(self) -> tuple[str, str]:
        """Return the fingerprints of all sets, and of those whose exercise is in use."""
        all_sets = self._printed(self.blocks)
        return all_sets, self._printed(self.in_use) or all_sets

    def lines(self) -> Iterator[tuple[str, int]]:
        """Yield the fingerprint of each set, and its line."""
        for block in self.blocks:
            name = self.exercises[block.exercise].name
            for a_set in block.sets:
                yield set_fingerprint(name, a_set), a_set.line

    def sets_in_use(self) -> Iterator[ImportedSet]:
        """Yield the sets whose exercise is in use."""
        for block in self.in_use:
            yield from block.sets

    def with_ids(self, blocks: Iterable[ImportedBlock]) -> list[tuple[str, ImportedBlock]]:
        """Return `blocks`, each with the id of its exercise; one that is yet to be made has its name instead."""
        return [(self.exercises[block.exercise].exercise_id or block.exercise, block) for block in blocks]

    def make_exercises(self) -> None:
        """Make the exercises that are not there yet, and the mappings from their names."""
        for block in self.in_use:
            self.exercises.import_one(block.exercise)

    def content(self) -> str:
        """Return a hash of all that an import of the session saves."""
        return content_of(self.session, self.started_at, self.with_ids(self.in_use))

    def memory(self) -> dict[str, object]:
        """Return what is remembered of the session once it is saved."""
        return {
            "source_ref": self.session.source_ref,
            "sets": self.fingerprints()[0],
            "content": self.content(),
        }

    def memory_beside(self, stored: Stored) -> dict[str, object] | None:
        """Return what is remembered of the session that was found as `stored`; None where that is known already."""
        sets, _ = self.fingerprints()
        known = (stored.imported_ref, stored.imported_day, stored.imported_start, stored.imported_sets)
        content = self.content() if stored.is_as_left else None
        ours = (self.session.source_ref, self.session.session_date, self.started_at, sets)
        if stored.is_own and known == ours and content in (None, stored.content):
            return None
        return {
            "session_id": str(stored.session_id),
            "source_ref": self.session.source_ref,
            "session_date": self.session.session_date.isoformat(),
            "started_at": None if self.started_at is None else self.started_at.isoformat(),
            "sets": sets,
            "content": content,
        }

    def _printed(self, blocks: Iterable[ImportedBlock]) -> str:
        return "".join(
            set_fingerprint(self.exercises[block.exercise].name, a_set)
            for block in blocks
            for a_set in block.sets
        )


def fitting(
    session: ImportedSession,
    exercises: Exercises,
    started_at: datetime | None,
    held: Collection[str] = (),
) -> Fitting:
    """Return what fits of `session`; it may keep the archived exercises that it has already, the ids in `held`."""
    found = Fitting(session, started_at, exercises=exercises)
    for block in session.blocks:
        exercise = exercises[block.exercise]
        sets = []
        for a_set in block.sets:
            reason = exercise.problem or contradiction(a_set, block.exercise, exercise.tracking)
            if reason is None:
                sets.append(a_set)
            else:
                found.misfits.append((a_set.line, reason))
                found.misfit_sets.append(set_fingerprint(exercise.name, a_set))
        if sets:
            fits = replace(block, sets=tuple(sets))
            found.blocks.append(fits)
            is_archived = exercise.is_archived and exercise.exercise_id not in held
            (found.archived if is_archived else found.in_use).append(fits)
    return found
