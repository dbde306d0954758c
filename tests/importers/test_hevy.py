"""Hevy exports: the real file, units in the columns' names, times in many languages, odd rows."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from core.errors import OperatorError
from importers.cells import BrokenRowError
from importers.hevy import parse
from importers.history import NOT_A_SET
from importers.printed_times import Dates

COLUMNS = (
    "title,start_time,end_time,description,exercise_title,superset_id,exercise_notes,set_index,set_type,"
    "weight_kg,reps,distance_km,duration_seconds,rpe"
)


@pytest.fixture
def export(tmp_path):
    """Return what writes a Hevy export of the given data lines."""

    def write(*lines, columns=COLUMNS):
        path = tmp_path / "hevy.csv"
        path.write_text("\n".join([columns, *lines]) + "\n", encoding="utf-8")
        return path

    return write


def row(
    *,
    title="Push",
    start="30 Jun 2025, 19:56",
    end="30 Jun 2025, 20:58",
    description="",
    exercise="Bench",
    notes="",
    index="0",
    set_type="normal",
    weight="60",
    reps="8",
    distance="",
    seconds="",
    rpe="",
    superset="",
):
    return (
        f'"{title}","{start}","{end}","{description}","{exercise}",{superset},"{notes}",{index},"{set_type}",'
        f"{weight},{reps},{distance},{seconds},{rpe}"
    )


def sets(history):
    return [a_set for session in history.sessions for a_set in session.sets()]


def reasons(history):
    return [(skipped.line, skipped.reason) for skipped in history.skipped]


def test_the_real_file(real_file):
    history = parse(real_file("hevy-kg-small.csv"), None)
    assert (len(history.sessions), history.taken, len(history.skipped)) == (17, 330, 0)
    first = next(iter(history.sessions))
    assert first.title == "Monday ? You mean international CHEST DAY !"
    assert first.started_at_local == datetime(2025, 6, 30, 19, 56)
    assert first.duration_seconds == 62 * 60
    assert [block.exercise for block in first.blocks][:2] == [
        "Incline Bench Press (Dumbbell)",
        "Bench Press (Dumbbell)",
    ]
    assert {session.title for session in history.sessions} >= {"Evening workout 🏋️"}


# --- units


def test_pounds_and_miles(export):
    columns = COLUMNS.replace("weight_kg", "weight_lbs").replace("distance_km", "distance_miles")
    history = parse(
        export(
            row(weight="135"),
            row(exercise="Run", weight="", reps="", distance="2", seconds="1200"),
            columns=columns,
        ),
        None,
    )
    lift, run = sets(history)
    assert lift.weight_kg == Decimal("61.23")
    assert (run.distance_m, run.duration_seconds) == (Decimal("3218.69"), 1200)
    assert history.tracking == {"Bench": "weight_reps", "Run": "distance_duration"}


def test_kilometres(export):
    [run] = sets(parse(export(row(weight="", reps="", distance="2.5")), "kg"))
    assert run.distance_m == 2500


def test_an_option_that_contradicts_the_file_is_an_error(export):
    with pytest.raises(OperatorError, match="--unit lb contradicts the file, whose weights are in kg"):
        parse(export(row()), "lb")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (COLUMNS.replace("weight_kg", "weight_kg,weight_lbs"), "found both weight_kg and weight_lbs"),
        (
            COLUMNS.replace("distance_km", "distance_km,distance_miles"),
            "found both distance_km and distance_miles",
        ),
        (COLUMNS.replace("weight_kg,", ""), "with a column weight_kg or weight_lbs"),
        (COLUMNS.replace("rpe", "mood"), 'found another column "mood"'),
        (
            "Date,Workout Name,Exercise Name,Set Order,Weight,Reps",
            "looks like a Strong export: pass --format strong",
        ),
    ],
)
def test_strange_columns_are_refused(export, columns, problem):
    with pytest.raises(OperatorError, match=problem):
        parse(export(row(), columns=columns), None)


# --- sets and blocks


@pytest.mark.parametrize(
    ("printed", "set_type"),
    [("normal", "normal"), ("warmup", "warmup"), ("dropset", "drop"), ("failure", "failure"), ("", "normal")],
)
def test_set_types(export, printed, set_type):
    [done] = sets(parse(export(row(set_type=printed)), None))
    assert done.set_type == set_type


def test_an_unknown_set_type_is_a_normal_set_and_said(export):
    history = parse(export(row(), row(set_type="myo"), row(set_type="myo", weight="", reps="")), None)
    assert [done.set_type for done in sets(history)] == ["normal", "normal"]
    assert [(remark.line, remark.text) for remark in history.remarks] == [
        (3, '"myo" is no mark of a set that is known: read as a normal set')
    ]
    assert reasons(history) == [(4, NOT_A_SET)]


def test_supersets_are_numbered_in_each_session(export):
    lines = [
        row(exercise="Bench", superset="7"), row(exercise="Bench", superset="7", index="1"),
        row(exercise="Row", superset="7"), row(exercise="Dip"), row(exercise="Curl", superset="0"),
        row(exercise="Press", superset="0"), row(exercise="Squat", superset="1", start="1 Jul 2025, 19:56", end=""),
    ]  # fmt: skip
    first, second = parse(export(*lines), None).sessions
    assert [(block.exercise, block.superset, len(block.sets)) for block in first.blocks] == [
        ("Bench", 1, 2),
        ("Row", 1, 1),
        ("Dip", None, 1),
        ("Curl", 2, 1),
        ("Press", 2, 1),
    ]
    assert [(block.exercise, block.superset) for block in second.blocks] == [("Squat", 1)]


def test_set_index_zero_begins_another_block_of_the_same_exercise(export):
    history = parse(export(row(), row(index="1"), row(index="0"), row(exercise="Row")), None)
    blocks = next(iter(history.sessions)).blocks
    assert [(block.exercise, len(block.sets)) for block in blocks] == [("Bench", 2), ("Bench", 1), ("Row", 1)]


def test_identical_rows_are_separate_sets(export):
    assert parse(export(row(index="1"), row(index="1")), None).taken == 2


def test_nothing_done_and_assistance(export):
    history = parse(export(row(weight="", reps=""), row(exercise="Chin", weight="-20")), None)
    empty, assisted = sets(history)
    assert (empty.is_completed, empty.weight_kg, empty.reps) == (False, None, None)
    assert (assisted.weight_kg, history.tracking["Chin"]) == (-20, "assisted_reps")


def test_line_breaks_in_notes_are_real_or_literal(export):
    history = parse(
        export(
            row(notes="one\\ntwo", description="first\nsecond"),
            row(index="1", notes="one\\ntwo"),
            row(exercise="Row"),
        ),
        None,
    )
    [session] = history.sessions
    assert session.blocks[0].notes == "one\ntwo"
    assert session.notes == "first\nsecond"
    assert [a_set.line for a_set in session.sets()] == [2, 4, 5]


@pytest.mark.parametrize("end", ["30 Jun 2025, 19:00", "30 Jun 2026, 19:56", "later"])
def test_an_impossible_end_costs_the_duration_and_no_set(export, end):
    history = parse(export(row(end=end)), None)
    assert history.taken == 1
    assert next(iter(history.sessions)).duration_seconds is None
    assert "the duration was left out" in next(iter(history.remarks)).text


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (row(exercise=""), "no exercise_title"),
        (row(reps="8.5"), 'reps "8.5" is not a whole number'),
        (row(start="Sometime"), 'start_time "Sometime" is not like 31 Dec 2024, 18:30'),
        (row(rpe="11"), 'rpe "11" is not between 0 and 10'),
        ("Push,broken", "2 columns instead of 14"),
    ],
)
def test_a_broken_row_is_skipped_and_the_rest_goes_in(export, broken, reason):
    history = parse(export(row(), broken, row(index="1")), None)
    assert reasons(history) == [(3, reason)]
    assert history.taken == 2


# --- times


@pytest.mark.parametrize(
    "printed",
    [
        "30 Jun 2025, 19:56",
        "30 June 2025, 19:56",
        "Jun 30, 2025, 7:56 PM",
        "Jun 30, 2025, 7:56\u202fPM",
        "30 Jun 2025, 7:56 p.m.",
        "2025-06-30 19:56:00",
        "2025-06-30T19:56:00",
        "30. Juni 2025, 19:56",
        "30 Juni 2025 um 19:56",
        "30 jun 2025, 19:56",
        "30 jun. 2025, 19:56",
        "30 de junio de 2025, 19:56",
        "30 juin 2025, 19:56",
        "30 juin 2025 à 19:56",
        "30 giu 2025, 19:56",
        "30 de jun. de 2025, 19:56",
        "30 Haz 2025, 19:56",
        "30 6월 2025, 19:56",
        "2025년 6월 30일 19:56",
        "2025년 6월 30일 오후 7:56",
        "2025年6月30日 19:56",
        "30 июня 2025 г., 19:56",
        "30 cze 2025, 19:56",
        "30.06.2025, 19:56",
    ],
)
def test_the_same_time_in_many_languages(printed):
    assert Dates([printed]).read("start_time", printed) == datetime(2025, 6, 30, 19, 56)


@pytest.mark.parametrize(
    ("abbreviations", "month"),
    [
        ("Jan ene gen janv oca", 1), ("Feb fév févr fev Şub", 2), ("Mar Mär Mrz mars mrt", 3),
        ("Apr abr avr Nis", 4), ("May Mai mag mei", 5), ("Jun giu Haz juin", 6), ("Jul juil lug Tem", 7),
        ("Aug ago août Ağu", 8), ("Sep Sept set sett Eyl", 9), ("Oct Okt ott out Eki", 10),
        ("Nov Kas", 11), ("Dec Dez dic déc dez Ara", 12),
    ],
)  # fmt: skip
def test_abbreviated_months(abbreviations, month):
    for word in abbreviations.split():
        assert Dates([]).read("start_time", f"5 {word} 2025, 06:07") == datetime(2025, month, 5, 6, 7)


@pytest.mark.parametrize(
    "printed", ["31 Feb 2025, 12:00", "5 jui 2025, 12:00", "5 Brumaire 2025, 12:00", "5 Jun 2025", "5 Jun 25, 12:00",
                "5 6 Jun 2025, 12:00", "5 Jun 2025, 13:00 PM", "5 Jun 2025, 25:00", ""]
)  # fmt: skip
def test_times_that_cannot_be_told(printed):
    with pytest.raises(BrokenRowError, match="is not like 31 Dec 2024, 18:30"):
        Dates([]).read("start_time", printed)


@pytest.mark.parametrize(
    ("other", "month", "day"),
    [("13/01/2025, 10:00", 6, 5), ("01/13/2025, 10:00", 5, 6), ("05.06.2025, 10:00", 6, 5)],
)
def test_another_day_of_the_file_tells_day_and_month_apart(export, other, month, day):
    history = parse(export(row(start="05/06/2025, 19:56", end=""), row(start=other, end="")), None)
    assert next(iter(history.sessions)).started_at_local == datetime(2025, month, day, 19, 56)


@pytest.mark.parametrize("others", [[], ["13/01/2025, 10:00", "01/13/2025, 10:00"]])
def test_day_and_month_are_never_guessed(export, others):
    dates = ["05/06/2025, 19:56", *others]
    with pytest.raises(OperatorError, match="may be day/month or month/day"):
        parse(export(*(row(start=start, end="") for start in dates)), None)
