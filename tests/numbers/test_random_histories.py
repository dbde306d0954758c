"""Any writes, in any interleaving with the stages, end equal to the reckoning and to a rebuild from nothing.

STATS_REFRESH_RANDOM_HISTORIES=200 plays that many histories instead of the few of a usual run.
"""

from __future__ import annotations

import os
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from reckoning.compare import assert_account_equals_reckoning
from support.app import AppAccount, Json, Stages
from support.published import published_rows

HISTORIES = int(os.environ.get("STATS_REFRESH_RANDOM_HISTORIES", "12"))
STEPS = 40

TODAY = datetime.now(UTC).date()
DAYS = st.sampled_from(
    [
        date(2020, 12, 28),  # Monday of ISO week 53
        date(2020, 12, 31),
        date(2021, 1, 1),
        date(2024, 2, 29),
        date(2024, 3, 31),
        date(2024, 4, 1),
        *(TODAY - timedelta(days=days) for days in (0, 1, 28, 29, 30, 31, 365, 366, 394, 395, 396)),
        TODAY + timedelta(days=1),
    ]
)
SELDOM = st.integers(0, 9)
"""0: now. What makes the next run a full rebuild has to be rare, or nothing incremental is ever tried."""
WITH_WEIGHT = ("weight_reps", "bodyweight_reps", "assisted_reps", "weight_duration", "weight_distance")
MOSTLY_LIFTED = (*["weight_reps"] * 5, *WITH_WEIGHT)
WITHOUT_WEIGHT = ("reps_only", "duration", "distance_duration")
EXERCISES = ("Squat", "Bench", "Dip", "Carry", "Run")

SETS = st.fixed_dictionaries(
    {
        "weight_kg": st.sampled_from([None, 0, 20.5, 20.4999, 40, 60, 60.005, 100]),
        "reps": st.sampled_from([None, 0, 1, 2, 5, 8, 12, 13, 36, 37]),
    },
    optional={
        "set_type": st.sampled_from(["normal", "warmup", "drop", "failure"]),
        "is_completed": st.booleans(),
        "duration_seconds": st.sampled_from([0, 30, 61]),
        "distance_m": st.sampled_from([0, 100.5, 2000]),
    },
)
SESSIONS = st.fixed_dictionaries(
    {
        "session_date": DAYS.map(str),
        "title": st.sampled_from([None, "Morning", "Evening"]),
        "started_at": st.sampled_from([None, "2024-01-01T06:00:00Z", "2024-01-01T23:30:00Z"]),
        "duration_seconds": st.sampled_from([None, 0, 3600]),
        "blocks": st.lists(
            st.tuples(st.sampled_from(EXERCISES), st.lists(SETS, max_size=4)), min_size=1, max_size=5
        ),
    }
)


