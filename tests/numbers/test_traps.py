"""What real histories contain and statistics get wrong: each with its right value, and equal to the reckoning."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from reckoning.fetch import fetch_account, fetch_policy
from reckoning.pr_summaries import pr_summaries
from sqlalchemy import text
from support.published import READ_MODELS

FIRST, SECOND, THIRD = date(2024, 3, 12), date(2024, 3, 14), date(2024, 3, 16)
TODAY = datetime.now(UTC).date()


@pytest.fixture
def squat(app_account):
    return app_account.exercise("Squat")


def save(account, day, *sets, exercise="Squat", **fields):
    """Save a session of one exercise and return its id."""
    return account.save(account.block(exercise, *sets), session_date=str(day), **fields)["session_id"]


# --- records: who holds them


def test_the_first_log_is_a_baseline_and_counts_nowhere(app_account, seen, settled, squat):
    save(app_account, TODAY, (100, 5))
    settled()

    assert seen.records(squat, "weight") == {("weight", TODAY): 100}
    assert seen.summary(squat, "records_30d", "sessions_30d") == (0, 1)
    assert seen.periods("day", "record_count") == {TODAY: (0,)}
    assert seen.calendar("record_count") == {TODAY: (0,)}


def test_a_tie_makes_no_record_and_the_earliest_keeps_the_rep_max(app_account, seen, settled, squat):
    save(app_account, FIRST, (100, 5))
    save(app_account, SECOND, (100, 5))
    settled()

    assert seen.records(squat, "weight", "e1rm") == {
        ("weight", FIRST): 100,
        ("e1rm", FIRST): Decimal("112.5"),
    }
    assert seen.rep_maxes(squat) == dict.fromkeys(range(1, 6), (100, FIRST))


def test_a_tie_within_a_day_goes_to_the_session_that_began_first(database, app_account, seen, settled, squat):
    """Those without a time come last, and among equals the smaller id."""
    timeless = [save(app_account, TODAY, (100, 5)) for _ in range(2)]
    evening = save(app_account, TODAY, (100, 5), started_at=f"{TODAY}T18:00:00Z")
    morning = save(app_account, TODAY, (100, 5), started_at=f"{TODAY}T07:00:00Z")

    for holder in (morning, evening, *sorted(timeless)):
        settled()
        assert seen.rollup(squat, TODAY, "first_session_id::text") == (holder,)
        assert (
            seen.summary(squat, "best_weight_session_id::text", "best_e1rm_session_id::text") == (holder,) * 2
        )
        for table in ("user_exercise_records", "user_exercise_rep_maxes"):
            assert database.admin(
                f"select distinct session_id::text from public.{table} where exercise_id = :id", id=squat
            ) == [(holder,)], table
        app_account.delete(holder)
    settled()
    assert seen.records(squat) == {}


def test_a_tie_within_a_session_goes_to_the_first_block_and_makes_one_record(
    app_account, seen, settled, squat
):
    app_account.save(
        app_account.block("Squat", (100, 5), (100, 5)),
        app_account.block("Squat", (100, 5)),
        session_date=str(FIRST),
    )
    settled()

    assert seen.records(squat, "weight", "set_volume", "day_volume") == {
        ("weight", FIRST): 100,
        ("set_volume", FIRST): 500,
        ("day_volume", FIRST): 1500,
    }
    assert seen.rollup(squat, FIRST, "top_weight_kg", "top_weight_reps") == (100, 5)


def test_more_reps_with_the_same_weight_take_over_only_what_the_earlier_set_did_not_reach(
    app_account, seen, settled, squat
):
    save(app_account, FIRST, (100, 5))
    save(app_account, SECOND, (100, 8))
    settled()

    assert seen.rep_maxes(squat) == {reps: (100, FIRST if reps <= 5 else SECOND) for reps in range(1, 9)}


@pytest.mark.parametrize("end", ["delete", "shrink"])
def test_the_runner_up_is_promoted_when_the_holder_goes(app_account, seen, settled, squat, end):
    save(app_account, FIRST, (100, 5))
    holder = save(app_account, SECOND, (140, 5))
    save(app_account, THIRD, (120, 5))
    settled()
    assert seen.records(squat, "weight") == {("weight", FIRST): 100, ("weight", SECOND): 140}
    assert seen.rep_maxes(squat)[5] == (140, SECOND)

    if end == "delete":
        app_account.delete(holder)
    else:
        save(app_account, SECOND, (90, 5), session_id=holder)
    settled()

    assert seen.records(squat, "weight") == {("weight", FIRST): 100, ("weight", THIRD): 120}
    assert seen.rep_maxes(squat) == dict.fromkeys(range(1, 6), (120, THIRD))
    assert seen.summary(squat, "best_weight_kg", "best_weight_on") == (120, THIRD)


def test_a_runner_up_of_long_ago_comes_back_although_nothing_older_is_read_again(
    app_account, seen, settled, squat
):
    save(app_account, date(2020, 1, 1), (130, 3))
    holder = save(app_account, THIRD, (135, 3))
    settled()

    app_account.delete(holder)
    settled()

    assert seen.rep_maxes(squat) == {reps: (130, date(2020, 1, 1)) for reps in range(1, 4)}


def test_conversion_noise_between_pounds_and_kilograms_makes_no_record(app_account, seen, settled, squat):
    save(app_account, FIRST, (102.06, 5))
    save(app_account, SECOND, (102.0583, 5))  # 225 lb, as one app exports it
    save(app_account, THIRD, (102.0598, 5))  # and as another rounds it
    settled()

    assert seen.records(squat, "weight") == {("weight", FIRST): Decimal("102.06")}


def test_a_typo_of_reps_is_a_record_until_it_is_corrected(app_account, seen, settled, squat):
    save(app_account, FIRST, (60, 8))
    typo = save(app_account, SECOND, (60, 877_777))
    settled()
    assert seen.records(squat, "reps") == {("reps", FIRST): 8, ("reps", SECOND): 877_777}
    assert seen.rollup(squat, SECOND, "reps", "volume_kg", "best_e1rm_kg") == (877_777, 52_666_620, None)
    assert seen.rep_maxes(squat)[12] == (60, SECOND)

    save(app_account, SECOND, (60, 7), session_id=typo)
    settled()

    assert seen.records(squat, "reps") == {("reps", FIRST): 8}
    assert seen.periods("year", "reps", "volume_kg") == {date(2024, 1, 1): (15, 900)}
    assert set(seen.rep_maxes(squat)) == set(range(1, 9))


# --- sets: what counts


def test_warm_ups_are_sets_that_do_not_work(app_account, seen, settled, squat):
    warm_up = {"set_type": "warmup", "weight_kg": 200, "reps": 10}
    save(app_account, FIRST, warm_up, (100, 5))
    save(app_account, SECOND, warm_up)
    settled()

    assert seen.rollup(squat, FIRST, "sets", "working_sets", "top_weight_kg") == (2, 1, 100)
    assert seen.rollup(squat, SECOND, "sets") is None
    assert seen.rep_maxes(squat)[5] == (100, FIRST)
    assert seen.calendar("sessions", "exercises", "working_sets") == {FIRST: (1, 1, 1), SECOND: (1, 0, 0)}


def test_failure_and_drop_sets_work_and_unfinished_ones_do_not(app_account, seen, settled, squat):
    save(
        app_account,
        FIRST,
        {"set_type": "failure", "weight_kg": 100, "reps": 5},
        {"set_type": "drop", "weight_kg": 80, "reps": 9},
        {"weight_kg": 150, "reps": 1, "is_completed": False},
        {"weight_kg": 150, "reps": 0},
    )
    settled()

    assert seen.rollup(squat, FIRST, "sets", "working_sets", "volume_kg") == (3, 2, 1220)
    assert seen.rep_maxes(squat) == {n: (100 if n <= 5 else 80, FIRST) for n in range(1, 10)}


def test_assisted_reps_have_records_of_reps_and_least_assistance_only(app_account, seen, settled):
    dip = app_account.exercise("Dip", "assisted_reps")
    save(app_account, FIRST, (30, 8), exercise="Dip")
    save(app_account, SECOND, (20, 8), exercise="Dip")
    save(app_account, THIRD, (0, 9), exercise="Dip")
    settled()

    assert seen.records(dip) == {
        ("reps", FIRST): 8,
        ("reps", THIRD): 9,
        ("least_assistance", FIRST): 30,
        ("least_assistance", SECOND): 20,
        ("least_assistance", THIRD): 0,
    }
    assert seen.rollup(dip, FIRST, "volume_kg", "top_weight_kg", "best_e1rm_kg") == (0, None, None)
    assert seen.rep_maxes(dip) == {}


def test_only_the_added_load_of_bodyweight_reps_counts(app_account, seen, settled):
    pull_up = app_account.exercise("Pull-up", "bodyweight_reps")
    save(app_account, FIRST, (None, 12), (0, 10), (10, 5), exercise="Pull-up")
    settled()

    assert seen.rollup(pull_up, FIRST, "reps", "volume_kg", "top_weight_kg") == (27, 50, 10)
    assert seen.rep_maxes(pull_up) == dict.fromkeys(range(1, 6), (10, FIRST))


def test_one_rep_is_the_weight_itself_and_thirteen_have_no_estimate(app_account, seen, settled, squat):
    save(app_account, FIRST, (100, 1))
    save(app_account, SECOND, (95, 13))
    settled()

    assert seen.rollup(squat, FIRST, "best_e1rm_kg") == (100,)
    assert seen.rollup(squat, SECOND, "best_e1rm_kg") == (None,)
    assert seen.rep_maxes(squat) == {
        n: (100 if n == 1 else 95, FIRST if n == 1 else SECOND) for n in range(1, 13)
    }


def test_an_estimate_ends_with_twelve_reps_and_is_rounded_half_up(app_account, seen, settled, squat):
    save(app_account, FIRST, (100, 12))
    save(app_account, SECOND, (100.04, 5))  # 112.545 exactly
    settled()

    assert seen.rollup(squat, FIRST, "best_e1rm_kg") == (144,)
    assert seen.rollup(squat, SECOND, "best_e1rm_kg") == (Decimal("112.55"),)


@pytest.mark.parametrize("tracking", ["weight_duration", "weight_distance"])
def test_a_weight_without_reps_is_a_record_and_no_volume(app_account, seen, settled, tracking):
    carry = app_account.exercise("Carry", tracking)
    save(
        app_account,
        FIRST,
        {"weight_kg": 40, "duration_seconds": 60, "distance_m": 30},
        {"weight_kg": 90},  # did nothing
        exercise="Carry",
    )
    settled()

    assert seen.records(carry) == {
        ("weight", FIRST): 40,
        ("duration", FIRST): 60,
        ("distance", FIRST): 30,
    }
    assert seen.rollup(carry, FIRST, "working_sets", "volume_kg", "best_e1rm_kg") == (1, 0, None)
    assert seen.rep_maxes(carry) == {}


def test_no_load_makes_reps_and_nothing_else(app_account, seen, settled, squat):
    save(app_account, FIRST, (0, 10), (None, 3))
    settled()

    assert seen.records(squat) == {("reps", FIRST): 10}
    assert seen.rollup(squat, FIRST, "volume_kg", "top_weight_kg", "best_e1rm_kg") == (0, None, None)
    assert seen.rep_maxes(squat) == {}


def test_one_exercise_in_two_blocks_is_one_exercise(app_account, seen, settled, squat):
    app_account.save(
        app_account.block("Squat", (100, 5)),
        app_account.block("Bench", (60, 5)),
        app_account.block("Squat", (110, 2)),
        session_date=str(FIRST),
    )
    settled()

    assert seen.rollup(squat, FIRST, "sessions", "working_sets", "volume_kg", "top_weight_kg") == (
        1,
        2,
        720,
        110,
    )
    assert seen.periods("week", "exercises") == {date(2024, 3, 11): (2,)}


# --- days


def test_two_sessions_a_day_are_one_active_day_and_the_first_holds_the_tie(app_account, seen, settled, squat):
    evening = save(
        app_account, FIRST, (100, 5), started_at="2024-03-12T18:00:00Z", title="Evening", duration_seconds=600
    )
    morning = save(
        app_account, FIRST, (100, 5), started_at="2024-03-12T07:00:00Z", title="Morning", duration_seconds=300
    )
    save(app_account, FIRST, (20, 5))
    settled()

    assert evening != morning
    assert seen.rollup(squat, FIRST, "sessions", "first_session_id::text") == (3, morning)
    assert seen.calendar("sessions", "titles", "duration_seconds") == {
        FIRST: (3, ["Morning", "Evening"], 900)
    }
    assert seen.periods("month", "sessions", "active_days", "exercises") == {date(2024, 3, 1): (3, 1, 1)}


def test_a_session_after_midnight_belongs_to_the_day_that_the_client_sent(app_account, seen, settled, squat):
    save(app_account, FIRST, (100, 5), started_at="2024-03-13T04:30:00Z")
    settled()

    assert seen.rollup(squat, FIRST, "sets") == (1,)
    assert list(seen.calendar("sessions")) == [FIRST]


def test_a_week_that_reaches_into_the_next_year_is_one_week(app_account, seen, settled, squat):
    save(app_account, date(2020, 12, 28), (100, 5))  # Monday of ISO week 53
    save(app_account, date(2020, 12, 31), (100, 5), exercise="Bench")
    new_year = save(app_account, date(2021, 1, 1), (100, 5))
    save(app_account, date(2021, 1, 4), (100, 5))
    settled()
    assert seen.periods("week", "sessions", "exercises") == {
        date(2020, 12, 28): (3, 2),
        date(2021, 1, 4): (1, 1),
    }
    assert seen.periods("quarter", "sessions", "exercises") == {
        date(2020, 10, 1): (2, 2),
        date(2021, 1, 1): (2, 1),
    }
    assert seen.periods("year", "sessions") == {date(2020, 1, 1): (2,), date(2021, 1, 1): (2,)}

    # Of that week only the day in the new year is dirty now.
    save(app_account, date(2021, 1, 1), (100, 7), session_id=new_year)
    settled()

    assert seen.periods("week", "exercises", "reps")[date(2020, 12, 28)] == (2, 17)
    assert seen.periods("month", "reps") == {date(2020, 12, 1): (10,), date(2021, 1, 1): (12,)}


def test_29_february_looks_at_the_thirty_days_to_28_february_of_last_year(
    database, app_account, settled, squat
):
    save(app_account, date(2023, 1, 29), (140, 1))
    save(app_account, date(2023, 1, 30), (100, 1))
    save(app_account, date(2023, 2, 28), (110, 1))
    save(app_account, date(2023, 3, 1), (150, 1))
    settled()
    leap_day = date(2024, 2, 29)

    with database.admin_engine.connect() as connection:
        connection.execute(
            text(
                "select stats_private.project(:run, :user, (select p from public.stats_projection_policy p),"
                " '-infinity', array(select stats_private.candidate_exercises(:user, '{}')), '{}', :day)"
            ),
            {"run": uuid4(), "user": app_account.user_id, "day": leap_day},
        )
        rows = connection.exec_driver_sql(
            "select as_of_date, weight_30d_last_year_kg from stats_private.stats_output_pr_summaries where op = 'i'"
        )
        projected = dict(tuple(row) for row in rows)
        reckoned = pr_summaries(
            fetch_account(connection, app_account.user_id), fetch_policy(connection), list(projected)
        )

    assert projected == {leap_day - timedelta(1): 110, leap_day: 110, leap_day + timedelta(1): 150}
    assert projected == {day: row["weight_30d_last_year_kg"] for (day, _), row in reckoned.items()}


def test_without_training_a_year_ago_last_years_values_are_null(app_account, seen, settled, squat):
    save(app_account, TODAY, (100, 5))
    settled()

    assert seen.summary(squat, "weight_30d_kg", "weight_30d_last_year_kg", "e1rm_30d_last_year_kg") == (
        100,
        None,
        None,
    )


# --- what disappears


def test_an_exercise_whose_last_set_is_deleted_is_gone_everywhere(app_account, published, settled, squat):
    only = save(app_account, TODAY, (100, 5))
    settled()
    assert all(published(app_account.user_id).values())

    app_account.delete(only)
    settled()

    assert not any(published(app_account.user_id).values())


def test_an_exercise_that_an_edit_takes_out_of_its_last_session_is_gone_everywhere(
    database, app_account, published, settled, squat
):
    both = [app_account.block("Squat", (100, 5)), app_account.block("Bench", (60, 5))]
    session = app_account.save(*both, session_date=str(TODAY))["session_id"]
    settled()
    assert named_in(published(app_account.user_id), squat) == len(READ_MODELS) - 2

    app_account.save(both[1], session_date=str(TODAY), session_id=session)
    settled()

    rows = published(app_account.user_id)
    assert named_in(rows, squat) == 0
    assert named_in(rows, app_account.exercise("Bench")) == len(READ_MODELS) - 2
    assert database.admin(
        "select exercises from public.user_pr_overview_snapshot_headers order by as_of_date"
    ) == [(0,), (1,), (1,)]


def named_in(rows, exercise_id):
    """How many read models name the exercise; periods and days name none."""
    return sum(any(exercise_id in row for row in of_table) for of_table in rows.values())


def test_a_session_that_moves_leaves_nothing_where_it_was(app_account, seen, settled, squat):
    moved = save(app_account, date(2024, 3, 12), (100, 5))
    settled()

    save(app_account, date(2023, 11, 1), (100, 5), session_id=moved)
    settled()
    assert seen.records(squat, "weight") == {("weight", date(2023, 11, 1)): 100}
    assert list(seen.periods("month", "sessions")) == [date(2023, 11, 1)]

    save(app_account, date(2024, 5, 1), (100, 5), session_id=moved)
    settled()
    assert list(seen.calendar("sessions")) == [date(2024, 5, 1)]
    assert list(seen.periods("year", "sessions")) == [date(2024, 1, 1)]


def test_a_change_of_tracking_changes_all_history(app_account, seen, settled, squat):
    save(app_account, FIRST, (100, 5))
    save(app_account, SECOND, (110, 5))
    settled()
    assert seen.rep_maxes(squat)

    app_account.call(
        "select public.upsert_exercise_v1('Squat', 'reps_only', :user, :exercise)", exercise=squat
    )
    settled()

    assert seen.records(squat) == {("reps", FIRST): 5}
    assert seen.rep_maxes(squat) == {}
    assert seen.periods("year", "volume_kg", "reps", "record_count") == {date(2024, 1, 1): (0, 10, 0)}


def test_an_edit_of_the_title_alone_reaches_the_calendar(app_account, seen, settled):
    session = save(app_account, FIRST, (100, 5), title="Legs")
    settled()

    save(app_account, FIRST, (100, 5), title="Leg day", session_id=session)
    settled()

    assert seen.calendar("titles") == {FIRST: (["Leg day"],)}


def test_a_session_without_sets_is_still_a_session(app_account, seen, settled):
    save(app_account, FIRST, duration_seconds=1200, title="Stretching")
    settled()

    assert seen.calendar("sessions", "titles", "exercises", "duration_seconds") == {
        FIRST: (1, ["Stretching"], 0, 1200)
    }
    assert seen.periods("week", "sessions", "working_sets", "duration_seconds") == {
        date(2024, 3, 11): (1, 0, 1200)
    }


# --- manual records


def test_the_effective_one_rm_is_the_greater_of_manual_and_estimate(
    database, app_account, seen, settled, squat
):
    day = TODAY - timedelta(days=3)
    save(app_account, day, (100, 5))
    _set_manual_one_rm(database, app_account, squat, TODAY, Decimal("112.5"))
    settled()
    assert seen.summary(squat, "one_rm_kg", "one_rm_source", "one_rm_on") == (
        Decimal("112.5"),
        "manual",
        TODAY,
    )

    save(app_account, day, (110, 5))
    settled()
    assert seen.summary(squat, "one_rm_kg", "one_rm_source", "one_rm_on") == (
        Decimal("123.75"),
        "estimate",
        day,
    )


def test_the_manual_one_rm_is_the_highest_of_the_latest_day(database, app_account, seen, settled, squat):
    day = TODAY - timedelta(days=3)
    for one_rm in ("130", "140", "135"):
        _set_manual_one_rm(database, app_account, squat, day, Decimal(one_rm))
    settled()
    assert seen.summary(squat, "one_rm_kg", "one_rm_on") == (Decimal("140"), day)

    _set_manual_one_rm(database, app_account, squat, TODAY, Decimal("120"))
    settled()
    assert seen.summary(squat, "one_rm_kg", "one_rm_source", "one_rm_on") == (Decimal("120"), "manual", TODAY)


def test_an_exercise_with_only_a_manual_record_has_a_summary_and_nothing_else(
    database, app_account, published, settled, squat
):
    _set_manual_one_rm(database, app_account, squat, TODAY, Decimal("140"))
    settled()

    assert {table for table, rows in published(app_account.user_id).items() if rows} == {
        "public.user_pr_exercise_summary_snapshots"
    }


def _set_manual_one_rm(database, account, exercise_id, achieved_on, one_rm_kg):
    database.admin(
        "insert into public.user_manual_pr_records (user_id, exercise_id, achieved_on, one_rm_kg, source)"
        " values (:user, :exercise, :day, :one_rm, 'manual')",
        user=account.user_id,
        exercise=exercise_id,
        day=achieved_on,
        one_rm=one_rm_kg,
    )
    database.as_service()(
        "select public.enqueue_user_exercise_stats_refresh_job(:user, :day, array[:exercise], 'manual_pr_changed')",
        user=account.user_id,
        day=achieved_on,
        exercise=exercise_id,
    )
