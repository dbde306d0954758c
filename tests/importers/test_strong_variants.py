"""Strong exports of other versions, languages and encodings: each says the same as the plain one."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from core.errors import OperatorError
from importers.history import NOT_A_SET
from importers.strong import parse

COLUMNS = (
    "Date,Workout Name,Duration,Exercise Name,Set Order,Weight,Reps,Distance,Seconds,Notes,Workout Notes,RPE"
)
NEWEST = (
    "Workout #;Date;Workout Name;Duration (sec);Exercise Name;Set Order;Weight (kg);Reps;RPE;Distance (meters);"
    "Seconds;Notes;Workout Notes"
)
WITH_UNITS = (
    "Date;Workout Name;Exercise Name;Set Order;Weight;Weight Unit;Reps;RPE;Distance;Distance Unit;Seconds;Notes;"
    "Workout Notes;Workout Duration"
)


@pytest.fixture
def export(tmp_path):
    """Return what writes the given lines as an export."""

    def write(*lines: str, encoding: str = "utf-8", newline: str = "\n") -> Path:
        path = tmp_path / "strong.csv"
        path.write_bytes(newline.join([*lines, ""]).encode(encoding))
        return path

    return write


def weights(history):
    return [a_set.weight_kg for session in history.sessions for a_set in session.sets()]


# --- where the unit stands


def test_the_newest_export_has_its_units_in_the_header(export):
    history = parse(
        export(
            NEWEST,
            '"0";"2025-03-09 14:08:49";"Push; heavy";"4543";"Bench";"1";"61.23492";"5";"8,5";"";"";"";"good"',
            '"0";"2025-03-09 14:08:49";"Push; heavy";"4543";"Row";"1";"0.0";"0";"";"2000";"540";"";""',
        ),
        None,
    )
    [session] = history.sessions
    assert (session.title, session.duration_seconds, session.notes) == ("Push; heavy", 4543, "good")
    bench, row = session.sets()
    assert (bench.weight_kg, bench.reps, bench.rpe) == (Decimal("61.23"), 5, Decimal("8.5"))
    assert (row.distance_m, row.duration_seconds) == (2000, 540)
    assert [*history.remarks] == []


def test_pounds_in_the_header(export):
    line = "1;2025-03-09 14:08:49;Push;60;Bench;1;135;5;;;;;"
    history = parse(export(NEWEST.replace("(kg)", "(lbs)"), line), None)
    assert weights(history) == [Decimal("61.23")]


def test_each_row_has_its_own_unit(export):
    history = parse(
        export(
            WITH_UNITS,
            "2022-02-16 17:40:08;Push;Bench;1;225;lbs;2;;;;0;;;58m",
            "2022-02-16 17:40:08;Push;Bench;2;102,5;kg;2;;;;0;;;58m",
            "2022-02-16 17:40:08;Push;Run;1;0;;0;;3;mi;1500;;;58m",
            "2022-02-16 17:40:08;Push;Run;2;0;;0;;3;km;900;;;58m",
        ),
        None,
    )
    assert weights(history) == [Decimal("102.06"), Decimal("102.5"), None, None]
    assert [a_set.distance_m for a_set in next(iter(history.sessions)).sets()][2:] == [
        Decimal("4828.03"),
        3000,
    ]
    assert next(iter(history.sessions)).duration_seconds == 58 * 60
    assert [*history.remarks] == []


@pytest.mark.parametrize(
    "lines",
    [
        [COLUMNS, "2024-01-08 18:30:00,Push,1h,Bench,1,60,8,0,0,,,"],
        [WITH_UNITS, "2024-01-08 18:30:00;Push;Bench;1;60;;8;;;;0;;;58m"],
        [WITH_UNITS, "2024-01-08 18:30:00;Push;Run;1;0;;0;;3;;1500;;;58m"],
    ],
)
def test_a_unit_that_stands_nowhere_is_asked_for(export, lines):
    with pytest.raises(OperatorError, match=r"does not say its weight unit .*: pass --unit kg or --unit lb"):
        parse(export(*lines), None)
    assert parse(export(*lines), "lb").taken == 1


@pytest.mark.parametrize(
    "lines",
    [
        [NEWEST, "1;2025-03-09 14:08:49;Push;60;Bench;1;60;5;;;;;"],
        [WITH_UNITS, "2024-01-08 18:30:00;Push;Bench;1;60;kg;8;;;;0;;;58m"],
    ],
)
def test_an_option_that_contradicts_the_file_is_an_error(export, lines):
    with pytest.raises(OperatorError, match="--unit lb contradicts the file, whose weights are in kg"):
        parse(export(*lines), "lb")
    assert parse(export(*lines), "kg").taken == 1


def test_an_unknown_unit_costs_its_row(export):
    history = parse(
        export(
            WITH_UNITS,
            "2024-01-08 18:30:00;Push;Bench;1;60;kg;8;;;;0;;;58m",
            "2024-01-08 18:30:00;Push;Bench;2;9;stone;8;;;;0;;;58m",
            "2024-01-08 18:30:00;Push;Run;1;0;kg;0;;3;leagues;0;;;58m",
        ),
        None,
    )
    assert [(row.line, row.reason) for row in history.skipped] == [
        (3, 'Weight Unit "stone" is neither kg nor lb'),
        (4, 'Distance Unit "leagues" is not a known unit'),
    ]


LEGACY = "Date,Workout Name,Exercise Name,Set Order,{},Reps,{},Seconds,Notes"


@pytest.mark.parametrize(
    ("weight", "distance", "kilograms", "metres"),
    [("kg", "km", "100", "2000"), ("lb", "mi", "45.36", "3218.69"), ("Kg", "mi", "100", "3218.69")],
)
def test_old_exports_name_a_column_after_its_unit(export, weight, distance, kilograms, metres):
    history = parse(
        export(
            LEGACY.format(weight, distance),
            "2014-01-08 18:30:00,Push,Bench,0,100,8,0,0,",
            "2014-01-08 18:30:00,Push,Bench,1,100,8,0,0,",
            "2014-01-08 18:30:00,Push,Run,0,0,0,2,900,",
        ),
        None,
    )
    first, second, run = next(iter(history.sessions)).sets()
    assert first.weight_kg == second.weight_kg == Decimal(kilograms)
    assert run.distance_m == Decimal(metres)
    assert [len(block.sets) for block in next(iter(history.sessions)).blocks] == [2, 1]
    assert [*history.remarks] == []


def test_two_columns_of_weights_are_refused(export):
    with pytest.raises(OperatorError, match='found twice the column "lb"'):
        parse(export(LEGACY.format("kg", "lb"), "2014-01-08 18:30:00,Push,Bench,0,100,8,220,0,"), None)


@pytest.mark.parametrize("unit", ["kg", "KG", "Kgs", "kilograms", "кг"])
def test_words_for_kilograms(export, unit):
    line = "2024-01-08 18:30:00,Push,1h,Bench,1,60,8,0,0,,,"
    assert weights(parse(export(COLUMNS, line), unit)) == [60]


@pytest.mark.parametrize("unit", ["lb", "lbs", "LB", "Lbs.", "pounds", "Pound"])
def test_words_for_pounds(export, unit):
    line = "2024-01-08 18:30:00,Push,1h,Bench,1,135,8,0,0,,,"
    assert weights(parse(export(COLUMNS, line), unit)) == [Decimal("61.23")]


# --- languages

LOCALISED = {
    "German": "Datum;Workout-Name;Dauer;Name der Übung;Reihenfolge festlegen;Gewicht;Wiederh.;Entfernung;Sekunden;"
    "Notizen;Workout-Notizen;RPE",
    "French": "Date;Nom de l'entraînement;Durée;Nom de l'exercice;Ordre de la série;Poids;Réps;Distance;Secondes;"
    "Notes;Notes d'entraînement;RPE",
    "Spanish": "Fecha;Nombre de Entrenamiento;Duración;Nombre del Ejercicio;Orden de las series;Peso (kg);Reps;"
    "Distancia;Segundos;Notas;Notas de Entrenamiento;RPE",
    "Portuguese": "Data;Nome do treino;Duração;Nome do exercício;Ordem da série;Peso;Reps;Distância;Segundos;Notas;"
    "Notas do treino;RPE",
    "Chinese": "日期;锻炼名称;时长;运动名称;设置顺序;重量;次;距离;秒;备注;锻炼备注;RPE",
}


@pytest.mark.parametrize("language", LOCALISED)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_localised_headers(export, language, delimiter):
    line = "2024-01-08 18:30:00;Push;1h 5m;Bench;1;62.5;8;0;0;slow;good;8.5"
    history = parse(export(LOCALISED[language].replace(";", delimiter), line.replace(";", delimiter)), "kg")
    [session] = history.sessions
    [block] = session.blocks
    [done] = block.sets
    assert (session.source_ref, session.duration_seconds) == ("2024-01-08T18:30:00 Push", 3900)
    assert (session.notes, block.notes, block.exercise) == ("good", "slow", "Bench")
    assert (done.weight_kg, done.reps, done.rpe) == (Decimal("62.5"), 8, Decimal("8.5"))


def test_the_chinese_file_in_pounds(real_file):
    history = parse(real_file("strong-zh-lb-3years.csv"), "lb")
    first = next(iter(history.sessions))
    assert (first.title, first.duration_seconds) == ("4.Pull", (60 + 13) * 60)
    # 44.09245243697551 lb and its like are whole kilograms that the app turned into pounds.
    assert [a_set.weight_kg for a_set in first.sets()][:5] == [20, 30, 50, 70, 85]
    # 149.99999999999997 lb are 150, and 205 lb stay apart from 93 kg.
    lifted = set(weights(history))
    assert {Decimal("68.04"), Decimal("92.99"), Decimal("93.00")} <= lifted
    assert Decimal("68.03") not in lifted
    assert all(session.duration_seconds for session in history.sessions)


def test_sessions_after_midnight_keep_the_day_that_the_file_prints(real_file):
    history = parse(real_file("strong-zh-lb-3years.csv"), "lb")
    late = [session for session in history.sessions if session.started_at_local.hour < 4]
    assert len(late) == 171
    assert all(session.session_date == session.started_at_local.date() for session in history.sessions)
    # Two sessions on one day stay two.
    assert len({session.session_date for session in history.sessions}) < len(history.sessions) == 384


# --- encodings, line ends, clocks


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_and_line_ends(export, encoding, newline):
    line = '2024-01-08 18:30:00,"Übung 🏋️",1h,"臥推",1,60,8,0,0,"","",'
    [session] = parse(export(COLUMNS, line, line, encoding=encoding, newline=newline), "kg").sessions
    assert (session.title, session.blocks[0].exercise) == ("Übung 🏋️", "臥推")
    assert [a_set.line for a_set in session.sets()] == [2, 3]


@pytest.mark.parametrize(
    ("printed", "hour"),
    [
        ("2024-01-08 18:30:00", 18),
        ("2024-01-08 18:30", 18),
        ("2024-01-08 6:30:00 PM", 18),
        ("2024-01-08 6:30:00\u202fPM", 18),
        ("2024-01-08 12:30:00 AM", 0),
        ("2024-01-08 12:30:00 PM", 12),
    ],
)
def test_clocks(export, printed, hour):
    [session] = parse(export(COLUMNS, f"{printed},Push,1h,Bench,1,60,8,0,0,,,"), "kg").sessions
    assert session.started_at_local == datetime(2024, 1, 8, hour, 30)
    assert session.session_date == date(2024, 1, 8)


def test_a_day_without_a_time(export):
    [session] = parse(export(COLUMNS, "2024-01-08,Push,1h,Bench,1,60,8,0,0,,,"), "kg").sessions
    assert (session.session_date, session.started_at_local) == (date(2024, 1, 8), None)


@pytest.mark.parametrize(
    "printed",
    ["2024-01-08 13:30:00 PM", "2024-01-08 0:30:00 AM", "2024-01-08 25:30:00", "2024-13-08 18:30:00"],
)
def test_clocks_that_do_not_exist(export, printed):
    good = "2024-01-08 18:30:00,Push,1h,Bench,1,60,8,0,0,,,"
    history = parse(export(COLUMNS, f"{printed},Push,1h,Bench,1,60,8,0,0,,,", good), "kg")
    assert [row.line for row in history.skipped] == [2]


@pytest.mark.parametrize(
    ("delimiter", "printed", "kilograms"),
    [
        (";", "62,5", "62.5"),
        (";", "61,235", "61.24"),
        (";", "-20,5", "-20.5"),
        (",", '"62,5"', "62.5"),
        (",", '"27,215519999999998"', "27.22"),
        (",", '"1,050.5"', "1050.5"),
        (",", '"1.050,5"', "1050.5"),
        (",", '"-1,050.5"', "-1050.5"),
        (",", "1 050.5", "1050.5"),
        (",", "1\u202f050", "1050"),
        (",", "1'050.5", "1050.5"),
        (";", "1.050,5", "1050.5"),
        (";", "1,050.5", "1050.5"),
        (";", "1 050,5", "1050.5"),
        (";", "1.050", "1.05"),
    ],
)
def test_decimal_commas(export, delimiter, printed, kilograms):
    line = delimiter.join(
        ["2024-01-08 18:30:00", "Push", "1h", "Bench", "1", printed, "8", "", "", "", "", ""]
    )
    assert weights(parse(export(COLUMNS.replace(",", delimiter), line), "kg")) == [Decimal(kilograms)]


def test_a_comma_that_may_group_thousands_is_not_guessed(export):
    line = "2024-01-08 18:30:00,Push,1h,Bench,1,{},8,0,0,,,"
    history = parse(export(COLUMNS, line.format('"1,250"'), line.format("60")), "kg")
    [skipped] = history.skipped
    assert skipped.reason == 'Weight "1,250" has a comma that may be decimal or group thousands'


# --- rows that are no sets


@pytest.mark.parametrize(
    "mark",
    ["Rest Timer", "Ruhezeit", "Minuteur de repos", "Temporizador de descanso", "Tempo de descanso", "Timer di riposo",
     "Таймер отдыха", "休息计时器", "レストタイマー", "휴식 타이머"],
)  # fmt: skip
def test_rest_timers_in_the_languages_of_the_app(export, mark):
    line = "2024-01-08 18:30:00,Push,1h,Bench,{},60,8,0,90,,,"
    history = parse(export(COLUMNS, line.format("1"), line.format(mark)), "kg")
    assert [(row.line, row.reason) for row in history.skipped] == [(3, NOT_A_SET)]
    assert not next(iter(history.skipped)).is_set


def numbers(weight="0", reps="0", distance="0", seconds="0"):
    return f"{weight},{reps},{distance},{seconds}"


@pytest.mark.parametrize(
    ("measured", "exercise", "is_set"),
    [
        (numbers(), "Bench", False),
        (numbers(weight="60", reps="8"), "Bench", True),
        (numbers(reps="8"), "Bench", True),
        (numbers(seconds="90"), "Bench", False),  # which has reps elsewhere
        (numbers(weight="60", seconds="90"), "Bench", True),
        (numbers(seconds="90"), "Plank", True),
        (numbers(distance="1", seconds="90"), "Plank", True),
    ],
)
def test_an_unknown_mark_is_a_set_where_its_row_has_numbers(export, measured, exercise, is_set):
    line = "2024-01-08 18:30:00,Push,1h,{},{},{},,,"
    history = parse(
        export(
            COLUMNS,
            line.format("Bench", "1", numbers(weight="60", reps="8")),
            line.format("Plank", "1", numbers(seconds="60")),
            line.format(exercise, "Lepo", measured),
        ),
        "kg",
    )
    assert [(row.line, row.reason) for row in history.skipped] == ([] if is_set else [(4, NOT_A_SET)])
    assert [(remark.line, remark.text) for remark in history.remarks if "Lepo" in remark.text] == (
        [(4, '"Lepo" is no mark of a set that is known: read as a normal set')] if is_set else []
    )
    assert history.taken + len(history.skipped) == history.data_rows == 3
    assert {a_set.set_type for session in history.sessions for a_set in session.sets()} == {"normal"}


def test_180_rest_timers_of_an_unknown_word_have_one_reason(export):
    line = "2024-01-08 18:30:00,Push,1h,Bench,{},{},,,"
    pairs = [line.format("1", "60,8,0,0"), line.format("Lepo", "0,0,0,90")] * 180
    history = parse(export(COLUMNS, *pairs), "kg")
    assert (history.taken, len(history.skipped)) == (180, 180)
    assert {row.reason for row in history.skipped} == {NOT_A_SET}
    assert [*history.remarks] == []


@pytest.mark.parametrize("mark", ["Rest", "Pause", "休息", "Descanso"])
def test_a_word_for_rest_marks_a_set_where_the_row_has_reps(export, mark):
    line = "2024-01-08 18:30:00,Push,1h,{},{},{},,,"
    history = parse(
        export(
            COLUMNS,
            line.format("Plank", "1", numbers(seconds="60")),
            line.format("Plank", mark, numbers(seconds="90")),
            line.format("Bench", mark, numbers(weight="60", reps="8")),
        ),
        "kg",
    )
    assert [(row.line, row.reason) for row in history.skipped] == [(3, NOT_A_SET)]
    assert history.taken == 2


@pytest.mark.parametrize("mark", ["Ruhezeit", "Lepo", "Note"])
def test_a_text_between_the_sets_is_kept_whatever_marks_it(export, mark):
    line = '2024-01-08 18:30:00,Push,1h,Bench,{},{},0,{},"{}",,'
    history = parse(
        export(COLUMNS, line.format("1", "60,8", "0", ""), line.format(mark, "0,0", "90", "elbows in")), "kg"
    )
    assert next(iter(history.sessions)).blocks[0].notes == "elbows in"
    assert [row.reason for row in history.skipped] == [NOT_A_SET]


@pytest.mark.parametrize("mark", ["0", "1", "1.0", "1,0", "007"])
def test_a_number_is_the_place_of_a_set(export, mark):
    line = f'2024-01-08 18:30:00,Push,1h,Bench,"{mark}",60,0,0,0,,,'
    history = parse(export(COLUMNS, line), "kg")
    assert (history.taken, len(history.skipped), len(history.remarks)) == (1, 0, 0)


def test_the_text_of_a_note_row_is_kept_with_its_exercise(export):
    line = '2024-01-08 18:30:00,Push,1h,{},{},60,8,0,0,"{}",,'
    history = parse(
        export(
            COLUMNS,
            line.format("Bench", "Note", "elbows in"),
            line.format("Bench", "1", "slow"),
            line.format("Row", "1", ""),
            line.format("Dip", "Note", "tomorrow"),
        ),
        "kg",
    )
    [session] = history.sessions
    assert [(block.exercise, block.notes) for block in session.blocks] == [
        ("Bench", "elbows in\nslow"),
        ("Row", None),
    ]
    assert session.notes == "Dip: tomorrow"
    assert [(row.line, row.reason) for row in history.skipped] == [(2, NOT_A_SET), (5, NOT_A_SET)]
    assert history.taken + len(history.skipped) == history.data_rows == 4


def test_a_session_of_notes_alone_is_no_session(export):
    line = '{},Push,1h,Bench,{},60,8,0,0,"why",,'
    history = parse(
        export(COLUMNS, line.format("2024-01-08 18:30:00", "1"), line.format("2024-01-09 18:30:00", "Note")),
        "kg",
    )
    assert len(history.sessions) == 1
    assert history.taken == 1
    assert [(remark.line, remark.text) for remark in history.remarks] == [
        (3, "the text of notes in a workout without a set is not kept")
    ]


def test_a_file_of_notes_alone_is_refused(export):
    with pytest.raises(OperatorError, match="none of its 1 rows is a set; line 2"):
        parse(export(COLUMNS, "2024-01-08 18:30:00,Push,1h,Bench,Note,,,,,why,,"), "kg")
