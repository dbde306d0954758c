"""The dirty range of a write: the smallest one that covers all it changed, row by row of the table, and at random."""

import uuid
from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from support.app import AppAccount


@pytest.fixture
def range_of(app_account):
    """Call `write` and return the range that it alone made dirty: (from_date, names of the exercises)."""

    def ask(write):
        app_account.database.admin(
            "delete from public.user_exercise_stats_refresh_jobs where user_id = :user",
            user=app_account.user_id,
        )
        write()
        return _pending_range(app_account)

    return ask


def _pending_range(account):
    [(from_date, exercise_ids)] = account.jobs("from_date::text", "exercise_ids")
    names = {id: name for name, id in account.exercises.items()}
    return from_date, {names[id] for id in exercise_ids}


@pytest.fixture
def saved(app_account):
    """A session of 10 March 2026 with squats and bench presses."""
    blocks = (app_account.block("Squat", (100, 5)), app_account.block("Bench", (80, 5)))
    return app_account.save(*blocks, session_date="2026-03-10")["session_id"]


def test_create_dirties_its_exercises_from_its_day(app_account, range_of):
    blocks = (
        app_account.block("Squat", (100, 5)),
        app_account.block("Bench"),
        app_account.block("Squat", (90, 5)),
    )

    assert range_of(lambda: app_account.save(*blocks, session_date="2026-03-10")) == (
        "2026-03-10",
        {"Squat", "Bench"},
    )


def test_update_on_the_same_day_dirties_from_that_day(app_account, saved, range_of):
    blocks = app_account.block("Squat", (105, 5)), app_account.block("Bench", (80, 5))

    assert range_of(lambda: app_account.save(*blocks, session_id=saved, session_date="2026-03-10")) == (
        "2026-03-10",
        {"Squat", "Bench"},
    )


def test_a_move_to_a_later_day_dirties_from_the_old_day(app_account, saved, range_of):
    blocks = app_account.block("Squat", (100, 5)), app_account.block("Bench", (80, 5))

    assert range_of(lambda: app_account.save(*blocks, session_id=saved, session_date="2026-03-20")) == (
        "2026-03-10",
        {"Squat", "Bench"},
    )


def test_a_move_to_an_earlier_day_dirties_from_the_new_day(app_account, saved, range_of):
    blocks = app_account.block("Squat", (100, 5)), app_account.block("Bench", (80, 5))

    assert range_of(lambda: app_account.save(*blocks, session_id=saved, session_date="2026-02-20")) == (
        "2026-02-20",
        {"Squat", "Bench"},
    )


def test_an_exchanged_exercise_dirties_both_the_old_and_the_new_one(app_account, saved, range_of):
    blocks = app_account.block("Squat", (100, 5)), app_account.block("Row", (80, 5))

    assert range_of(lambda: app_account.save(*blocks, session_id=saved, session_date="2026-03-10")) == (
        "2026-03-10",
        {"Squat", "Bench", "Row"},
    )


def test_a_move_with_other_exercises_dirties_all_of_them_from_the_earlier_day(app_account, saved, range_of):
    block = app_account.block("Row", (80, 5))

    assert range_of(lambda: app_account.save(block, session_id=saved, session_date="2026-03-20")) == (
        "2026-03-10",
        {"Squat", "Bench", "Row"},
    )


def test_delete_dirties_what_was_in_it_from_its_day(app_account, saved, range_of):
    app_account.save(app_account.block("Row", (80, 5)), session_date="2026-01-01")

    assert range_of(lambda: app_account.delete(saved)) == ("2026-03-10", {"Squat", "Bench"})


def test_a_stated_1rm_dirties_its_exercise_from_its_day(app_account, saved, range_of):
    assert range_of(lambda: _state_1rm(app_account, "Squat", "2026-02-01", "manual")) == (
        "2026-02-01",
        {"Squat"},
    )


def test_a_deleted_1rm_dirties_its_exercise_from_its_day(app_account, range_of):
    receipt = _state_1rm(app_account, "Squat", "2026-02-01", "manual")

    assert range_of(lambda: _delete_1rm(app_account, receipt["manual_pr_id"])) == ("2026-02-01", {"Squat"})


@pytest.mark.parametrize(("old", "new"), [("2026-02-01", "2026-03-01"), ("2026-03-01", "2026-02-01")])
def test_a_moved_initial_1rm_dirties_from_the_earlier_day(app_account, range_of, old, new):
    _state_1rm(app_account, "Squat", old, "onboarding")

    assert range_of(lambda: _state_1rm(app_account, "Squat", new, "onboarding")) == ("2026-02-01", {"Squat"})


def test_another_way_of_tracking_dirties_the_exercise_over_all_history(app_account, saved, range_of):
    change = "select public.upsert_exercise_v1('Squat', 'bodyweight_reps', :user, :id)"

    assert range_of(lambda: app_account.call(change, id=app_account.exercise("Squat"))) == (None, {"Squat"})


def _state_1rm(account, name, day, source, kg=100):
    return account.call(
        "select public.set_manual_pr_v1(:id, :kg, cast(:day as date), :source, :user, gen_random_uuid())",
        id=account.exercise(name),
        kg=kg,
        day=day,
        source=source,
    )