class History(RuleBasedStateMachine):
    """One account that writes, and workers that do one stage now and then."""

    database = None

    @initialize(trackings=st.lists(st.sampled_from(MOSTLY_LIFTED), min_size=5, max_size=5))
    def open_account(self, trackings: list[str]) -> None:
        self.account = AppAccount(self.database)
        self.stages = Stages(self.database)
        self.trackings = dict(zip(EXERCISES, trackings, strict=True))
        for name, tracking in self.trackings.items():
            self.account.exercise(name, tracking)
        self.sessions: list[str] = []
        self.manual_records: list[str] = []

    @rule(session=SESSIONS)
    def save(self, session: Json) -> None:
        self.sessions.append(self.account.save_payload(self._payload(session))["session_id"])

    @precondition(lambda self: self.sessions)
    @rule(session=SESSIONS, place=st.integers(0, 99))
    def edit_or_move(self, session: Json, place: int) -> None:
        session_id = self.sessions[place % len(self.sessions)]
        self.account.save_payload(self._payload(session) | {"session_id": session_id})

    @precondition(lambda self: self.sessions)
    @rule(place=st.integers(0, 99))
    def delete(self, place: int) -> None:
        self.account.delete(self.sessions.pop(place % len(self.sessions)))

    @rule(name=st.sampled_from(EXERCISES), day=DAYS, one_rm_kg=st.sampled_from(["41.50", "120", "9999.99"]))
    def state_a_one_rm(self, name: str, day: date, one_rm_kg: str) -> None:
        if self.trackings[name] not in WITH_WEIGHT:
            return
        receipt = self.account.call(
            "select public.set_manual_pr_v1(:exercise, :one_rm, :day, 'manual', :user, :mutation)",
            exercise=self.account.exercise(name),
            one_rm=Decimal(one_rm_kg),
            day=day,
            mutation=uuid.uuid4(),
        )
        self.manual_records.append(receipt["manual_pr_id"])

    @precondition(lambda self: self.manual_records)
    @rule(place=st.integers(0, 99))
    def take_a_one_rm_back(self, place: int) -> None:
        self.account.call(
            "select public.delete_manual_pr_v1(cast(:record as uuid), :user, :mutation)",
            record=self.manual_records.pop(place % len(self.manual_records)),
            mutation=uuid.uuid4(),
        )

    @rule(
        chance=SELDOM, name=st.sampled_from(EXERCISES), tracking=st.sampled_from(WITH_WEIGHT + WITHOUT_WEIGHT)
    )
    def change_the_tracking(self, chance: int, name: str, tracking: str) -> None:
        if chance:
            return
        self.account.call(
            "select public.upsert_exercise_v1(:name, :tracking, :user, :exercise)",
            name=name,
            tracking=tracking,
            exercise=self.account.exercise(name),
        )
        self.trackings[name] = tracking

    @rule(
        chance=SELDOM,
        formula=st.sampled_from(["brzycki", "epley", "lombardi"]),
        most_reps=st.sampled_from([5, 12, 36]),
        week_start=st.sampled_from([1, 3, 7]),
    )
    def change_the_policy(self, chance: int, formula: str, most_reps: int, week_start: int) -> None:
        if chance:
            return
        self.database.as_service()(
            "select public.update_stats_projection_policy_v1(:formula, :most_reps, :week_start)",
            formula=formula,
            most_reps=most_reps,
            week_start=week_start,
        )
        # A small scope: that everything is rebuilt under a new policy is the claim's affair.
        self._ask_for("2999-01-01")

    @rule()
    def claim(self) -> None:
        self._expect(self.stages.claim(), "claimed", "idle")

    @rule()
    def compute(self) -> None:
        self._expect(self.stages.compute(), "computed", "invalidated", "idle")

    @rule()
    def publish(self) -> None:
        self._expect(self.stages.publish(), "published", "rejected", "idle")

    @rule(session=SESSIONS)
    def save_and_publish(self, session: Json) -> None:
        self.save(session)
        self.do_all_stages()

    @rule()
    def do_all_stages(self) -> None:
        self.claim()
        self.compute()
        self.publish()

    def teardown(self) -> None:
        if not hasattr(self, "account"):
            return
        self._drain()
        self._assert_reckoned()
        incremental = published_rows(self.database, self.account.user_id)
        self._ask_for(None)
        self._drain()
        assert published_rows(self.database, self.account.user_id) == incremental
        validated = self.database.as_service().value(
            "select public.validate_user_exercise_stats_integrity(:user)", user=self.account.user_id
        )
        assert (validated["valid"], validated["stale"]) == (True, False), validated

    def _payload(self, session: Json) -> Json:
        fields = {name: value for name, value in session.items() if name != "blocks"}
        blocks = [
            self.account.block(name, *(self._allowed(name, one) for one in sets))
            for name, sets in session["blocks"]
        ]
        return self.account.payload(*blocks, **fields)

    def _allowed(self, name: str, one_set: Json) -> Json:
        """The set as the exercise may have it: without a weight where it has none."""
        return one_set if self.trackings[name] in WITH_WEIGHT else one_set | {"weight_kg": None}

    def _ask_for(self, from_date: str | None) -> None:
        self.database.as_service()(
            "select public.enqueue_user_exercise_stats_refresh(:user, cast(:day as date), '{}', 'asked for')",
            user=self.account.user_id,
            day=from_date,
        )

    def _drain(self) -> None:
        self._ask_for("2999-01-01")
        while self.account.state()[0] > self.account.state()[1]:
            self.do_all_stages()

    def _assert_reckoned(self) -> None:
        with self.database.admin_engine.connect() as connection:
            assert_account_equals_reckoning(connection, self.account.user_id)

    def _expect(self, answer: Json, *responses: str) -> None:
        assert answer["response"] in responses, answer


def test_any_history_ends_equal_to_the_reckoning_and_to_a_rebuild(database):
    run_state_machine_as_test(
        type("History", (History,), {"database": database}),
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # Shrinking replays whole histories for minutes; the failing one is printed in full as it is.
            phases=(Phase.reuse, Phase.generate),
        ),
    )
