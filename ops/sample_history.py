"""A made-up training history: two years, about 300 sessions, always the same for the same day.

It stands in for a real export in the demo and in measurements: three sessions a week with variations that
change every few weeks, loads that grow fast at first and slowly later, lighter weeks, tested singles, missed
days and a break.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import count
from random import Random

from importers.history import ImportedBlock, ImportedSession, ImportedSet, ParsedHistory, Tracking

PROVIDER = "sample"

_SEED = 20_240_229
_DAYS = 730
_WEEKS = 105

_BREAK_WEEKS = range(41, 44)
_LIGHT_WEEK = 6
_TEST_WEEK = 12
_VARIATION_WEEKS = 5
_TWO_SESSIONS_DAYS_AGO = 100
_BACK_OFF_DAYS_AGO = 200


@dataclass(frozen=True, slots=True)
class _Exercise:
    """An exercise of the programme.

    What grows is kilograms, for duration seconds, for distance_duration metres: from `start` by `gain`, in
    steps of `step`. Assistance is a negative load that grows towards 0.
    """

    name: str
    tracking: Tracking
    start: int = 0
    gain: int = 0
    step: Decimal = Decimal("2.5")
    reps: int = 8
    sets: int = 3


def _lift(name: str, start: int, gain: int, reps: int, sets: int = 3, step: str = "2.5") -> _Exercise:
    return _Exercise(name, "weight_reps", start, gain, Decimal(step), reps, sets)


_EXERCISES = {
    exercise.name: exercise
    for exercise in (
        _lift("Back Squat (Barbell)", 70, 65, 5, 4),
        _lift("Front Squat (Barbell)", 50, 40, 5),
        _lift("Deadlift (Barbell)", 90, 80, 5),
        _lift("Romanian Deadlift (Barbell)", 60, 50, 8),
        _lift("Good Morning (Barbell)", 30, 25, 10),
        _lift("Hip Thrust (Barbell)", 70, 70, 10),
        _lift("Bench Press (Barbell)", 55, 40, 5, 4),
        _lift("Close-Grip Bench Press (Barbell)", 45, 30, 8),
        _lift("Incline Bench Press (Barbell)", 45, 30, 8),
        _lift("Overhead Press (Barbell)", 35, 25, 5, 4),
        _lift("Push Press (Barbell)", 40, 30, 3),
        _lift("Bent Over Row (Barbell)", 50, 35, 8),
        _lift("Pendlay Row (Barbell)", 50, 35, 5),
        _lift("Biceps Curl (Barbell)", 20, 15, 10),
        _lift("Skull Crusher (EZ Bar)", 20, 15, 10),
        _lift("Bench Press (Dumbbell)", 20, 14, 10, step="2"),
        _lift("Shoulder Press (Dumbbell)", 14, 10, 10, step="2"),
        _lift("Lateral Raise (Dumbbell)", 6, 6, 12, step="1"),
        _lift("One-Arm Row (Dumbbell)", 22, 16, 10, step="2"),
        _lift("Bulgarian Split Squat (Dumbbell)", 12, 14, 8, step="2"),
        _lift("Hammer Curl (Dumbbell)", 10, 8, 10, step="1"),
        _lift("Goblet Squat (Kettlebell)", 16, 16, 12, step="4"),
        _lift("Kettlebell Swing", 16, 16, 15, step="4"),
        _lift("Lat Pulldown (Cable)", 45, 30, 10),
        _lift("Seated Row (Cable)", 45, 30, 10),
        _lift("Triceps Pushdown (Cable)", 20, 18, 12),
        _lift("Face Pull (Cable)", 12, 14, 15),
        _lift("Leg Press (Machine)", 120, 120, 10, step="5"),
        _lift("Leg Extension (Machine)", 35, 35, 12, step="5"),
        _lift("Lying Leg Curl (Machine)", 30, 25, 12, step="5"),
        _lift("Standing Calf Raise (Machine)", 60, 60, 12, step="5"),
        _Exercise("Pull-Up", "bodyweight_reps", gain=20, reps=6),
        _Exercise("Dip", "bodyweight_reps", gain=28),
        _Exercise("Chin-Up (Assisted)", "assisted_reps", start=-40, gain=35, step=Decimal(5)),
        _Exercise("Push-Up", "reps_only", reps=20),
        _Exercise("Hanging Leg Raise", "reps_only", reps=10),
        _Exercise("Plank", "duration", start=40, gain=110, step=Decimal(5)),
        _Exercise("Dead Hang", "duration", start=25, gain=50, step=Decimal(5), sets=2),
        _Exercise("Rowing Machine", "distance_duration", start=1500, gain=1500, step=Decimal(250), sets=1),
        _Exercise("Running", "distance_duration", start=3000, gain=5000, step=Decimal(500), sets=1),
        _Exercise("Farmer's Walk", "weight_distance", start=40, gain=40, step=Decimal(5)),
    )
}

_Slots = tuple[tuple[str, ...], ...]
"""A session's exercises in order; where a slot names several, they take turns."""

