"""Accounts of any size made in one statement each, and the pipeline's steps on them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from reckoning.compare import assert_account_equals_reckoning
from sqlalchemy import text

from tasks.pipeline import COMPUTE
from tasks.transaction import run_stage

if TYPE_CHECKING:
    from conftest import Database

Json = dict[str, Any]
DAYS = ("2026-03-01", "2026-03-08", "2026-11-20")

_EXERCISES = """
    insert into public.exercises (id, owner_user_id, name, tracking)
    select format('%s-%s', cast(:user as uuid), to_char(n, 'FM00000')), :user, 'Lift ' || n, 'weight_reps'
    from generate_series(0, :exercises - 1) n
    returning id
"""
_HISTORY = """
    with sessions as (
        insert into public.workout_sessions (user_id, session_date)
        select :user, d.day from unnest(cast(:days as date[])) d (day)
        returning id, session_date
    ),
    parts as (
        insert into public.session_exercise_part (session_id, user_id, exercise_id, position)
        select s.id, :user, e.id, row_number() over (partition by s.id order by e.id)
        from sessions s cross join public.exercises e
        where e.owner_user_id = :user
        returning id, session_id, position
    )
    insert into public.session_sets (part_id, set_no, weight_kg, reps)
    select p.id, 1, 20 + p.position % 50 + extract(doy from s.session_date)::integer % 7, 3 + p.position % 9
    from parts p join sessions s on s.id = p.session_id
"""
CANONICAL_HASH = """
    select md5(string_agg(x.line, '|' order by x.line)) from (
        select w::text as line from public.workout_sessions w where w.user_id = :user
        union all
        select p::text from public.session_exercise_part p where p.user_id = :user
        union all
        select s::text from public.session_sets s
        where s.part_id in (select p.id from public.session_exercise_part p where p.user_id = :user)
    ) x
"""


@dataclass
class Account:
    """An account with `exercises` exercises, each with one set on every one of `days`; due at once."""

    database: Database
    exercises: int
    days: Sequence[str] = DAYS
    user_id: UUID = field(default_factory=uuid.uuid4)
    exercise_ids: list[str] = field(init=False)

    def __post_init__(self) -> None:
        rows = self.database.admin(_EXERCISES, user=self.user_id, exercises=self.exercises)
        self.exercise_ids = sorted(id for (id,) in rows)
        self.database.admin(_HISTORY, user=self.user_id, days=list(self.days))
        self.enqueue(event="file_import")

    def enqueue(
        self, from_date: str | None = None, exercise_ids: Sequence[str] = (), event: str = "session_updated"
    ) -> int:
        """Make the account dirty and return the generation."""
        return self.database.as_service().value(
            "select public.enqueue_user_exercise_stats_refresh_job(:user, cast(:day as date), cast(:ids as text[]),"
            " :event)",
            user=self.user_id,
            day=from_date,
            ids=list(exercise_ids),
            event=event,
        )

    def edit(self, exercise_id: str, day: str, weight_kg: float) -> None:
        """Change the weight of one set, as the app's edit of that session does."""
        self.database.admin(
            "update public.session_sets s set weight_kg = :weight"
            " from public.session_exercise_part p join public.workout_sessions w on w.id = p.session_id"
            " where s.part_id = p.id and p.user_id = :user and p.exercise_id = :exercise and w.session_date = :day",
            weight=weight_kg,
            user=self.user_id,
            exercise=exercise_id,
            day=day,
        )
        self.enqueue(day, [exercise_id])

    def jobs(self, *columns: str) -> list[tuple]:
        """Return `columns` of the account's jobs in the order of their generations."""
        return self.database.admin(
            f"select {', '.join(columns)} from public.user_exercise_stats_refresh_jobs"
            " where user_id = :user order by requested_version",
            user=self.user_id,
        )

    def is_fresh(self) -> bool:
        [(requested, applied)] = self.database.admin(
            "select requested_version, applied_version from public.user_stats_refresh_state where user_id = :user",
            user=self.user_id,
        )
        return requested == applied

    def assert_converged(self) -> None:
        """Everything requested is published, equals the reckoning, and no private output is left."""
        assert self.is_fresh()
        with self.database.admin_engine.connect() as connection:
            assert_account_equals_reckoning(connection, self.user_id)
        assert outputs(self.database) == 0


