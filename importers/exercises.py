"""What the exercise names of a file stand for in an account.

The database knows and decides (sql/functions/imports): all names are looked up at once before anything is written,
and an exercise is made, or widened to what the file shows, when the import comes to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from importers.exercise_names import says_assisted
from importers.history import Tracking
from tasks.transaction import account, transaction

_LOOK_UP = text("select x.* from public.import_exercises_v1(:provider, cast(:names as jsonb), :user) x")
_IMPORT = text(
    "select public.import_exercise_v1(p_provider => :provider, p_name => :name, p_tracking => :tracking,"
    " p_assisted => :assisted, p_expected_user_id => :user)"
)
_REPS_WITH_WEIGHT = {"weight_reps", "bodyweight_reps"}


@dataclass(frozen=True, slots=True)
class Exercise:
    """What a name stands for; `exercise_id` is None where it would be a new exercise.

    `name` is what it is called here, `tracking` how it is tracked once the import has widened it, `known` how it was
    tracked before. An archived one takes no new sets.
    """

    exercise_id: str | None
    name: str
    tracking: Tracking
    known: Tracking | None
    is_archived: bool
    problem: str | None
    """Why there can be no such exercise."""


class Exercises:
    """The exercises of one file."""

    def __init__(self, engine: Engine, user: UUID, provider: str, shown: Mapping[str, Tracking]) -> None:
        """Take `shown`, how the file shows each name to be tracked."""
        self._engine = engine
        self._user = user
        self._provider = provider
        self._shown = shown
        self._found: dict[str, Exercise] = {}
        self._imported: set[str] = set()

    def look_up(self, connection: Connection) -> None:
        """Find out what the names stand for."""
        names = [
            {"name": name, "tracking": tracking, "assisted": says_assisted(name)}
            for name, tracking in self._shown.items()
        ]
        found = connection.execute(
            _LOOK_UP, {"provider": self._provider, "names": json.dumps(names), "user": self._user}
        )
        for row in found:
            self._found[row.name] = Exercise(
                row.exercise_id, row.exercise_name, row.tracking, row.known, row.archived,
                row.problem and f"exercise refused by the database: {row.problem}",
            )  # fmt: skip

    def __getitem__(self, name: str) -> Exercise:
        return self._found[name]

    def widen(self) -> None:
        """Let the exercises that the file shows to be more than they were be tracked so."""
        for name, exercise in self._found.items():
            if exercise.known is not None and exercise.known != exercise.tracking:
                self.import_one(name)

    def import_one(self, name: str) -> None:
        """Make the exercise of `name`, or widen it, and the mapping to find it again; once is enough."""
        if name in self._imported:
            return
        identity = {
            "provider": self._provider,
            "name": name,
            "tracking": self._shown[name],
            "assisted": says_assisted(name),
            "user": self._user,
        }
        with transaction(self._engine, account(self._user)) as connection:
            exercise_id: str = connection.execute(_IMPORT, identity).scalar_one()["exercise_id"]
        self._found[name] = replace(self._found[name], exercise_id=exercise_id)
        self._imported.add(name)

    def remark(self, name: str) -> str | None:
        """Return what a person should know about how `name` is tracked, if anything."""
        exercise, shown = self._found[name], self._shown[name]
        if exercise.known not in (None, exercise.tracking):
            return f'"{name}" was tracked as {exercise.known}; the file shows more: {exercise.tracking} now'
        if exercise.tracking == shown or {exercise.tracking, shown} == _REPS_WITH_WEIGHT:
            return None
        return f'"{name}" is tracked as {exercise.tracking}; the file alone would show {shown}'