_LOWER: _Slots = (
    ("Back Squat (Barbell)",),
    ("Romanian Deadlift (Barbell)", "Good Morning (Barbell)"),
    ("Leg Press (Machine)", "Bulgarian Split Squat (Dumbbell)"),
    ("Lying Leg Curl (Machine)", "Leg Extension (Machine)"),
    ("Standing Calf Raise (Machine)",),
    ("Plank", "Hanging Leg Raise"),
)
_UPPER: _Slots = (
    ("Bench Press (Barbell)",),
    ("Bent Over Row (Barbell)", "Pendlay Row (Barbell)"),
    ("Overhead Press (Barbell)", "Push Press (Barbell)"),
    ("Lat Pulldown (Cable)", "Chin-Up (Assisted)"),
    ("Biceps Curl (Barbell)", "Hammer Curl (Dumbbell)"),
    ("Triceps Pushdown (Cable)", "Skull Crusher (EZ Bar)"),
    ("Lateral Raise (Dumbbell)", "Face Pull (Cable)"),
)
_FULL_BODY: _Slots = (
    ("Deadlift (Barbell)",),
    ("Front Squat (Barbell)", "Goblet Squat (Kettlebell)"),
    ("Incline Bench Press (Barbell)", "Bench Press (Dumbbell)", "Close-Grip Bench Press (Barbell)"),
    ("Pull-Up", "Seated Row (Cable)", "One-Arm Row (Dumbbell)"),
    ("Dip", "Push-Up", "Shoulder Press (Dumbbell)"),
    ("Hip Thrust (Barbell)", "Kettlebell Swing"),
    ("Farmer's Walk", "Dead Hang"),
)
_CONDITIONING: _Slots = (("Running", "Rowing Machine"), ("Dead Hang", "Plank"))

# By days before the last one, modulo a week: the history ends with a session, whatever weekday that is.
_WEEK: dict[int, tuple[str, _Slots]] = {
    0: ("Full Body", _FULL_BODY),
    2: ("Upper", _UPPER),
    4: ("Lower", _LOWER),
}
_SESSION_NOTES = ("slept badly", "felt strong", "new shoes", "short on time", "gym was crowded")
_BLOCK_NOTES = (
    "belt on the top set",
    "keep the elbows in",
    "left shoulder a bit tight",
    "slow on the way down",
)


def sample_history(today: date | None = None) -> ParsedHistory:
    """Return the history of the two years that end the day before `today` (default: today in UTC).

    The sessions are the same whatever `today` is, only their days move along; so their source_refs stay and a
    second import on another day adds nothing. Lines count the sets from 1. `PROVIDER` is its source.
    """
    last_day = (today or datetime.now(UTC).date()) - timedelta(days=1)
    sessions = tuple(_Programme(last_day).sessions())
    return ParsedHistory(
        sessions=sessions,
        skipped=(),
        data_rows=sum(1 for session in sessions for _ in session.sets()),
        tracking={name: exercise.tracking for name, exercise in _EXERCISES.items()},
    )


