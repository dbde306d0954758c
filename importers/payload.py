"""Turns a session that was read from a file into the payload of `save_session_v5`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from uuid import UUID, uuid5

from importers.history import ImportedBlock, ImportedSession, ImportedSet
from importers.tracking import stored_weight

_MUTATIONS = UUID("5b1f6a52-6d1c-5f0e-9a53-0c4a7c1d9e2b")


@dataclass(frozen=True, slots=True)
class Replaced:
    """The stored session that a payload replaces, as the import has seen it."""

    session_id: UUID
    updated_at: datetime


def session_payload(
    user: UUID,
    source: str,
    session: ImportedSession,
    source_ref: str,
    started_at: datetime | None,
    blocks: Iterable[tuple[str, ImportedBlock]],
    left_out: Collection[str] = (),
    replaced: Replaced | None = None,
) -> str:
    """Return the payload that saves `blocks`, each with the id of its exercise, as what `session` had.

    Its mutation id is the same in every attempt, so one whose answer was lost replays. The content is part of
    it: the same workout read with another --unit is another mutation. So is what stands under the exercises
    `left_out`, of which nothing is saved: the same workout with and without it is one.
    """
    parts = _parts(blocks)
    fields = _given(
        expected_user_id=str(user),
        session_date=session.session_date.isoformat(),
        title=session.title,
        started_at=None if started_at is None else started_at.isoformat(),
        duration_seconds=session.duration_seconds,
        notes=session.notes,
        source=source if replaced is None else None,
        source_ref=source_ref if replaced is None else None,
        session_id=None if replaced is None else str(replaced.session_id),
        expected_updated_at=None if replaced is None else replaced.updated_at.isoformat(),
        exercises=parts,
    )
    content = _hash(fields)
    fields["exercises"] = [part for part in parts if part["exercise_id"] not in left_out]
    return json.dumps(fields | {"mutation_id": str(uuid5(_MUTATIONS, content))})


def content_of(
    session: ImportedSession, started_at: datetime | None, blocks: Iterable[tuple[str, ImportedBlock]]
) -> str:
    """Return a hash of all that a payload with these `blocks` saves, wherever it is saved."""
    return _hash(
        _given(
            session_date=session.session_date.isoformat(),
            title=session.title,
            started_at=None if started_at is None else started_at.astimezone(UTC).isoformat(),
            duration_seconds=session.duration_seconds,
            notes=session.notes,
            exercises=_parts(blocks),
        )
    )


def _parts(blocks: Iterable[tuple[str, ImportedBlock]]) -> list[dict[str, object]]:
    return [
        _given(
            exercise_id=exercise_id,
            notes=block.notes,
            superset=block.superset,
            sets=[_set_payload(a_set) for a_set in block.sets],
        )
        for exercise_id, block in blocks
    ]


def _set_payload(a_set: ImportedSet) -> dict[str, object]:
    return _given(
        set_type=a_set.set_type,
        weight_kg=_json_number(stored_weight(a_set)),
        reps=a_set.reps,
        distance_m=_json_number(a_set.distance_m),
        duration_seconds=a_set.duration_seconds,
        rpe=_json_number(a_set.rpe),
        is_completed=a_set.is_completed,
    )


def _json_number(value: Decimal | None) -> float | None:
    # JSON prints the shortest decimal that names a float: up to 15 digits, the same one that went in.
    return None if value is None else float(value)


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _hash(fields: dict[str, object]) -> str:
    return sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
