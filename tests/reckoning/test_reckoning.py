"""The reckoning itself, on small accounts with values worked out by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from .compare import differences
from .daily_rollups import daily_rollups
from .e1rm import estimated_one_rm
from .pr_summaries import one_year_before, pr_summaries
from .records import records
from .rep_maxes import rep_maxes
from .rows import Account, Exercise, ManualRecord, Part, Policy, Session, Set
from .training_periods import calendar_days, start_of_week, training_periods

POLICY = Policy()
DAY = date(2026, 3, 10)
A, B, C = (f"{digit}0000000-0000-0000-0000-000000000000" for digit in "1ab")


def at(hour: int, day: date = DAY) -> datetime:
    return datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


def kg(text: str | int) -> Decimal:
    return Decimal(text)


class Diary:
    """Builds an account part by part; sets are (weight, reps) pairs or the keywords of a Set."""

    def __init__(self, **trackings: str) -> None:
        self.exercises = tuple(Exercise(name, tracking) for name, tracking in trackings.items())
        self.sessions: list[Session] = []
        self.parts: list[Part] = []
        self.sets: list[Set] = []
        self.manual_records: list[ManualRecord] = []

    def session(self, session_id: str, day: date = DAY, started_at: datetime | None = None) -> None:
        self.sessions.append(Session(session_id, day, started_at))

    def part(
        self, session_id: str, exercise_id: str, *sets: tuple[Any, Any] | dict[str, Any], position: int = 1
    ) -> None:
        part_id = f"part-{len(self.parts)}"
        self.parts.append(Part(part_id, session_id, exercise_id, position))
        for set_no, one in enumerate(sets, start=1):
            if isinstance(one, tuple):
                one = {"weight_kg": None if one[0] is None else kg(one[0]), "reps": one[1]}
            self.sets.append(Set(part_id, set_no, **one))

    def manual(self, exercise_id: str, day: date, one_rm_kg: str | int) -> None:
        self.manual_records.append(ManualRecord(exercise_id, day, kg(one_rm_kg)))

    def account(self) -> Account:
        """The rows, last written first: the reckoning has to order them itself."""
        return Account(
            self.exercises,
            tuple(reversed(self.sessions)),
            tuple(reversed(self.parts)),
            tuple(reversed(self.sets)),
            tuple(reversed(self.manual_records)),
        )

    def rollup(self, exercise_id: str, day: date = DAY, policy: Policy = POLICY) -> dict[str, Any]:
        return daily_rollups(self.account(), policy)[exercise_id, day]

    def records_of(self, exercise_id: str) -> dict[tuple[str, date], tuple[Any, Any, str]]:
        """(kind, day) -> value, previous value, session; baselines are those without a previous value."""
        found = {}
        for (exercise, kind, day), row in records(self.account(), POLICY).items():
            assert row["is_baseline"] == (row["previous_value"] is None)
            if exercise == exercise_id:
                found[kind, day] = (row["value"], row["previous_value"], row["session_id"])
        return found

    def summary(self, exercise_id: str, as_of: date) -> dict[str, Any] | None:
        return pr_summaries(self.account(), POLICY, [as_of]).get((as_of, exercise_id))


def days_of_march(*days: int) -> list[date]:
    return [date(2026, 3, day) for day in days]


# --- e1RM


@pytest.mark.parametrize(
    ("formula", "weight_kg", "reps", "expected"),
    [
        ("brzycki", "100", 1, "100"),
        ("epley", "100", 1, "100"),
        ("lombardi", "100", 1, "100"),
        ("brzycki", "100", 5, "112.50"),  # 3600 / 32
        ("brzycki", "100", 10, "133.33"),  # 3600 / 27 = 133.333...
        ("brzycki", "100", 12, "144"),  # 3600 / 25
        ("brzycki", "0.52", 5, "0.59"),  # 18.72 / 32 = 0.585 exactly, half up
        ("brzycki", "0.20", 5, "0.23"),  # 7.20 / 32 = 0.225 exactly; half to even would give 0.22
        ("epley", "100", 5, "116.67"),  # 100 x 35 / 30 = 116.666...
        ("epley", "0.15", 9, "0.20"),  # 0.15 x 39 / 30 = 0.195 exactly, half up
        ("epley", "0.05", 3, "0.06"),  # 0.05 x 33 / 30 = 0.055 exactly
        ("lombardi", "100", 2, "107.18"),  # 2 ** 0.1 = 1.0717734...
        ("lombardi", "100", 10, "125.89"),  # 10 ** 0.1 = 1.2589254...
        ("brzycki", "100", 13, None),
        ("epley", "100", 13, None),
        ("lombardi", "100", 13, None),
        ("brzycki", "100", 0, None),
        ("brzycki", "0", 5, None),
    ],
)
def test_estimate(formula: str, weight_kg: str, reps: int, expected: str | None):
    estimate = estimated_one_rm(kg(weight_kg), reps, Policy(formula))
    assert estimate == (None if expected is None else kg(expected))


def test_estimate_follows_the_policys_limit():
    assert estimated_one_rm(kg(100), 6, Policy(e1rm_max_reps=5)) is None
    assert estimated_one_rm(kg(100), 1, Policy(e1rm_max_reps=1)) == 100
    assert estimated_one_rm(kg(100), 13, Policy(e1rm_max_reps=13)) == 150  # 3600 / 24


def test_unknown_formula_is_refused():
    with pytest.raises(ValueError, match="wathan"):
        estimated_one_rm(kg(100), 5, Policy("wathan"))


# --- daily rollups


def test_rollup_of_a_day_of_bench_presses():
    diary = Diary(bench="weight_reps")
    diary.session(B, started_at=at(18))
    diary.session(A, started_at=None)
    diary.part(
        B,
        "bench",
        {"set_type": "warmup", "weight_kg": kg(200), "reps": 20},
        (100, 5),
        (100, 3),
        {"weight_kg": kg("60.5"), "reps": 13, "set_type": "failure"},
        {"weight_kg": kg(150), "reps": 1, "is_completed": False},
        {"weight_kg": kg(180), "reps": 0},
    )
    diary.part(A, "bench", {"weight_kg": kg(100), "reps": 4, "set_type": "drop"}, (None, 2), (0, 15))
    assert diary.rollup("bench") == {
        "sessions": 2,
        "sets": 8,  # all but the one that was not completed
        "working_sets": 6,  # without the warm-up and the one that did nothing
        "reps": 42,  # 5 + 3 + 13 + 4 + 2 + 15
        "volume_kg": kg("1986.5"),  # 500 + 300 + 786.5 + 400
        "top_weight_kg": 100,
        "top_weight_reps": 5,
        "best_e1rm_kg": kg("112.50"),
        "best_set_volume_kg": kg("786.5"),
        "max_reps": 15,
        "duration_seconds": 0,
        "distance_m": 0,
        "first_session_id": B,  # A has the smaller id, but no start
    }


def test_days_without_a_working_set_have_no_row():
    diary = Diary(bench="weight_reps", run="distance_duration")
    diary.session(A)
    diary.part(A, "bench", {"set_type": "warmup", "weight_kg": kg(60), "reps": 5}, {"weight_kg": kg(60)})
    diary.part(
        A, "run", {"distance_m": kg(0), "duration_seconds": 0}, {"distance_m": 9, "is_completed": False}
    )
    assert daily_rollups(diary.account(), POLICY) == {}
    assert records(diary.account(), POLICY) == {}
    assert pr_summaries(diary.account(), POLICY, [DAY]) == {}


def test_sessions_and_first_session_are_those_with_a_working_set():
    diary = Diary(bench="weight_reps")
    diary.session(A, started_at=at(8))
    diary.session(B, started_at=at(9))
    diary.part(A, "bench", {"set_type": "warmup", "weight_kg": kg(60), "reps": 5})
    diary.part(B, "bench", (60, 5))
    rollup = diary.rollup("bench")
    assert (rollup["sessions"], rollup["sets"], rollup["working_sets"]) == (1, 2, 1)
    assert rollup["first_session_id"] == B


def test_sessions_without_a_start_go_by_id():
    diary = Diary(bench="weight_reps")
    for session_id in (C, A, B):
        diary.session(session_id)
        diary.part(session_id, "bench", (60, 5))
    assert diary.rollup("bench")["first_session_id"] == A


def test_only_added_load_of_bodyweight_reps_counts():
    diary = Diary(pullup="bodyweight_reps")
    diary.session(A)
    diary.part(A, "pullup", (None, 12), (0, 11), ("10.25", 4))
    rollup = diary.rollup("pullup")
    assert (rollup["reps"], rollup["volume_kg"]) == (27, 41)
    assert (rollup["top_weight_kg"], rollup["top_weight_reps"], rollup["max_reps"]) == (kg("10.25"), 4, 12)
    assert rollup["best_e1rm_kg"] == kg("11.18")  # 369 / 33 = 11.1818...


def test_no_load_makes_no_bests():
    diary = Diary(pullup="bodyweight_reps")
    diary.session(A)
    diary.part(A, "pullup", (None, 12), (0, 11))
    rollup = diary.rollup("pullup")
    assert rollup["volume_kg"] == 0
    assert rollup["top_weight_kg"] is rollup["top_weight_reps"] is None
    assert rollup["best_e1rm_kg"] is rollup["best_set_volume_kg"] is None
    assert {kind for kind, _ in diary.records_of("pullup")} == {"reps"}


@pytest.mark.parametrize("tracking", ["assisted_reps", "reps_only", "duration", "distance_duration"])
def test_trackings_without_load_have_reps_but_no_weight(tracking: str):
    diary = Diary(thing=tracking)
    diary.session(A)
    diary.part(A, "thing", (20, 8))
    rollup = diary.rollup("thing")
    assert (rollup["reps"], rollup["max_reps"], rollup["volume_kg"]) == (8, 8, 0)
    assert rollup["top_weight_kg"] is rollup["top_weight_reps"] is None
    assert rollup["best_e1rm_kg"] is rollup["best_set_volume_kg"] is None


@pytest.mark.parametrize("tracking", ["weight_duration", "weight_distance"])
def test_loaded_carries_and_holds_have_a_top_weight_only(tracking: str):
    diary = Diary(carry=tracking)
    diary.session(A)
    diary.part(
        A,
        "carry",
        {"weight_kg": kg(40), "duration_seconds": 30, "distance_m": kg("20.5")},
        {"weight_kg": kg(50), "distance_m": kg(10)},
        {"weight_kg": kg(40), "reps": 3},
        {"weight_kg": kg(90)},
    )
    assert diary.rollup("carry") == {
        "sessions": 1,
        "sets": 4,
        "working_sets": 3,
        "reps": 3,
        "volume_kg": 0,
        "top_weight_kg": 50,
        "top_weight_reps": None,  # the set at 50 kg has no reps
        "best_e1rm_kg": None,
        "best_set_volume_kg": None,
        "max_reps": 3,
        "duration_seconds": 30,
        "distance_m": kg("30.5"),
        "first_session_id": A,
    }
    assert diary.records_of("carry") == {
        ("weight", DAY): (50, None, A),
        ("reps", DAY): (3, None, A),
        ("duration", DAY): (30, None, A),
        ("distance", DAY): (kg("20.5"), None, A),
    }


# --- records


def test_records_are_the_days_that_beat_all_before():
    first, second, third, fourth = days_of_march(1, 2, 3, 4)
    diary = Diary(squat="weight_reps")
    for session_id, day in ((C, first), (A, second), (B, third), ("d" + A[1:], fourth)):
        diary.session(session_id, day)
    diary.part(C, "squat", (100, 5), (100, 5))
    diary.part(A, "squat", (100, 5))
    diary.part(B, "squat", (105, 3), (102, 1))
    diary.part("d" + A[1:], "squat", (105, 10))
    fourth_session = "d" + A[1:]
    assert diary.records_of("squat") == {
        ("weight", first): (100, None, C),
        ("weight", third): (105, 100, B),
        ("e1rm", first): (kg("112.5"), None, C),  # the third day's best is 3780 / 34 = 111.18
        ("e1rm", fourth): (140, kg("112.5"), fourth_session),  # 3780 / 27
        ("set_volume", first): (500, None, C),
        ("set_volume", fourth): (1050, 500, fourth_session),
        ("day_volume", first): (1000, None, C),
        ("day_volume", fourth): (1050, 1000, fourth_session),
        ("reps", first): (5, None, C),
        ("reps", fourth): (10, 5, fourth_session),
    }


def test_a_record_belongs_to_the_set_that_reached_the_days_best_first():
    diary = Diary(squat="weight_reps")
    diary.session(A, started_at=None)
    diary.session(B, started_at=at(18))
    diary.session(C, started_at=at(7))
    diary.part(A, "squat", (100, 8))
    diary.part(B, "squat", (100, 5))
    diary.part(C, "squat", (90, 8))
    found = diary.records_of("squat")
    assert found["weight", DAY] == (100, None, B)  # A has no start, so it comes last
    assert found["reps", DAY] == (8, None, C)
    assert found["set_volume", DAY] == (800, None, A)
    assert found["day_volume", DAY] == (2020, None, C)  # the day's first session with the exercise
    assert found["e1rm", DAY] == (kg("124.14"), None, A)  # 3600 / 29 = 124.137...


def test_duration_and_distance_records_of_a_runner():
    first, second = days_of_march(1, 2)
    diary = Diary(run="distance_duration")
    diary.session(A, first)
    diary.session(B, second)
    diary.part(A, "run", {"distance_m": kg(5000), "duration_seconds": 1500}, {"duration_seconds": 60})
    diary.part(B, "run", {"distance_m": kg("5000.5"), "duration_seconds": 1500})
    assert diary.records_of("run") == {
        ("duration", first): (1500, None, A),
        ("distance", first): (5000, None, A),
        ("distance", second): (kg("5000.5"), 5000, B),
    }


def test_least_assistance_goes_down_to_none():
    first, second, third, fourth = days_of_march(1, 2, 3, 4)
    diary = Diary(dip="assisted_reps")
    for session_id, day in ((A, first), (B, second), (C, third), ("d" + A[1:], fourth)):
        diary.session(session_id, day)
    diary.part(A, "dip", (None, 9))
    diary.part(B, "dip", (30, 8), (20, 6), {"weight_kg": kg(10), "duration_seconds": 5})
    diary.part(C, "dip", (20, 8))
    diary.part("d" + A[1:], "dip", (0, 1))
    assert (
        diary.records_of("dip")
        == {
            ("reps", first): (9, None, A),
            ("duration", second): (5, None, B),
            ("least_assistance", second): (20, None, B),  # that at 10 kg has no reps
            ("least_assistance", fourth): (0, 20, "d" + A[1:]),
        }
    )


# --- snapshots


def test_summary_of_an_exercise_at_three_days():
    first, second = days_of_march(1, 30)
    diary = Diary(bench="weight_reps")
    diary.session(A, first)
    diary.session(B, second)
    diary.part(A, "bench", (100, 5))
    diary.part(B, "bench", (90, 10), (95, 1))
    assert diary.summary("bench", date(2026, 2, 28)) is None
    assert diary.summary("bench", date(2026, 3, 30)) == {
        "best_weight_kg": 100,
        "best_weight_on": first,
        "best_weight_session_id": A,
        "best_e1rm_kg": 120,  # 3240 / 27
        "best_e1rm_on": second,
        "best_e1rm_session_id": B,
        "one_rm_kg": 120,
        "one_rm_source": "estimate",
        "one_rm_on": second,
        "weight_30d_kg": 100,  # 1 March is the first of the thirty days
        "e1rm_30d_kg": 120,
        "weight_30d_last_year_kg": None,
        "e1rm_30d_last_year_kg": None,
        "last_performed_on": second,
        "sessions_30d": 2,
        "records_30d": 4,  # e1rm, set_volume, day_volume and reps of the second day
    }
    later = diary.summary("bench", date(2026, 3, 31))
    assert later is not None
    assert (later["weight_30d_kg"], later["sessions_30d"], later["records_30d"]) == (95, 1, 4)
    earlier = diary.summary("bench", date(2026, 3, 29))
    assert earlier is not None
    assert (earlier["best_e1rm_kg"], earlier["last_performed_on"]) == (kg("112.5"), first)
    assert (earlier["sessions_30d"], earlier["records_30d"]) == (1, 0)


def test_windows_with_nothing_are_null_and_counts_0():
    diary = Diary(bench="weight_reps")
    diary.session(A, DAY)
    diary.part(A, "bench", (100, 5))
    summary = diary.summary("bench", date(2026, 4, 9))  # the window begins on 11 March
    assert summary is not None
    assert summary["weight_30d_kg"] is summary["e1rm_30d_kg"] is None
    assert summary["sessions_30d"] == summary["records_30d"] == 0
    assert (summary["best_weight_kg"], summary["last_performed_on"]) == (100, DAY)


def test_window_of_last_year_has_thirty_days_and_ends_a_year_before():
    diary = Diary(bench="weight_reps")
    for session_id, day, weight_kg in (
        (A, date(2025, 2, 8), 130),
        (B, date(2025, 2, 9), 100),
        (C, date(2025, 3, 10), 110),
        ("d" + A[1:], date(2025, 3, 11), 120),
    ):
        diary.session(session_id, day)
        diary.part(session_id, "bench", (weight_kg, 1))
    summary = diary.summary("bench", date(2026, 3, 10))
    assert summary is not None
    assert summary["weight_30d_last_year_kg"] == summary["e1rm_30d_last_year_kg"] == 110
    day_before = diary.summary("bench", date(2026, 3, 9))
    assert day_before is not None
    assert day_before["weight_30d_last_year_kg"] == 130  # 8 February to 9 March


def test_a_year_before_a_leap_day():
    assert one_year_before(date(2028, 2, 29)) == date(2027, 2, 28)
    assert one_year_before(date(2029, 2, 28)) == date(2028, 2, 28)
    assert one_year_before(date(2028, 3, 1)) == date(2027, 3, 1)


@pytest.mark.parametrize(
    ("manual_kg", "expected"),
    [
        ("112.49", ("112.50", "estimate", DAY)),
        ("112.50", ("112.50", "manual", date(2026, 3, 1))),
        ("112.51", ("112.51", "manual", date(2026, 3, 1))),
    ],
)
def test_one_rm_is_the_greater_and_manual_when_equal(manual_kg: str, expected: tuple[str, str, date]):
    diary = Diary(bench="weight_reps")
    diary.session(A)
    diary.part(A, "bench", (100, 5))
    diary.manual("bench", date(2026, 2, 1), 200)  # not the latest
    diary.manual("bench", date(2026, 3, 1), manual_kg)
    diary.manual("bench", date(2026, 3, 1), 50)  # not the highest of its day
    diary.manual("bench", date(2026, 3, 11), 300)  # after as_of
    summary = diary.summary("bench", DAY)
    assert summary is not None
    one_rm = (summary["one_rm_kg"], summary["one_rm_source"], summary["one_rm_on"])
    assert one_rm == (kg(expected[0]), *expected[1:])


def test_an_exercise_with_only_a_manual_one_rm_has_a_row():
    diary = Diary()
    diary.manual("bench", DAY, 140)
    assert diary.summary("bench", date(2026, 3, 9)) is None
    summary = diary.summary("bench", DAY)
    assert summary is not None
    not_null = {column: value for column, value in summary.items() if value is not None}
    assert not_null == {
        "one_rm_kg": 140,
        "one_rm_source": "manual",
        "one_rm_on": DAY,
        "sessions_30d": 0,
        "records_30d": 0,
    }


def test_an_exercise_without_estimate_or_manual_has_no_one_rm():
    diary = Diary(plank="duration")
    diary.session(A)
    diary.part(A, "plank", {"duration_seconds": 60})
    summary = diary.summary("plank", DAY)
    assert summary is not None
    assert summary["one_rm_kg"] is summary["one_rm_source"] is summary["one_rm_on"] is None
    assert (summary["best_weight_kg"], summary["last_performed_on"], summary["sessions_30d"]) == (
        None,
        DAY,
        1,
    )


def test_sessions_of_one_day_are_counted_each():
    diary = Diary(bench="weight_reps")
    for session_id in (A, B):
        diary.session(session_id)
        diary.part(session_id, "bench", (100, 5), position=1)
        diary.part(session_id, "bench", (100, 5), position=2)
    summary = diary.summary("bench", DAY)
    assert summary is not None
    assert summary["sessions_30d"] == 2


# --- comparison


def test_differences_names_rows_and_columns():
    expected = {("a", DAY): {"sets": 1, "volume_kg": kg("100.00")}, ("b", DAY): {"sets": 2}}
    actual = {("a", DAY): {"sets": 3, "volume_kg": 100}, ("c", DAY): {"sets": None}}
    assert differences(expected, actual) == [
        "a / 2026-03-10: sets: expected 1, found 3",
        "b / 2026-03-10: missing, expected sets=2",
        "c / 2026-03-10: not expected, found sets=null",
    ]
    assert differences(expected, expected) == []


def test_differences_tells_null_from_0_and_names_missing_columns():
    assert differences({("a",): {"x": None, "y": 1}}, {("a",): {"x": 0, "z": 2}}) == [
        "a: x: expected null, found 0",
        "a: y: expected 1, found no such column",
        "a: z: expected no such column, found 2",
    ]


# --- rep maxes


def test_a_rep_max_is_the_best_weight_done_for_at_least_so_many_reps():
    first, second, third = days_of_march(1, 2, 3)
    diary = Diary(squat="weight_reps")
    for session_id, day in ((A, first), (B, second), (C, third)):
        diary.session(session_id, day)
    diary.part(A, "squat", (100, 3), (80, 13))
    diary.part(B, "squat", (100, 5), (110, 1), {"weight_kg": kg(200), "reps": 3, "set_type": "warmup"})
    diary.part(C, "squat", (110, 1), (80, 12), (0, 12), (None, 12))
    found = {
        reps: (row["weight_kg"], row["achieved_on"], row["session_id"])
        for (_, reps), row in rep_maxes(diary.account()).items()
    }
    assert found == {
        1: (110, second, B),
        **dict.fromkeys((2, 3), (100, first, A)),
        **dict.fromkeys((4, 5), (100, second, B)),
        **dict.fromkeys(range(6, 13), (80, first, A)),
    }


@pytest.mark.parametrize("tracking", ["assisted_reps", "reps_only", "weight_duration", "weight_distance"])
def test_only_loads_that_are_lifted_for_reps_have_rep_maxes(tracking: str):
    diary = Diary(thing=tracking)
    diary.session(A)
    diary.part(A, "thing", {"weight_kg": kg(20), "reps": 8, "duration_seconds": 30})
    assert rep_maxes(diary.account()) == {}


# --- periods and calendar days


def test_periods_and_calendar_of_two_days_across_a_new_year():
    last, first = date(2026, 12, 31), date(2027, 1, 1)
    diary = Diary(squat="weight_reps", bench="weight_reps", run="distance_duration")
    diary.sessions += [
        Session(A, last, at(18, last), "Evening", 600),
        Session(B, last, at(7, last), None, None),
        Session(C, first, None, "New year", 30),
    ]
    diary.part(A, "squat", (100, 5))
    diary.part(A, "squat", (100, 2), position=2)
    diary.part(C, "squat", (110, 1))
    diary.part(C, "run", {"distance_m": kg("500.5"), "duration_seconds": 200}, position=2)
    diary.part(C, "bench", {"weight_kg": kg(60), "reps": 5, "set_type": "warmup"}, position=3)
    periods = training_periods(diary.account(), POLICY)
    assert set(periods) == {
        *(("day", day) for day in (last, first)),
        ("week", date(2026, 12, 28)),
        *(("month", day) for day in (date(2026, 12, 1), first)),
        *(("quarter", day) for day in (date(2026, 10, 1), first)),
        *(("year", day) for day in (date(2026, 1, 1), first)),
    }
    assert periods["week", date(2026, 12, 28)] == {
        "sessions": 3,
        "active_days": 2,
        "duration_seconds": 630,
        "exercises": 2,
        "working_sets": 4,
        "reps": 8,
        "volume_kg": 810,
        "distance_m": kg("500.5"),
        "record_count": 1,  # the weight of the new year; everything else is a baseline or below
    }
    assert periods["year", first]["exercises"] == periods["day", first]["exercises"] == 2
    assert periods["quarter", date(2026, 10, 1)]["record_count"] == 0
    assert calendar_days(diary.account(), POLICY) == {
        (last,): {
            "sessions": 2,
            "titles": ["Evening"],
            "exercises": 1,
            "working_sets": 2,
            "volume_kg": 700,
            "duration_seconds": 600,
            "record_count": 0,
        },
        (first,): {
            "sessions": 1,
            "titles": ["New year"],
            "exercises": 2,
            "working_sets": 2,
            "volume_kg": 110,
            "duration_seconds": 30,
            "record_count": 1,
        },
    }


@pytest.mark.parametrize(
    ("week_start", "expected"),
    [(1, date(2026, 3, 9)), (2, date(2026, 3, 10)), (3, date(2026, 3, 4)), (7, date(2026, 3, 8))],
)
def test_a_week_starts_on_the_policys_day(week_start: int, expected: date):
    assert start_of_week(DAY, week_start) == expected  # a Tuesday