class _Programme:
    """Writes the history session by session, drawing chance from one seeded generator in a fixed order."""

    def __init__(self, last_day: date) -> None:
        self._last_day = last_day
        self._chance = Random(_SEED)
        self._lines = count(1)
        self._numbers = count(1)

    def sessions(self) -> Iterator[ImportedSession]:
        for days_ago in reversed(range(_DAYS)):
            week = (_DAYS - 1 - days_ago) // 7
            if days_ago == _TWO_SESSIONS_DAYS_AGO:
                yield self._session(days_ago, week, "Morning Conditioning", _CONDITIONING, time(6, 45))
            if days_ago % 7 in _WEEK and not self._is_missed(days_ago, week):
                title, slots = _WEEK[days_ago % 7]
                yield self._session(days_ago, week, title, slots, time(18, self._chance.randrange(60)))
            elif days_ago % 21 == 13:
                yield self._session(days_ago, week, "Conditioning", _CONDITIONING, time(10, 30))

    def _is_missed(self, days_ago: int, week: int) -> bool:
        missed = self._chance.random() < 0.12
        fixed = days_ago in (0, _TWO_SESSIONS_DAYS_AGO, _BACK_OFF_DAYS_AGO)
        return week in _BREAK_WEEKS or (missed and not fixed)

    def _session(self, days_ago: int, week: int, title: str, slots: _Slots, start: time) -> ImportedSession:
        day = self._last_day - timedelta(days=days_ago)
        variation = week // _VARIATION_WEEKS
        chosen = [_EXERCISES[names[variation % len(names)]] for names in slots]
        blocks = [self._block(exercise, week, is_main=exercise is chosen[0]) for exercise in chosen]
        if days_ago == _BACK_OFF_DAYS_AGO:
            blocks.append(self._block(chosen[0], week, is_main=False))
        minutes = 6 * sum(len(block.sets) for block in blocks) // 2 + self._chance.randrange(5, 20)
        return ImportedSession(
            source_ref=f"{PROVIDER} {next(self._numbers):04}",
            session_date=day,
            started_at_local=datetime.combine(day, start),
            title=title,
            duration_seconds=minutes * 60,
            notes=self._sometimes(0.1, _SESSION_NOTES),
            blocks=tuple(blocks),
        )

    def _sometimes(self, share: float, notes: tuple[str, ...]) -> str | None:
        return self._chance.choice(notes) if self._chance.random() < share else None

    def _block(self, exercise: _Exercise, week: int, *, is_main: bool) -> ImportedBlock:
        return ImportedBlock(
            exercise.name,
            self._sometimes(0.05, _BLOCK_NOTES),
            tuple(self._sets(exercise, week, is_main=is_main)),
        )

    def _sets(self, exercise: _Exercise, week: int, *, is_main: bool) -> Iterator[ImportedSet]:
        level = self._level(exercise, week)
        match exercise.tracking:
            case "duration":
                for _ in range(exercise.sets):
                    yield ImportedSet(
                        self._line(), duration_seconds=int(level) - self._chance.randrange(0, 10)
                    )
            case "distance_duration":
                pace_per_km = self._chance.randrange(290, 340) - week // 2
                yield ImportedSet(
                    self._line(), distance_m=level, duration_seconds=int(level) * pace_per_km // 1000
                )
            case "weight_distance":
                for _ in range(exercise.sets):
                    yield ImportedSet(
                        self._line(), weight_kg=level, distance_m=Decimal(self._chance.choice((20, 30, 40)))
                    )
            case _:
                if is_main:
                    yield from self._warm_ups(level, exercise.step)
                yield from self._working_sets(exercise, level or None, week, is_main=is_main)

    def _level(self, exercise: _Exercise, week: int) -> Decimal:
        """Return the week's load, seconds or metres: quick gains first, a tenth less in a light week."""
        share = Decimal(week) / _WEEKS
        level = exercise.start + exercise.gain * share * Decimal("1.6") / (1 + share * Decimal("0.6"))
        if week % _LIGHT_WEEK == _LIGHT_WEEK - 1:
            level -= abs(level) / 10
        return level // exercise.step * exercise.step

    def _warm_ups(self, level: Decimal, step: Decimal) -> Iterator[ImportedSet]:
        for share, reps in ((Decimal("0.5"), 8), (Decimal("0.75"), 4)):
            yield ImportedSet(
                self._line(), set_type="warmup", weight_kg=level * share // step * step, reps=reps
            )

    def _working_sets(
        self, exercise: _Exercise, load: Decimal | None, week: int, *, is_main: bool
    ) -> Iterator[ImportedSet]:
        if is_main and load is not None and week % _TEST_WEEK == _TEST_WEEK - 1:
            single = load * Decimal("1.15") // exercise.step * exercise.step
            yield ImportedSet(self._line(), weight_kg=single, reps=1, rpe=Decimal("9.5"))
        for number in range(exercise.sets):
            # The later the set, the more often a rep is missing.
            reps = exercise.reps + self._chance.choice((0, 0, 1)) - (self._chance.random() < 0.2 * number)
            yield ImportedSet(self._line(), weight_kg=load, reps=reps, rpe=self._rpe() if is_main else None)
        yield from self._last_set(exercise, load)

    def _rpe(self) -> Decimal:
        return Decimal(self._chance.randrange(13, 19)) / 2

    def _last_set(self, exercise: _Exercise, load: Decimal | None) -> Iterator[ImportedSet]:
        """Now and then a set to failure, a drop set, or one that was planned and not done."""
        chance = self._chance.random()
        if chance < 0.10:
            yield ImportedSet(self._line(), set_type="failure", weight_kg=load, reps=exercise.reps)
        elif chance < 0.18 and load is not None and load > 0:
            lighter = load * Decimal("0.7") // exercise.step * exercise.step
            yield ImportedSet(
                self._line(), set_type="drop", weight_kg=lighter or None, reps=exercise.reps + 4
            )
        elif chance < 0.20:
            yield ImportedSet(self._line(), weight_kg=load, is_completed=False)

    def _line(self) -> int:
        return next(self._lines)
