"""An account of the app, as its backend uses it: every call through the SQL functions, as that account."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from conftest import Database

Json = dict[str, Any]
DAY = "2026-03-10"


@dataclass
class AppAccount:
    """One account with its own exercises by name; each call is one transaction."""

    database: Database
    user_id: UUID = field(default_factory=uuid.uuid4)
    exercises: dict[str, str] = field(default_factory=dict)

    def exercise(self, name: str = "Squat", tracking: str = "weight_reps") -> str:
        """Return the id of the account's exercise `name`, made at the first call."""
        if name not in self.exercises:
            made = self.call(
                "select public.upsert_exercise_v1(:name, :tracking, :user)", name=name, tracking=tracking
            )
            self.exercises[name] = made["exercise_id"]
        return self.exercises[name]

    def payload(self, *blocks: Json, **fields: Any) -> Json:
        """Return a valid payload; without blocks one set of 100 kg x 5 of Squat. `fields` go over it."""
        return {
            "expected_user_id": str(self.user_id),
            "mutation_id": str(uuid.uuid4()),
            "session_date": DAY,
            "exercises": list(blocks) or [self.block("Squat", (100, 5))],
            **fields,
        }

    def block(self, name: str, *sets: tuple[float | None, int | None] | Json) -> Json:
        """Return one exercise of a payload; a set is (weight_kg, reps) or a whole object."""
        return {
            "exercise_id": self.exercise(name),
            "sets": [one if isinstance(one, dict) else {"weight_kg": one[0], "reps": one[1]} for one in sets],
        }

    def save(self, *blocks: Json, **fields: Any) -> Json:
        """Save a session and return its receipt."""
        return self.save_payload(self.payload(*blocks, **fields))

    def save_payload(self, payload: object) -> Json:
        return self.call(
            "select public.save_session_v5(cast(:payload as jsonb))", payload=json.dumps(payload)
        )

    def delete(self, session_id: str, mutation_id: UUID | None = None) -> Json:
        """Delete a session and return its receipt."""
        return self.call(
            "select public.delete_session_v5(cast(:session as uuid), :user, :mutation)",
            session=session_id,
            mutation=mutation_id or uuid.uuid4(),
        )

    def call(self, statement: str, **parameters: object) -> Any:
        """Return the one value of `statement`, run as this account; `:user` is its id."""
        if ":user" in statement:
            parameters["user"] = self.user_id
        return self.database.as_account(self.user_id).value(statement, **parameters)

    def state(self) -> tuple[int, int]:
        """Return (requested_version, applied_version)."""
        rows = self.database.admin(
            "select requested_version, applied_version from public.user_stats_refresh_state where user_id = :user",
            user=self.user_id,
        )
        return rows[0] if rows else (0, 0)

    def jobs(self, *columns: str) -> list[tuple]:
        """Return `columns` of the account's jobs in the order of their generations."""
        return self.database.admin(
            f"select {', '.join(columns)} from public.user_exercise_stats_refresh_jobs"
            " where user_id = :user order by requested_version",
            user=self.user_id,
        )


@dataclass(frozen=True)
class Stages:
    """The three stages as a worker calls them, each one transaction as service_role."""

    database: Database

    def claim(self, owner: str = "test") -> Json:
        return self._call("select public.stats_projection_claim_v1(:owner)", owner=owner)

    def compute(self, run: Json | None = None) -> Json:
        return self._call(
            "select public.stats_projection_compute_v1(cast(:run_id as uuid), cast(:token as uuid))",
            **_lease(run),
        )

    def publish(self, run: Json | None = None) -> Json:
        return self._call(
            "select public.stats_projection_publish_v1(cast(:run_id as uuid), cast(:token as uuid))",
            **_lease(run),
        )

    def drain(self) -> list[Json]:
        """Claim, compute and publish until nothing is due; return the last answer of each run."""
        ended = []
        while (run := self.claim())["response"] == "claimed":
            computed = self.compute(run) if run["phase"] == "claimed" else {"response": "computed"}
            ended.append(self.publish(run) if computed["response"] == "computed" else computed)
        return ended

    def _call(self, statement: str, **parameters: object) -> Json:
        return self.database.as_service().value(statement, **parameters)


def _lease(run: Json | None) -> Json:
    return {"run_id": run and run["run_id"], "token": run and run["lease_token"]}