@dataclass
class Run:
    """One run as a worker holds it: its id and token, from the answer of a claim."""

    database: Database
    claimed: Json

    @property
    def id(self) -> str:
        return self.claimed["run_id"]

    @property
    def token(self) -> str:
        return self.claimed["lease_token"]

    def step(self, expected_offset: int | None = None) -> Json:
        """Compute once, in a transaction of its own, under the stage's budgets."""
        return run_stage(
            self.database.engine,
            "compute",
            COMPUTE,
            {"run_id": self.id, "lease_token": self.token, "expected_offset": expected_offset},
            lambda answer: None,
        )

    def steps(self, count: int) -> Json:
        """Compute `count` times and return the last answer."""
        return [self.step() for _ in range(count)][-1]

    def finish(self) -> list[Json]:
        """Compute until no next step is asked for; return all answers."""
        answers = [self.step()]
        while answers[-1]["response"] == "batch_pending":
            answers.append(self.step(answers[-1]["next_offset"]))
        return answers

    def column(self, expression: str) -> Any:
        """Return one value of the run's row."""
        [(value,)] = self.database.admin(
            f"select {expression} from public.user_stats_projection_runs where id = cast(:run as uuid)",
            run=self.id,
        )
        return value

    @property
    def batch(self) -> Json:
        return self.column("payload -> '_batch'")

    def change(self, assignments: str) -> None:
        """Change the run's row as only the holder of its token can."""
        with self.database.admin_engine.begin() as connection:
            connection.execute(
                text("select set_config('lift_guild.stats_lease_token', :token, true)"), {"token": self.token}
            )
            connection.execute(
                text(
                    f"update public.user_stats_projection_runs set {assignments} where id = cast(:run as uuid)"
                ),
                {"run": self.id},
            )

    def let_the_lease_run_out(self) -> None:
        self.change("lease_until = clock_timestamp() - interval '1 second'")

    def let_the_backoff_run_out(self) -> None:
        self.change("retry_not_before = clock_timestamp() - interval '1 second'")


def claim(database: Database) -> Json:
    return database.as_service().value("select public.stats_projection_claim_v1('test')")


def claim_run(database: Database) -> Run:
    """Claim a run that has to be there."""
    answer = claim(database)
    assert answer["response"] == "claimed", answer
    return Run(database, answer)


def publish(database: Database, run: Run) -> Json:
    return database.as_service().value(
        "select public.stats_projection_publish_v1(cast(:run as uuid), cast(:token as uuid))",
        run=run.id,
        token=run.token,
    )


def drain(database: Database) -> list[str]:
    """Take every account through the pipeline, backoffs cut short; return the responses of all computes."""
    responses = []
    while True:
        end_backoffs(database)
        answer = claim(database)
        if answer["response"] != "claimed":
            return responses
        run = Run(database, answer)
        answers = run.finish()
        responses += [one["response"] for one in answers]
        if answers[-1]["response"] == "computed":
            publish(database, run)


def end_backoffs(database: Database) -> None:
    """Let every job and run that waits for its retry time be due."""
    for table in ("user_exercise_stats_refresh_jobs", "user_stats_projection_runs"):
        database.admin(
            f"update public.{table} set retry_not_before = clock_timestamp() where retry_not_before is not null"
        )


def set_settings(database: Database, **settings: object) -> Json:
    return database.as_service().value(
        "select public.update_stats_projection_settings_v1(cast(:changes as jsonb))",
        changes=json.dumps(settings),
    )


def outputs(database: Database) -> int:
    """Return the number of rows in all private outputs and lists."""
    tables = database.admin(
        "select format('%I.%I', schemaname, tablename) from pg_catalog.pg_tables where schemaname = 'stats_private'"
        " and (tablename like 'stats\\_output\\_%' or tablename in ('stats_batch_exercises', 'stats_input_days'))"
    )
    counts = " + ".join(f"(select count(*) from {name})" for (name,) in tables)
    [(total,)] = database.admin(f"select {counts}")
    return total
