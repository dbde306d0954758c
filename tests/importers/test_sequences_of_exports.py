"""Random histories, edited in the app and here, exported after each edit and imported in any order.

Whatever the sequence, the account ends as its newest export has it, with what only earlier exports had, and what was
edited or deleted here as it is here; and what is published of it equals the reckoning.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from uuid import uuid4

import pytest
from reckoning.compare import assert_account_equals_reckoning
from support.app import AppAccount, Stages
from support.histories import stored_sets

from importers.history import ImportedBlock, ImportedSession, ImportedSet, ParsedHistory
from importers.saving import import_history

NAMES = ("Squat", "Bench", "Row")
SHIFTS = (-11 * 60, -60, -30, 15, 60, 9 * 60, 24 * 60)


@dataclass
class Diary:
    """What an app has: workouts by an id of our own, each its start, title and sets of one exercise after the other."""

    chance: Random
    workouts: dict[int, tuple[datetime, str, list[tuple[str, int, int]]]] = field(default_factory=dict)
    next_id: int = 0

    def append(self):
        days = max((start for start, _, _ in self.workouts.values()), default=datetime(2026, 1, 1)).date()
        start = datetime(days.year, days.month, days.day, 17) + timedelta(
            days=self.chance.randint(2, 3), seconds=self.chance.randrange(3600)
        )
        sets = [
            (name, self.chance.randrange(20, 200), self.chance.randint(1, 12))
            for name in self.chance.sample(NAMES, 2)
            for _ in range(self.chance.randint(1, 3))
        ]
        self.workouts[self.next_id] = (start, "Push", sets)
        self.next_id += 1

    def correct(self):
        which = self._any()
        start, title, sets = self.workouts[which]
        sets = list(sets)
        place = self.chance.randrange(len(sets))
        sets[place] = (sets[place][0], self.chance.randrange(200, 400), sets[place][2])
        self.workouts[which] = (start, title, sets)

    def add_a_set(self):
        which = self._any()
        start, title, sets = self.workouts[which]
        self.workouts[which] = (start, title, [*sets, (sets[-1][0], self.chance.randrange(20, 200), 3)])

    def rename(self):
        which = self._any()
        start, _, sets = self.workouts[which]
        self.workouts[which] = (start, f"Renamed {self.chance.randrange(1000)}", sets)

    def rename_exercise(self):
        self.workouts = {
            which: (
                start,
                title,
                [(f"{name}'" if name == "Row" else name, kg, reps) for name, kg, reps in sets],
            )
            for which, (start, title, sets) in self.workouts.items()
        }

    def shift(self):
        by = timedelta(minutes=self.chance.choice(SHIFTS))
        self.workouts = {
            which: (start + by, title, sets) for which, (start, title, sets) in self.workouts.items()
        }

    def move(self):
        """Move one workout to the next day, where there is none."""
        which = self._any()
        start, title, sets = self.workouts[which]
        self.workouts[which] = (start + timedelta(days=1), title, sets)

    def delete(self):
        """Delete any workout but the last: without that, a file would look like one that is older."""
        last = max(self.workouts, key=lambda which: self.workouts[which][0])
        others = [which for which in self.workouts if which != last]
        if len(others) > 2:
            del self.workouts[self.chance.choice(others)]

    def export(self) -> ParsedHistory:
        sessions = []
        line = 1
        for start, title, sets in self.workouts.values():
            blocks = []
            for name, kg, reps in sets:
                line += 1
                one = ImportedSet(line, weight_kg=Decimal(kg), reps=reps)
                if blocks and blocks[-1].exercise == name:
                    blocks[-1] = replace(blocks[-1], sets=(*blocks[-1].sets, one))
                else:
                    blocks.append(ImportedBlock(name, None, (one,)))
            sessions.append(
                ImportedSession(
                    f"{start.isoformat()} {title}", start.date(), start, title, 1800, None, tuple(blocks)
                )
            )
        names = {name for _, _, sets in self.workouts.values() for name, _, _ in sets}
        return ParsedHistory(tuple(sessions), (), line - 1, dict.fromkeys(names, "weight_reps"))

    def _any(self) -> int:
        return self.chance.choice(list(self.workouts))


EDITS = ("append", "correct", "add_a_set", "rename", "rename_exercise", "shift", "move", "delete")


def bare(start, title, sets):
    """A workout as it is compared with what is stored."""
    return (start.isoformat(), title, tuple((name, Decimal(kg), reps) for name, kg, reps in sets))


def stored(database, user):
    rows = database.as_account(user)(
        "select coalesce(to_char(w.started_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS'), ''), w.title,"
        " array_agg(array[x.name, s.weight_kg::text, s.reps::text] order by p.position, s.set_no)"
        " from public.workout_sessions w join public.session_exercise_part p on p.session_id = w.id"
        " join public.exercises x on x.id = p.exercise_id join public.session_sets s on s.part_id = p.id group by w.id"
    )
    return sorted(
        (start, title, tuple((name, Decimal(kg), int(reps)) for name, kg, reps in sets))
        for start, title, sets in rows
    )


def published_equals_reckoning(database, user):
    Stages(database).drain()
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection.connection.driver_connection, user)


@pytest.mark.parametrize("seed", range(12))
def test_each_export_in_turn_ends_as_the_last_one(database, seed):
    """Imported after each edit: a workout that the app has deleted stays as it was last seen, under its last start."""
    chance, user = Random(seed), uuid4()
    diary = Diary(chance)
    for _ in range(chance.randint(4, 8)):
        diary.append()
    import_history(database.engine, user, "strong", diary.export())
    for _ in range(8):
        edit = chance.choice(EDITS)
        getattr(diary, edit)()
        report = import_history(database.engine, user, "strong", diary.export())
        assert report.sets_taken + len(report.skipped) == report.data_rows
        again = import_history(database.engine, user, "strong", diary.export())
        assert (again.sessions_saved, again.sessions_updated, again.sessions_differing) == (0, 0, 0), edit
    found = stored(database, user)
    assert len(found) == diary.next_id
    for workout in diary.workouts.values():
        assert bare(*workout) in found
    published_equals_reckoning(database, user)


@pytest.mark.parametrize("seed", range(12))
def test_growing_exports_in_any_order_end_as_the_last_one(database, seed):
    """Each export has one workout more than the one before, so that its age shows, and any edits besides."""
    chance, user = Random(1000 + seed), uuid4()
    diary = Diary(chance)
    for _ in range(chance.randint(4, 8)):
        diary.append()
    exports = [diary.export()]
    for _ in range(4):
        getattr(diary, chance.choice(("correct", "add_a_set", "rename", "append")))()
        diary.append()
        exports.append(diary.export())
    order = list(exports)
    chance.shuffle(order)
    for export in order:
        import_history(database.engine, user, "strong", export)
    assert stored(database, user) == sorted(bare(*workout) for workout in diary.workouts.values())
    published_equals_reckoning(database, user)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_edited_or_deleted_here_stays_whatever_the_app_does(database, seed):
    chance, user = Random(2000 + seed), uuid4()
    diary = Diary(chance)
    for _ in range(6):
        diary.append()
    import_history(database.engine, user, "strong", diary.export())
    me, app = database.as_account(user), AppAccount(database, user)
    edited, deleted = chance.sample(sorted(diary.workouts), 2)
    ours = {which: session_of(me, diary.workouts[which]) for which in (edited, deleted)}
    squat = me.value("select id from public.exercises order by name limit 1")
    app.save(
        {"exercise_id": squat, "sets": [{"weight_kg": 1, "reps": 1}]},
        session_id=str(ours[edited]),
        session_date="2026-01-01",
        title="Edited here",
    )
    app.delete(str(ours[deleted]))
    for _ in range(6):
        getattr(diary, chance.choice(("append", "correct", "add_a_set", "rename", "shift")))()
        import_history(database.engine, user, "strong", diary.export())
    rest = [bare(*workout) for which, workout in diary.workouts.items() if which not in (edited, deleted)]
    found = stored(database, user)
    assert len(found) == len(rest) + 1
    assert [one for one in rest if one not in found] == []
    assert [kg for _, _, kg, *_ in stored_sets(database, user) if kg == 1] == [Decimal(1)]
    published_equals_reckoning(database, user)


def session_of(me, workout):
    return me.value(
        "select id from public.workout_sessions where started_at = cast(:start as timestamp) at time zone 'UTC'",
        start=workout[0],
    )
