"""Which reader a file gets: recognised by its columns, or by what the caller says they are called."""

from __future__ import annotations

import os
import threading
from datetime import date, datetime
from decimal import Decimal
from uuid import uuid4

import pytest
from sqlalchemy import text

from core.errors import OperatorError
from importers.formats import AUTO, read_with_source, recognised_file
from ops.importing import import_file

STRONG = "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n2026-03-03 18:30:00,Push,Bench,1,60,8\n"
GERMAN = "Datum;Workout-Name;Name der Übung;Reihenfolge festlegen;Gewicht;Wiederh.\n2026-03-03 18:30:00;A;Bank;1;60;8\n"
LEGACY = "Date,Workout Name,Exercise Name,Set Order,kg,Reps,km\n2026-03-03 18:30:00,Push,Bench,0,60,8,0\n"
HEVY = 'title,start_time,exercise_title,set_index,set_type,weight_kg,reps\nA,"3 mar 2026, 18:30",Bench,0,normal,60,8\n'
FITNOTES = "Date,Exercise,Category,Weight (kgs),Reps\n2026-03-03,Bench,Chest,60,8\n"
FITBOD = (
    "Date,Exercise,Reps,Weight(kg),Duration(s),Distance(m),Incline,Resistance,isWarmup,Note,multiplier\n"
    "2026-03-03 18:30:00 +0000,Bench,8,60,0,0,0,0,false,,1\n"
)
OWN = "Day,Lift,Kilos,Times\n3/3/2026,Bench,60,8\n13/3/2026,Bench,62.5,8\n"


@pytest.fixture
def write(tmp_path):
    """Return what writes a file."""

    def written(content, name="file.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.mark.parametrize(
    ("content", "source"),
    [
        (STRONG, "strong"), (GERMAN, "strong"), (LEGACY, "strong"), (HEVY, "hevy"), (FITNOTES, "fitnotes"),
        (FITBOD, "fitbod"), ("\ufeff" + STRONG, "strong"),
    ],
)  # fmt: skip
def test_a_history_is_recognised_by_its_columns(write, content, source):
    found, history = read_with_source(write(content), AUTO, "kg")
    assert (found, history.taken, len(history.skipped)) == (source, 1, 0)
    assert recognised_file(write(content)) == source


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("hevy-kg-small.csv", "hevy"),
        ("strong-kg-de-10months.csv", "strong"),
        ("strong-zh-lb-3years.csv", "strong"),
        ("strong-semicolon-numbered-small.csv", "strong"),
        ("exercise-catalog.csv", "catalog"),
        ("powerlifting-meets-tested-1rm.csv", "meets"),
    ],
)
def test_real_files_are_recognised(real_file, name, format):
    assert recognised_file(real_file(name)) == format


def test_what_is_no_history_is_recognised_too(write):
    assert recognised_file(write('{"id": "batch-17"}')) == "wodup"
    with pytest.raises(OperatorError, match="is no history: pass --format wodup"):
        read_with_source(write('{"id": "batch-17"}'), AUTO, None)


def test_a_pipe_is_recognised_while_it_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert recognised_file(pipe) == AUTO
    writer = threading.Thread(target=pipe.write_bytes, args=[HEVY.encode()])
    writer.start()
    source, history = read_with_source(pipe, AUTO, None)
    writer.join()
    assert (source, history.taken) == ("hevy", 1)


@pytest.mark.parametrize(
    ("app", "first_line"),
    [
        (
            "StrongLifts",
            "Date (yyyy/mm/dd),Workout,Workout Name,Program Name,Body Weight (KG),Exercise,SetsxReps",
        ),
        (
            "GymBook",
            "Date;Time;Workout;Exercise;Region;Muscle groups (Primary);Repetitions / Time;Weight / Distance",
        ),
        ("Jefit", "### SETTING ##########################################"),
        ("Alpha Progression", '"Legs · Day 2 · Week 4";"2026-02-19 4:54 h";"1:02 hr"'),
        ("GymRun", "Date,Time,Exercise,Set,Weigth,Reps,Note"),
    ],
)
def test_an_app_that_is_known_but_not_read_is_named_with_the_way_that_works(write, app, first_line):
    with pytest.raises(OperatorError, match=f"looks like an export of {app}, which is not read") as refused:
        recognised_file(write(f"{first_line}\n1,2,3\n"))
    assert "--format csv --columns date=...,exercise=...,weight=...,reps=..." in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("Day,Lift\n", "expected an export of Strong, Hevy, FitNotes or Fitbod; found the first line"),
        (b"PK\x03\x04rest", "is a zip archive: unpack it and import the file in it"),
        ("", "is empty"),
    ],
)
@pytest.mark.parametrize("format", [AUTO, "strong", "csv"])
def test_what_is_no_export_is_refused_in_one_line(write, content, problem, format):
    columns = "date=Date,exercise=Exercise,reps=Reps" if format == "csv" else None
    with pytest.raises(OperatorError) as refused:
        read_with_source(write(content), format, "kg", columns)
    assert "\n" not in str(refused.value)
    if format == AUTO or not str(content).startswith("Day"):
        assert problem in str(refused.value)