def _delete_1rm(account, manual_pr_id):
    return account.call(
        "select public.delete_manual_pr_v1(cast(:id as uuid), :user, gen_random_uuid())", id=manual_pr_id
    )


names = st.sampled_from(["Squat", "Bench", "Row", "Press"])
days = st.integers(0, 40).map(lambda number: str(date(2026, 2, 1) + timedelta(number)))
contents = st.lists(st.tuples(names, st.integers(20, 22)), min_size=1, max_size=3)
index = st.integers(0, 1000)


def test_random_edits_dirty_all_that_they_changed_and_nothing_older(database):
    class Edits(RuleBasedStateMachine):
        """The account's facts as a plain set; after each write the range is held against what the write changed."""

        @initialize()
        def sign_up(self):
            self.account = AppAccount(database)
            self.sessions, self.records = {}, {}
            self.before = Counter()

        @rule(day=days, sets=contents)
        def create(self, day, sets):
            self.save(None, day, sets)

        @rule(number=index, day=days, sets=contents)
        def replace(self, number, day, sets):
            self.save(self.pick(self.sessions, number), day, sets)

        @rule(number=index)
        def delete(self, number):
            if session_id := self.pick(self.sessions, number):
                self.account.delete(session_id)
                self.changed(self.sessions.pop(session_id))

        @rule(
            name=names, day=days, source=st.sampled_from(["manual", "onboarding"]), kg=st.integers(100, 101)
        )
        def state_1rm(self, name, day, source, kg):
            receipt = _state_1rm(self.account, name, day, source, kg)
            old = self.records.get(receipt["manual_pr_id"], [])
            self.records[receipt["manual_pr_id"]] = [(name, day, kg)]
            self.changed(old, self.records[receipt["manual_pr_id"]])

        @rule(number=index)
        def delete_1rm(self, number):
            if manual_pr_id := self.pick(self.records, number):
                _delete_1rm(self.account, manual_pr_id)
                self.changed(self.records.pop(manual_pr_id))

        def save(self, session_id, day, sets):
            blocks = [self.account.block(name, (weight, 5)) for name, weight in sets]
            receipt = self.account.save(*blocks, session_id=session_id, session_date=day)
            old = self.sessions.get(receipt["session_id"], [])
            new = [(name, day, weight) for name, weight in sets]
            self.sessions[receipt["session_id"]] = new
            self.changed(old, new)

        @staticmethod
        def pick(things, number):
            return list(things)[number % len(things)] if things else None

        def changed(self, *facts):
            """Ask for the smallest range of the facts that the write took away or added."""
            touched = [fact for some in facts for fact in some]
            self.expected = (min(day for _, day, _ in touched), {name for name, _, _ in touched})
            self.generations = getattr(self, "generations", 0) + 1

        @invariant()
        def range_is_exactly_what_changed(self):
            if getattr(self, "expected", None) is None:
                return
            from_date, dirty = _pending_range(self.account)
            after = self.stored()
            really_changed = (after - self.before) + (self.before - after)
            assert (from_date, dirty) == self.expected
            assert {name for name, _, _ in really_changed} <= dirty
            assert all(day >= from_date for _, day, _ in really_changed)
            assert self.account.state()[0] == self.generations
            self.before, self.expected = after, None
            database.admin(
                "delete from public.user_exercise_stats_refresh_jobs where user_id = :user",
                user=self.account.user_id,
            )

        def stored(self):
            """Every fact that the numbers come from: exercise, day and value of each set and each stated 1RM."""
            rows = database.admin(
                "select p.exercise_id, w.session_date::text, s.weight_kg from public.workout_sessions w"
                " join public.session_exercise_part p on p.session_id = w.id"
                " join public.session_sets s on s.part_id = p.id where w.user_id = :user"
                " union all select r.exercise_id, r.achieved_on::text, r.one_rm_kg"
                " from public.user_manual_pr_records r where r.user_id = :user",
                user=self.account.user_id,
            )
            by_id = {id: name for name, id in self.account.exercises.items()}
            return Counter((by_id[id], day, value) for id, day, value in rows)

    run_state_machine_as_test(
        Edits,
        settings=settings(
            max_examples=12, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_merged_writes_are_dirty_over_their_union(app_account):
    app_account.save(app_account.block("Squat", (100, 5)), session_date="2026-03-10")
    app_account.save(app_account.block("Bench", (80, 5)), session_date="2026-02-10")
    app_account.delete(
        app_account.save(app_account.block("Row", (80, 5)), session_date="2026-04-10")["session_id"]
    )

    assert _pending_range(app_account) == ("2026-02-10", {"Squat", "Bench", "Row"})


def test_a_replayed_or_refused_write_dirties_nothing(app_account, range_of):
    payload = app_account.payload()
    app_account.save_payload(payload)
    before = app_account.jobs("requested_version", "metadata", "updated_at")

    app_account.save_payload(payload)
    with pytest.raises(Exception, match="no such session"):
        app_account.delete(str(uuid.uuid4()))

    assert app_account.jobs("requested_version", "metadata", "updated_at") == before
