"""FitNotes exports: days as sessions, identical rows, units, commas that nobody quoted."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from core.errors import OperatorError
from importers.fitnotes import parse

COLUMNS = "Date,Exercise,Category,Weight (kgs),Reps,Distance,Distance Unit,Time"
WITH_UNITS = "Date,Exercise,Category,Weight,Weight Unit,Reps,Distance,Distance Unit,Time,Comment"
BENCH = "2024-01-08,Bench Press,Chest,60.0,8,,,"


@pytest.fixture
def export(tmp_path):
    """Return what writes a FitNotes export of the given data lines."""

    def write(*lines, columns=COLUMNS):
        path = tmp_path / "fitnotes.csv"
        path.write_text("\n".join([columns, *lines]) + "\n", encoding="utf-8")
        return path

    return write


def sets(history):
    return [a_set for session in history.sessions for a_set in session.sets()]


def reasons(history):
    return [(skipped.line, skipped.reason) for skipped in history.skipped]


def test_each_day_is_one_session_without_a_time_of_day(export):
    history = parse(
        export(BENCH, "2024-01-08,Squat,Legs,100,5,,,", "2024-01-09,Squat,Legs,100,5,,,", BENCH), None
    )
    assert [
        (one.source_ref, one.session_date, one.started_at_local, one.title) for one in history.sessions
    ] == [
        ("2024-01-08", date(2024, 1, 8), None, None),
        ("2024-01-09", date(2024, 1, 9), None, None),
    ]
    assert [block.exercise for block in next(iter(history.sessions)).blocks] == [
        "Bench Press",
        "Squat",
        "Bench Press",
    ]


def test_identical_rows_are_separate_sets(export):
    history = parse(export(BENCH, BENCH, BENCH), None)
    assert [(done.weight_kg, done.reps) for done in sets(history)] == [(60, 8)] * 3


def test_pounds_in_the_header(export):
    history = parse(
        export("2024-01-08,Bench Press,Chest,135,8,,,", columns=COLUMNS.replace("kgs", "lbs")), None
    )
    assert sets(history)[0].weight_kg == Decimal("61.23")


def test_each_row_has_its_own_units(export):
    history = parse(
        export(
            "2024-01-08,Bench Press,Chest,135,lbs,8,,,,felt heavy",
            "2024-01-08,Bench Press,Chest,60,kgs,8,,,,",
            "2024-01-08,Run,Cardio,,,,5,km,0:25:30,",
            "2024-01-08,Run,Cardio,,,,1,mi,08:00,",
            "2024-01-08,Plank,Abs,0,kgs,0,,,0:01:30,",
            columns=WITH_UNITS,
        ),
        None,
    )
    pounds, kilograms, run, mile, plank = sets(history)
    assert (pounds.weight_kg, kilograms.weight_kg) == (Decimal("61.23"), 60)
    assert (run.distance_m, run.duration_seconds) == (5000, 1530)
    assert (mile.distance_m, mile.duration_seconds) == (Decimal("1609.34"), 480)
    assert (plank.weight_kg, plank.duration_seconds, plank.is_completed) == (None, 90, True)
    assert next(iter(history.sessions)).blocks[0].notes == "felt heavy"


def test_a_unit_that_stands_nowhere_is_asked_for(export):
    columns = COLUMNS.replace(" (kgs)", "")
    with pytest.raises(OperatorError, match=r"does not say its weight unit .*: pass --unit kg or --unit lb"):
        parse(export(BENCH, columns=columns), None)
    assert sets(parse(export(BENCH, columns=columns), "lb"))[0].weight_kg == Decimal("27.22")


def test_an_option_that_contradicts_the_file_is_an_error(export):
    with pytest.raises(OperatorError, match="--unit lb contradicts the file, whose weights are in kg"):
        parse(export(BENCH), "lb")


def test_a_comma_in_a_name_is_put_together_where_one_way_fits(export):
    history = parse(export(BENCH, "2024-01-08,Press, seated, slow,Chest,40,8,,,"), None)
    assert [block.exercise for block in next(iter(history.sessions)).blocks] == [
        "Bench Press",
        "Press, seated, slow",
    ]
    [remark] = history.remarks
    assert remark.line == 3
    assert '"Press, seated, slow"' in remark.text


def test_a_comma_in_a_comment_is_put_together(export):
    line = "2024-01-08,Bench Press,Chest,60,kgs,8,,,,{}"
    history = parse(export(line.format("slow"), line.format("heavy, done"), columns=WITH_UNITS), None)
    assert history.taken == 2
    assert next(iter(history.sessions)).blocks[0].notes == "slow\nheavy, done"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "2024-01-08,Press, seated,Shoulders,40,8,,,",
            "9 columns instead of 8: a comma that is not quoted, and no way to read it",
        ),
        ("2024-01-08,Press,Chest,Chest,40,8,,,", None),
        ("2024-01-08,Bench Press,Chest,60.0,8", "5 columns instead of 8"),
        ("08/01/2024,Bench Press,Chest,60.0,8,,,", 'Date "08/01/2024" is not like 2024-12-31'),
        ("2024-02-30,Bench Press,Chest,60.0,8,,,", 'Date "2024-02-30" is not like 2024-12-31'),
        ("2024-01-08,,Chest,60.0,8,,,", "no exercise"),
        ("2024-01-08,Bench Press,Chest,sixty,8,,,", 'Weight "sixty" is not a number'),
        ("2024-01-08,Run,Cardio,,,5,,0:25:00", 'Distance Unit "" is not a known unit'),
        ("2024-01-08,Run,Cardio,,,5,km,soon", 'Time "soon" is not like 0:01:30'),
        ("2024-01-08,Bench Press,Chest,60.0,8,,,,,,,,,,,,", "17 columns instead of 8"),
    ],
)
def test_what_cannot_be_told_is_reported_with_its_line(export, line, reason):
    history = parse(export(BENCH, line, BENCH), None)
    assert reasons(history) == ([] if reason is None else [(3, reason)])
    assert history.taken + len(history.skipped) == history.data_rows == 3


def test_nothing_done_and_assistance(export):
    history = parse(export("2024-01-08,Squat,Legs,,,,,", "2024-01-08,Chin Up,Back,-20,6,,,"), None)
    empty, assisted = sets(history)
    assert not empty.is_completed
    assert (assisted.weight_kg, history.tracking["Chin Up"]) == (-20, "assisted_reps")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            "title,start_time,exercise_title,set_index,set_type,reps",
            "looks like a Hevy export: pass --format hevy",
        ),
        (COLUMNS.replace("kgs", "st"), 'found Weight in "st", not kgs or lbs'),
        (COLUMNS + ",Mood", 'found another column "Mood"'),
    ],
)
def test_strange_columns_are_refused(export, columns, problem):
    with pytest.raises(OperatorError, match=problem):
        parse(export(BENCH, columns=columns), None)