@pytest.mark.parametrize("format", [AUTO, "hevy", "csv"])
def test_a_folder_is_refused_in_one_line(tmp_path, format):
    with pytest.raises(OperatorError, match="is a directory: import the file in it; expected"):
        import_file(tmp_path, format, None, uuid4(), "UTC", "", columns=COLUMNS if format == "csv" else None)


def test_sessions_are_stored_under_the_app_that_the_file_is_of(database, write):
    user = uuid4()
    for content in (STRONG, FITBOD.replace("03 18:30", "05 18:30"), FITNOTES.replace("03-03", "03-06")):
        import_file(write(content), AUTO, None if "(kg" in content else "kg", user, "UTC", database.url)
    import_file(
        write(OWN.replace("60", "61")),
        "csv",
        "kg",
        user,
        "UTC",
        database.url,
        columns=COLUMNS,
        source="my-app",
    )
    with database.engine.connect() as connection:
        stored = connection.execute(
            text(
                "select source, count(*) from public.workout_sessions where user_id = :user group by 1 order by 1"
            ),
            {"user": user},
        )
        assert [tuple(row) for row in stored] == [
            ("fitbod", 1),
            ("fitnotes", 1),
            ("my-app", 2),
            ("strong", 1),
        ]


# --- any other file

COLUMNS = "date=Day,exercise=Lift,weight=Kilos,reps=Times"


def test_a_file_whose_columns_the_caller_names(write):
    source, history = read_with_source(write(OWN), "csv", "kg", COLUMNS)
    assert source == "csv"
    first, second = history.sessions
    assert (first.session_date, first.started_at_local, first.title) == (date(2026, 3, 3), None, None)
    assert [(a_set.weight_kg, a_set.reps) for a_set in second.sets()] == [(Decimal("62.5"), 8)]
    assert [*history.remarks] == []


def test_every_column(write):
    content = (
        "When;Clock;Plan;What;Load (lbs);Reps;Way;Way Unit;Long;Kind;Effort;Text;Mood\n"
        "3. mars 2026;18:30;Push;Bench;135;8;;;;W;8,5;slow;good\n"
        "3. mars 2026;18:35;Push;Row;;;2;km;0:09:30;1;;;\n"
    )
    columns = (
        "date=When,time=Clock,title=Plan,exercise=What,weight=Load (lbs),reps=Reps,distance=Way,distance_unit=Way Unit,"
        "duration=Long,set_type=Kind,rpe=Effort,notes=Text"
    )
    source, history = read_with_source(write(content), "csv", None, columns, "my-app")
    assert source == "my-app"
    [session] = history.sessions
    assert (session.title, session.started_at_local) == ("Push", datetime(2026, 3, 3, 18, 30))
    bench, row = session.sets()
    assert (bench.set_type, bench.weight_kg, bench.reps, bench.rpe) == (
        "warmup",
        Decimal("61.23"),
        8,
        Decimal("8.5"),
    )
    assert (row.distance_m, row.duration_seconds) == (2000, 570)
    assert session.blocks[0].notes == "slow"
    [remark] = history.remarks
    assert remark.text == 'columns that --columns does not name are not read: "Mood"'


def test_each_row_has_its_own_unit(write):
    content = "Day,Lift,Load,Unit\n2026-03-03,Bench,100,kg\n2026-03-03,Bench,225,lbs\n2026-03-03,Bench,9,st\n"
    _, history = read_with_source(write(content), "csv", None, "date=day,exercise=lift,weight=load,unit=unit")
    assert [a_set.weight_kg for session in history.sessions for a_set in session.sets()] == [
        100,
        Decimal("102.06"),
    ]
    assert [row.reason for row in history.skipped] == ['unit "st" is neither kg nor lb']


def test_sets_with_times_of_their_own_are_one_workout(write):
    lines = "\n".join(f"2026-03-03 {at},Bench,60,8" for at in ("18:30", "18:33", "21:32", "08:00"))
    _, history = read_with_source(write(f"Day,Lift,Kilos,Times\n{lines}\n"), "csv", "kg", COLUMNS)
    assert sorted((s.started_at_local.hour, len([*s.sets()])) for s in history.sessions) == [(8, 1), (18, 3)]


def test_a_name_with_a_comma_stands_in_quotes(write):
    content = 'Day,Lift,"Load, kg",Times\n2026-03-03,Bench,60,8\n'
    _, history = read_with_source(
        write(content), "csv", "kg", 'date=Day,exercise=Lift,"weight=Load, kg",reps=Times'
    )
    assert history.taken == 1


