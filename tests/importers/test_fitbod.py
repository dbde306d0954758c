"""Fitbod exports: workouts out of the times of their sets, units, odd rows."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from core.errors import OperatorError
from importers.fitbod import parse

COLUMNS = "Date,Exercise,Reps,Weight(kg),Duration(s),Distance(m),Incline,Resistance,isWarmup,Note,multiplier"
BENCH = "2026-03-03 10:02:51 +0100,Barbell Bench Press,10,60.0,0.0,0.0,0.0,0.0,false,,1.0"


@pytest.fixture
def export(tmp_path):
    """Return what writes a Fitbod export of the given data lines."""

    def write(*lines, columns=COLUMNS):
        path = tmp_path / "fitbod.csv"
        path.write_text("\n".join([columns, *lines]) + "\n", encoding="utf-8")
        return path

    return write


def at(time, exercise="Squat", reps="5", weight="100", is_warmup="false", note="", multiplier="1.0"):
    return f"2026-03-03 {time} +0100,{exercise},{reps},{weight},0,0,0,0,{is_warmup},{note},{multiplier}"


def sets(history):
    return [a_set for session in history.sessions for a_set in session.sets()]


def test_a_set_is_read_as_printed(export):
    history = parse(
        export(
            at("10:02:51", is_warmup="true", weight="40.5", note="slow"),
            "2026-03-03 10:05:00 +0100,Running - Treadmill,0,0.0,240.0,1000.0,2.0,3.0,false,,0.0",
        ),
        None,
    )
    [session] = history.sessions
    assert (session.session_date, session.started_at_local) == (
        date(2026, 3, 3),
        datetime(2026, 3, 3, 10, 2, 51),
    )
    assert (session.title, session.source_ref) == (None, "2026-03-03T10:02:51")
    squat, run = session.sets()
    assert (squat.set_type, squat.weight_kg, squat.reps) == ("warmup", Decimal("40.5"), 5)
    assert (run.reps, run.distance_m, run.duration_seconds) == (None, 1000, 240)
    assert session.blocks[0].notes == "slow"
    assert history.tracking == {"Squat": "weight_reps", "Running - Treadmill": "distance_duration"}


def test_the_multiplier_changes_no_weight(export):
    assert [a_set.weight_kg for a_set in sets(parse(export(at("10:00:00", multiplier="2.0")), None))] == [100]


def test_pounds_in_the_header(export):
    [done] = sets(parse(export(BENCH, columns=COLUMNS.replace("kg", "lbs")), "lbs"))
    assert done.weight_kg == Decimal("27.22")


def test_sets_less_than_three_hours_apart_are_one_workout(export):
    history = parse(
        export(at("08:00:00"), at("10:59:59"), at("13:59:58"), at("16:59:58"), at("23:00:00")), None
    )
    assert [(session.started_at_local.hour, len([*session.sets()])) for session in history.sessions] == [
        (8, 3),
        (16, 1),
        (23, 1),
    ]


def test_a_file_with_the_newest_set_first_gives_the_same_sessions(export):
    lines = [at(f"{hour:02}:{minute:02}:00", reps=str(hour)) for hour in (8, 9, 14) for minute in (0, 10)]
    there = parse(export(*lines), None)
    seen = [(s.started_at_local, [a_set.reps for a_set in s.sets()]) for s in there.sessions]
    back = parse(export(*reversed(lines)), None)
    assert sorted((s.started_at_local, [a_set.reps for a_set in s.sets()]) for s in back.sessions) == seen


def test_another_day_is_another_workout_however_short_the_pause(export):
    history = parse(export(at("23:59:00"), at("00:01:00").replace("03-03", "03-04")), None)
    assert [session.session_date.day for session in history.sessions] == [3, 4]


@pytest.mark.parametrize("name", ["Assisted Pull Up", "Machine Assisted Dip"])
def test_assistance_is_printed_as_a_weight(export, name):
    history = parse(export(at("10:00:00", exercise=name, weight="30")), None)
    assert (history.tracking[name], history.taken) == ("assisted_reps", 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (at("10:00:00", is_warmup="maybe"), 'isWarmup "maybe" is neither true nor false'),
        (at("10:"), 'Date "2026-03-03 10: +0100" is not like 2024-12-31 18:30:00 +0000'),
        (at("25:00:00"), 'Date "2026-03-03 25:00:00 +0100" is not like 2024-12-31 18:30:00 +0000'),
        (at("10:00:00", exercise=""), "no exercise"),
        (at("10:00:00", reps="many"), 'Reps "many" is not a number'),
        ("2026-03-03 10:00:00 +0100,Squat", "2 columns instead of 11"),
    ],
)
def test_a_broken_row_is_skipped_and_the_rest_goes_in(export, line, reason):
    history = parse(export(BENCH, line, BENCH), None)
    assert [(row.line, row.reason) for row in history.skipped] == [(3, reason)]
    assert history.taken == 2


@pytest.mark.parametrize(
    ("columns", "unit", "problem"),
    [
        (COLUMNS, "lb", "--unit lb contradicts the file, whose weights are in kg"),
        (COLUMNS.replace("Weight(kg)", "Weight"), None, "does not say its weight unit"),
        (COLUMNS.replace("Weight(kg)", "Weight(st)"), None, 'found Weight in "st", not a known unit'),
        (COLUMNS.replace("Incline", "Mood"), None, 'found another column "Mood"'),
        (COLUMNS.replace("isWarmup", "Warm"), None, "without isWarmup|expected a Fitbod export"),
    ],
)
def test_strange_columns_are_refused(export, columns, unit, problem):
    with pytest.raises(OperatorError, match=problem):
        parse(export(BENCH, columns=columns), unit)
