"""Strong exports: the real files, the units, odd rows, and files that are something else."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from core.errors import OperatorError
from importers.history import NOT_A_SET, ImportedSet
from importers.strong import parse
from importers.tracking import contradiction

HEADER = (
    "Date,Workout Name,Duration,Exercise Name,Set Order,Weight,Reps,Distance,Seconds,Notes,Workout Notes,RPE"
)
GOOD = '2024-01-08 18:30:00,"Push",1h 5m,"Bench Press (Barbell)",1,60.0,8,0,0,"","",'


@pytest.fixture
def strong_file(tmp_path):
    """Return what writes a Strong export of the given data lines."""

    def write(*lines):
        path = tmp_path / "strong.csv"
        path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
        return path

    return write


def row(
    *,
    at="2024-01-08 18:30:00",
    workout="Push",
    duration="1h 5m",
    exercise="Bench",
    order="1",
    weight="60.0",
    reps="8",
    distance="0",
    seconds="0",
    notes="",
    workout_notes="",
    rpe="",
):
    return (
        f'{at},"{workout}",{duration},"{exercise}",{order},{weight},{reps},{distance},{seconds},'
        f'"{notes}","{workout_notes}",{rpe}'
    )


def only_set(history):
    [done] = [a_set for session in history.sessions for a_set in session.sets()]
    return done


def reasons(history):
    return [(skipped.line, skipped.reason) for skipped in history.skipped]


# --- real files


@pytest.mark.parametrize(
    ("name", "unit", "sessions", "rows"),
    [
        ("strong-kg-de-10months.csv", "kg", 129, 2078),
        ("strong-kg-olympic-lifting.csv", "kg", 86, 1903),
        ("strong-zh-lb-3years.csv", "lb", 384, 6778),
        ("strong-semicolon-numbered-small.csv", None, 20, 266),
    ],
)
def test_every_row_of_a_real_file_is_a_set_of_its_session(real_file, name, unit, sessions, rows):
    history = parse(real_file(name), unit)
    assert len(history.sessions) == sessions
    assert history.data_rows == rows
    assert history.taken == rows
    assert [*history.skipped] == []
    assert len({session.source_ref for session in history.sessions}) == sessions


def test_the_first_session_of_a_real_file_is_read_as_printed(real_file):
    session = next(iter(parse(real_file("strong-kg-de-10months.csv"), "kg").sessions))
    assert session.source_ref == "2021-02-10T16:46:13 Mittwoch"
    assert session.session_date == date(2021, 2, 10)
    assert session.started_at_local == datetime(2021, 2, 10, 16, 46, 13)
    assert session.title == "Mittwoch"
    assert session.duration_seconds == (2 * 60 + 18) * 60
    first = next(session.sets())
    assert (first.line, first.weight_kg, first.reps, first.duration_seconds) == (2, 75, 8, None)


def test_tracking_of_a_real_file(real_file):
    tracking = parse(real_file("strong-kg-olympic-lifting.csv"), "kg").tracking
    assert tracking["Snatch (Barbell)"] == "weight_reps"
    assert tracking["Push Up"] == "bodyweight_reps"
    assert tracking["Aerobics"] == "duration"
    assert tracking["Swimming"] == "distance_duration"


# --- units


def test_kilograms_are_taken_as_they_are(strong_file):
    assert only_set(parse(strong_file(row(weight="62.5")), "kg")).weight_kg == Decimal("62.5")


@pytest.mark.parametrize(
    ("pounds", "kilograms"),
    [
        ("135", "61.23"),
        ("44.09245243697551", "20.00"),
        ("225.0", "102.06"),
        # 0.05 lb is 0.0226796 kg, 0.1 lb 0.045359237 kg: rounded half up, not truncated.
        ("0.1", "0.05"),
    ],
)
def test_pounds_become_kilograms_to_the_hundredth(strong_file, pounds, kilograms):
    assert only_set(parse(strong_file(row(weight=pounds)), "lb")).weight_kg == Decimal(kilograms)


def test_a_half_hundredth_is_rounded_up(strong_file):
    assert only_set(parse(strong_file(row(weight="60.125")), "kg")).weight_kg == Decimal("60.13")


@pytest.mark.parametrize(
    ("unit", "metres", "word"), [("kg", "2500", "kilometres"), ("lb", "4023.36", "miles")]
)
def test_distances_follow_the_unit_and_are_remarked_on(strong_file, unit, metres, word):
    history = parse(
        strong_file(row(exercise="Running", weight="0", reps="0", distance="2.5", seconds="900")), unit
    )
    assert only_set(history).distance_m == Decimal(metres)
    [remark] = history.remarks
    assert remark.line == 2
    assert word in remark.text


@pytest.mark.parametrize("unit", [None, "st", ""])
def test_a_missing_or_unknown_unit_is_asked_for(strong_file, unit):
    with pytest.raises(OperatorError, match="pass --unit kg or --unit lb"):
        parse(strong_file(GOOD), unit)


# --- sessions, blocks and sets


def test_rows_of_one_time_and_name_are_one_session_wherever_they_stand(strong_file):
    history = parse(
        strong_file(
            row(exercise="Bench"),
            row(workout="Evening", exercise="Row"),
            row(at="2024-01-09 18:30:00", exercise="Bench"),
            row(exercise="Dip"),
        ),
        "kg",
    )
    assert [(session.title, session.session_date.day) for session in history.sessions] == [
        ("Push", 8),
        ("Evening", 8),
        ("Push", 9),
    ]
    assert [block.exercise for block in next(iter(history.sessions)).blocks] == ["Bench", "Dip"]


def test_one_exercise_in_two_blocks(strong_file):
    history = parse(
        strong_file(row(exercise="Bench"), row(exercise="Row"), row(exercise="Bench", order="2")), "kg"
    )
    [session] = history.sessions
    assert [block.exercise for block in session.blocks] == ["Bench", "Row", "Bench"]


def test_a_skipped_row_does_not_split_its_block(strong_file):
    history = parse(strong_file(row(), row(order="Rest Timer", seconds="90"), row(order="2")), "kg")
    assert [len(block.sets) for block in next(iter(history.sessions)).blocks] == [2]


def test_identical_rows_are_separate_sets(strong_file):
    assert parse(strong_file(GOOD, GOOD, GOOD), "kg").taken == 3


def test_a_session_after_midnight_keeps_its_printed_day(strong_file):
    [session] = parse(strong_file(row(at="2024-01-09 00:10:00")), "kg").sessions
    assert session.session_date == date(2024, 1, 9)


def test_notes_go_to_block_and_session_once(strong_file):
    history = parse(
        strong_file(
            row(notes="slow", workout_notes="good day"),
            row(order="2", workout_notes="good day"),
            row(order="3", notes="belt", workout_notes="good day"),
        ),
        "kg",
    )
    [session] = history.sessions
    assert session.notes == "good day"
    assert session.blocks[0].notes == "slow\nbelt"


def test_a_note_over_several_lines_keeps_the_line_numbers(strong_file):
    history = parse(strong_file(row(notes="one\ntwo, three"), row(order="2")), "kg")
    [session] = history.sessions
    assert session.blocks[0].notes == "one\ntwo, three"
    assert [a_set.line for a_set in session.sets()] == [2, 4]


def test_nothing_done_is_a_set_that_is_not_completed(strong_file):
    history = parse(strong_file(row(), row(order="2", reps="0"), row(order="3", weight="", reps="")), "kg")
    done, with_weight, empty = next(iter(history.sessions)).sets()
    assert done.is_completed
    assert (with_weight.is_completed, with_weight.weight_kg, with_weight.reps) == (False, 60, None)
    assert (empty.is_completed, empty.weight_kg) == (False, None)


@pytest.mark.parametrize(
    ("order", "set_type"),
    [
        ("1", "normal"),
        ("0", "normal"),
        ("12", "normal"),
        ("W", "warmup"),
        ("WARM_UP", "warmup"),
        ("D", "drop"),
        ("Drop Set", "drop"),
        ("F", "failure"),
        ("FAILURE", "failure"),
    ],
)
def test_set_order_says_the_set_type(strong_file, order, set_type):
    assert only_set(parse(strong_file(row(order=order)), "kg")).set_type == set_type


def test_rpe(strong_file):
    assert only_set(parse(strong_file(row(rpe="8.5")), "kg")).rpe == Decimal("8.5")


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [
        ("2h 18m", 8280),
        ("2h", 7200),
        ("53m", 3180),
        ("145h 27m", 523620),
        ("45s", 45),
        ("7 min", 420),
        ("1 Std. 5 Min.", 3900),
        ("1 h 5 min", 3900),
        ("1小时13分钟", 4380),
        ("2小时", 7200),
        ("40分钟", 2400),
        ("1時間5分", 3900),
        ("1시간 5분", 3900),
        ("", None),
        ("0m", None),
    ],
)
def test_durations(strong_file, printed, seconds):
    [session] = parse(strong_file(row(duration=printed)), "kg").sessions
    assert session.duration_seconds == seconds


@pytest.mark.parametrize("printed", ["1 fortnight", "soon", "75", "999h"])
def test_an_impossible_duration_costs_a_remark_but_no_set(strong_file, printed):
    history = parse(strong_file(row(duration=printed), row(duration=printed, order="2")), "kg")
    assert history.taken == 2
    assert next(iter(history.sessions)).duration_seconds is None
    [remark] = history.remarks
    assert remark.line == 2
    assert printed in remark.text


def test_source_refs_of_long_and_missing_names(strong_file):
    history = parse(strong_file(row(workout=""), row(workout="x" * 300), row(workout="x" * 301)), "kg")
    refs = [session.source_ref for session in history.sessions]
    assert refs[0] == "2024-01-08T18:30:00"
    assert len(set(refs)) == 3
    assert max(len(ref) for ref in refs) < 100
    assert next(iter(history.sessions)).title is None


def test_byte_order_mark_and_crlf(tmp_path):
    path = tmp_path / "strong.csv"
    path.write_bytes(b"\xef\xbb\xbf" + f"{HEADER}\r\n{GOOD}\r\n".encode())
    assert parse(path, "kg").taken == 1


def test_columns_are_found_by_name(tmp_path):
    path = tmp_path / "strong.csv"
    path.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Reps,Weight\n2024-01-08 18:30:00,Push,Bench,1,8,60\n"
    )
    done = only_set(parse(path, "kg"))
    assert (done.weight_kg, done.reps) == (60, 8)


# --- rows that are skipped


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("2024-01-08 18:30:00,Push,1h,Bench,1,60", "6 columns instead of 12"),
        (GOOD + ",extra", "13 columns instead of 12"),
        ("just words", "1 columns instead of 12"),
        (row(at="08.01.2024 18:30"), 'Date "08.01.2024 18:30" is not like 2024-12-31 18:30:00'),
        (row(at="2024-02-30 18:30:00"), 'Date "2024-02-30 18:30:00" is not like 2024-12-31 18:30:00'),
        (row(weight="heavy"), 'Weight "heavy" is not a number'),
        (row(weight="NaN"), 'Weight "NaN" is not a number'),
        (row(weight="1e9"), 'Weight "1e9" is not a number'),
        (row(weight="10000"), 'Weight "10000" is too large'),
        (row(reps="8.5"), 'Reps "8.5" is not a whole number'),
        (row(reps="-3"), 'Reps "-3" is negative'),
        (row(reps="9999999"), 'Reps "9999999" is too large'),
        (row(seconds="-1"), 'Seconds "-1" is negative'),
        (row(distance="-1"), 'Distance "-1" is negative'),
        (row(rpe="11"), 'RPE "11" is not between 0 and 10'),
        (row(exercise=""), "no exercise name"),
        (row(order="?", weight="0", reps="0"), NOT_A_SET),
        (row(order="Rest Timer", weight="0", reps="0", seconds="90"), NOT_A_SET),
        (row(workout='Pu"sh'), "broken quotes"),
    ],
)
def test_a_broken_row_is_skipped_with_its_reason_and_the_rest_goes_in(strong_file, broken, reason):
    history = parse(strong_file(GOOD, broken, GOOD), "kg")
    assert reasons(history) == [(3, reason)]
    assert history.taken == 2
    assert history.data_rows == 3


def test_an_unclosed_quote_costs_its_own_line_alone(strong_file):
    history = parse(strong_file(GOOD, GOOD.replace('"",""', '"never closed,""'), GOOD, GOOD), "kg")
    assert reasons(history) == [(3, "broken quotes")]
    assert history.taken == 3


def test_an_unclosed_quote_on_the_last_line(strong_file):
    history = parse(strong_file(GOOD, '2024-01-08 18:30:00,"Push'), "kg")
    assert reasons(history) == [(3, "broken quotes")]
    assert history.taken == 1


def test_blank_lines_are_no_data_rows(strong_file):
    assert parse(strong_file(GOOD, "", GOOD, ""), "kg").data_rows == 2


def test_a_typo_that_the_database_can_hold_is_taken(strong_file):
    assert only_set(parse(strong_file(row(reps="877777", weight="2451")), "lb")).reps == 877777


def test_reps_printed_with_a_decimal_point(strong_file):
    assert only_set(parse(strong_file(row(reps="8.0")), "kg")).reps == 8


# --- tracking


@pytest.mark.parametrize(
    ("sets", "tracking"),
    [
        ([{"weight": "60", "reps": "8"}], "weight_reps"),
        ([{"weight": "0", "reps": "8"}, {"weight": "5", "reps": "8"}], "weight_reps"),
        ([{"weight": "0", "reps": "8"}], "bodyweight_reps"),
        ([{"weight": "0", "reps": "8"}, {"weight": "20", "reps": "0"}], "bodyweight_reps"),
        ([{"weight": "-20", "reps": "8"}, {"weight": "0", "reps": "6"}], "assisted_reps"),
        ([{"weight": "0", "reps": "0", "seconds": "60"}], "duration"),
        ([{"weight": "0", "reps": "0", "seconds": "60", "distance": "1"}], "distance_duration"),
        ([{"weight": "0", "reps": "0", "distance": "1"}], "distance_duration"),
        ([{"weight": "20", "reps": "0", "seconds": "60"}], "weight_duration"),
        ([{"weight": "20", "reps": "0", "distance": "0.04"}], "weight_distance"),
        ([{"weight": "20", "reps": "0"}], "weight_reps"),
        ([{"weight": "20", "reps": "0"}, {"weight": "0", "reps": "0", "seconds": "60"}], "weight_duration"),
        ([{"weight": "20", "reps": "0"}, {"weight": "0", "reps": "0", "distance": "1"}], "weight_distance"),
        ([{"weight": "0", "reps": "0"}], "weight_reps"),
        ([{"weight": "0", "reps": "0", "seconds": "60"}, {"weight": "60", "reps": "8"}], "weight_reps"),
    ],
)
def test_the_file_shows_the_tracking(strong_file, sets, tracking):
    history = parse(strong_file(*(row(**fields) for fields in sets)), "kg")
    assert history.tracking == {"Bench": tracking}
    assert history.taken == len(sets)


def test_assistance_stays_negative_in_the_history(strong_file):
    assert only_set(parse(strong_file(row(weight="-20")), "kg")).weight_kg == -20


@pytest.mark.parametrize(
    ("weight", "tracking", "reason"),
    [
        (20, "reps_only", 'a weight on "Bench", which is tracked as reps_only: change that with'),
        (-20, "duration", 'a negative weight (assistance) on "Bench", which is tracked as duration: give'),
        (
            -20,
            "weight_reps",
            'a negative weight (assistance) on "Bench", which is tracked as weight_reps: give',
        ),
        (20, "assisted_reps", None),
        (-20, "assisted_reps", None),
        (20, "bodyweight_reps", None),
        (None, "duration", None),
    ],
)
def test_which_weights_contradict_a_tracking(weight, tracking, reason):
    a_set = ImportedSet(2, weight_kg=None if weight is None else Decimal(weight), reps=8)
    found = contradiction(a_set, "Bench", tracking)
    assert found is None if reason is None else found.startswith(reason)


# --- files that are something else


def write(tmp_path, content):
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04\x14\x00", "is a zip archive: unpack it and import the file in it"),
        (b" \n\n", "is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not UTF-8 or UTF-16 text"),
        (b"abc\x00def", "is a binary file"),
        (b"\xff\xfea", "is not UTF-8 or UTF-16 text"),
        (HEADER.encode("utf-16-le"), "is a binary file"),
        (b"title,start_time,end_time\n", 'found the first line "title,start_time,end_time"'),
        (b'{"user_id": 1}', "looks like JSON: pass --format wodup"),
        (
            b"Date,Exercise,Category,Weight (kgs),Reps\n",
            "looks like a FitNotes export: pass --format fitnotes",
        ),
        (b"hello\n", 'found the first line "hello"'),
        (f"{HEADER},{HEADER}\n{GOOD}\n".encode(), 'found twice the column "Date"'),
        (f"{HEADER},Weight (lb)\n{GOOD},1\n".encode(), 'found twice the column "Weight (lb)"'),
        (f"{HEADER},Mood\n{GOOD},1\n".encode(), 'found another column "Mood", whose meaning is not known'),
        (HEADER.replace("Weight", "Weight (st)").encode(), 'found Weight in "st", not a known unit'),
        (HEADER.replace("Distance", "Distance (leagues)").encode(), 'found Distance in "leagues"'),
        (HEADER.encode(), "found the header line alone"),
        (HEADER.replace(",", ";").encode() + b"\n1;2\n", "none of its 1 rows is a set; line 2"),
        (HEADER.replace("Reps", "Mood").encode() + b"\n", ", without Reps"),
        (HEADER.replace("Reps", "Weight").replace("Date", "Day").encode() + b"\n", ", without Date and Reps"),
        ("Päivä,Treeni,Liike,Sarja\n".encode(), 'found the first line "Päivä,Treeni,Liike,Sarja"'),
        (f"{HEADER}\nbroken\nbroken\n".encode(), "none of its 2 rows is a set; line 2"),
    ],
)
def test_another_file_is_refused_in_one_line_that_says_what_was_expected(tmp_path, content, found):
    path = write(tmp_path, content)
    with pytest.raises(OperatorError) as refused:
        parse(path, "kg")
    message = str(refused.value)
    assert str(path) in message
    assert found in message
    assert "expected" in message or "none of its" in message
    assert "\n" not in message


def test_a_missing_file_and_a_directory(tmp_path):
    with pytest.raises(OperatorError, match="no such file; expected a Strong export"):
        parse(tmp_path / "missing.csv", "kg")
    with pytest.raises(
        OperatorError, match="is a directory: import the file in it; expected a Strong export"
    ):
        parse(tmp_path, "kg")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hevy-kg-small.csv", "looks like a Hevy export: pass --format hevy"),
        ("exercise-catalog.csv", "looks like a list of exercises: pass --format catalog"),
        ("powerlifting-meets-tested-1rm.csv", "looks like a list of meet results: pass --format meets"),
    ],
)
def test_real_files_of_another_kind_are_refused(real_file, name, found):
    with pytest.raises(OperatorError, match=found):
        parse(real_file(name), "lb")