@pytest.mark.parametrize("unit", [None, "kg"])
def test_a_column_named_after_its_unit_says_it(write, unit):
    _, history = read_with_source(
        write("Day,Lift,kg\n2026-03-03,Bench,60\n"), "csv", unit, "date=Day,exercise=Lift,weight=kg"
    )
    assert history.taken == 1


@pytest.mark.parametrize(
    ("distance", "duration", "metres", "seconds"),
    [
        ("Way (km)", "Long (min)", 2000, 5400),
        ("Way (mi)", "Long (s)", Decimal("3218.69"), 90),
        ("km", "Minutes", 2000, 5400),
        ("Metres", "sec", 2, 90),
        ("Way", "Long", 2000, 90),
        ("Way", "Hours", 2000, 324000),
    ],
)
def test_units_of_distances_and_durations(write, distance, duration, metres, seconds):
    content = f"Day,Lift,{distance},{duration}\n2026-03-03,Run,2,90\n2026-03-03,Run,2,1:30\n"
    columns = f"date=Day,exercise=Lift,distance={distance},duration={duration}"
    _, history = read_with_source(write(content), "csv", "kg", columns)
    first, second = (a_set for session in history.sessions for a_set in session.sets())
    assert (first.distance_m, first.duration_seconds) == (metres, seconds)
    assert second.duration_seconds == 90
    assert len(history.remarks) == (distance == "Way")


@pytest.mark.parametrize(("distance", "duration"), [("Way (leagues)", "Long"), ("Way", "Long (fortnights)")])
def test_an_unknown_unit_is_refused(write, distance, duration):
    with pytest.raises(OperatorError, match=r'in "(leagues|fortnights)", not a known unit'):
        read_with_source(
            write(f"Day,Lift,{distance},{duration}\n2026-03-03,Run,2,90\n"),
            "csv",
            "kg",
            f"date=Day,exercise=Lift,distance={distance},duration={duration}",
        )


@pytest.mark.parametrize(
    ("columns", "source", "problem"),
    [
        (None, None, "pass --format csv --columns date="),
        ("date=Day,exercise=Lift", None, "does not name weight or reps or distance or duration"),
        ("weight=Kilos,reps=Times", None, "does not name date and exercise"),
        (COLUMNS + ",mood=Mood", None, 'unknown column "mood"'),
        (COLUMNS + ",reps=Again", None, "names reps twice"),
        ("date", None, '--columns "date" is not like weight=Kilos'),
        (COLUMNS.replace("Kilos", "Pounds"), None, 'has no column "Pounds"; its columns are "Day", "Lift"'),
        (COLUMNS.replace("Kilos", "Times"), None, "names one column of the file twice"),
        (COLUMNS, "My App!", "--source .*: pass a name of small letters"),
        (COLUMNS, "", "--source .*: pass a name of small letters"),
    ],
)
def test_options_that_cannot_be_followed(write, columns, source, problem):
    with pytest.raises(OperatorError, match=problem):
        read_with_source(write(OWN), "csv", "kg", columns, source)


def test_a_unit_is_never_guessed(write):
    with pytest.raises(OperatorError, match="does not say its weight unit"):
        read_with_source(write(OWN), "csv", None, COLUMNS)


@pytest.mark.parametrize(("option", "value"), [("columns", COLUMNS), ("source", "mine"), ("source", "")])
@pytest.mark.parametrize("format", [AUTO, "strong", "meets", "catalog", "wodup"])
def test_options_of_csv_are_for_csv_alone(write, format, option, value):
    with pytest.raises(OperatorError, match=f"--{option} is only for --format csv"):
        import_file(write(STRONG), format, "kg", uuid4(), "UTC", "", **{option: value})


@pytest.mark.parametrize(
    ("kind", "is_set"), [("", True), ("Warm-up", True), ("Rest Timer", False), ("Note", False), ("Own", True)]
)
def test_kinds_of_sets_in_any_file(write, kind, is_set):
    content = f"Day,Lift,Long,Kind\n2026-03-03,Plank,60,1\n2026-03-03,Plank,90,{kind}\n"
    _, history = read_with_source(
        write(content), "csv", None, "date=Day,exercise=Lift,duration=Long,set_type=Kind"
    )
    assert history.taken == (2 if is_set else 1)
    assert len(history.remarks) == (kind == "Own")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("3/3/2026,,60,8", "no exercise"),
        ("soon,Bench,60,8", 'date "soon" is not like 31 Dec 2024, 18:30'),
        ("3/3/2026,Bench,heavy,8", 'weight "heavy" is not a number'),
        ("3/3/2026,Bench", "2 columns instead of 4"),
    ],
)
def test_a_broken_row_is_skipped_and_the_rest_goes_in(write, line, reason):
    _, history = read_with_source(write(f"{OWN}{line}\n"), "csv", "kg", COLUMNS)
    assert [(row.line, row.reason) for row in history.skipped] == [(4, reason)]
    assert history.taken == 2
