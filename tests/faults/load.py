"""Clients that save, edit, move, delete, state 1RMs and import, and keep what they were promised.

They behave as real ones do: what can pass is repeated, with the same mutation_id, until there is an answer.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from conftest import Database
from reckoning import fetch
from reckoning.rows import Account
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from support.app import AppAccount, Json

from core.errors import OperatorError
from faults.history import Promise
from importers.formats import read_history
from importers.saving import import_history

NAMES = ("Squat", "Bench", "Row", "Pull Up", "Press")
STRONG_HEADER = (
    "Date,Workout Name,Duration,Exercise Name,Set Order,Weight,Reps,Distance,Seconds,Notes,Workout Notes,RPE"
)
_PASSING = ("08", "40", "53", "57", "25", "55P03", "XX000")
"""SQLSTATEs, or how they begin, of what a client repeats: the connection, the server or its settings, contention."""
_GIVES_UP_AFTER = 90

Sets = tuple[tuple[str, int, int], ...]
"""(exercise name, kilograms, repetitions) in their order."""


@dataclass(frozen=True)
class Stored:
    """A session as it has to be stored."""

    day: date
    sets: Sets


@dataclass(frozen=True)
class Kept:
    """A write that was answered: how to send it again, and its receipt."""

    send: Callable[[], Json]
    receipt: Json


class Unanswered(Exception):
    """A write that had no answer long after the last fault."""


@dataclass
class Person:
    """One account, written by one client, and what has to be true of it."""

    app: AppAccount
    sessions: dict[str, Stored] = field(default_factory=dict)
    """By title; a title is used once."""
    ids: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Title to (session id, updated_at), of those that an edit or a deletion may name."""
    manual: dict[str, tuple[str, date, int]] = field(default_factory=dict)
    """Manual record's id to (exercise name, day, kilograms)."""
    receipts: list[Kept] = field(default_factory=list)
    rows: dict[int, Account] = field(default_factory=dict)
    """The canonical rows at a requested generation."""
    numbers: int = 0
    minutes: set[int] = field(default_factory=set)
    """Of the day, at which an imported workout began: the same start is the same workout, whatever its sets."""

    @property
    def user_id(self) -> UUID:
        return self.app.user_id

    def new_title(self) -> str:
        self.numbers += 1
        return f"session {self.numbers}"

    def new_minute(self, dice: random.Random) -> int:
        minute = dice.choice([one for one in range(24 * 60) if one not in self.minutes])
        self.minutes.add(minute)
        return minute


def cast(database: Database, count: int) -> list[Person]:
    """Return new accounts, with their exercises."""
    people = [Person(AppAccount(database)) for _ in range(count)]
    for person in people:
        for name in NAMES:
            person.app.exercise(name)
    return people


def today() -> date:
    """The UTC date by a clock that nobody steps."""
    return datetime.now(UTC).date()


@dataclass
class Client:
    """Writes for its people, one write after the other, until `over` is set."""

    people: Sequence[Person]
    dice: random.Random
    over: threading.Event
    database: Database
    promises: list[Promise] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    """How often an answer was lost or refused for now, by SQLSTATE."""
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        steps = [self.save, self.edit, self.move, self.delete, self.state_1rm, self.take_back_1rm]
        steps += [self.import_file, self.send_again]
        while not self.over.is_set():
            person = self.dice.choice(self.people)
            [step] = self.dice.choices(steps, (40, 20, 10, 12, 8, 4, 3, 8))
            try:
                if step(person):
                    self.done[step.__name__] += 1
                    self.note_rows(person)
            except Exception as error:
                self.problems.append(f"{step.__name__} of {person.user_id}: {type(error).__name__}: {error}")
                return
            self.over.wait(self.dice.uniform(0.1, 0.5))

    # ------------------------------------------------------------ what a client does; true: it wrote

    def save(self, person: Person) -> bool:
        return self._store(person, person.new_title(), self._any_day(), self._any_sets())

    def edit(self, person: Person) -> bool:
        title = self._any_of(person.ids)
        return bool(title) and self._store(person, title, person.sessions[title].day, self._any_sets())

    def move(self, person: Person) -> bool:
        title = self._any_of(person.ids)
        return bool(title) and self._store(person, title, self._any_day(), person.sessions[title].sets)

    def delete(self, person: Person) -> bool:
        title = self._any_of(person.ids)
        if not title:
            return False
        session, mutation = person.ids[title][0], uuid.uuid4()
        self._promised(person, lambda: person.app.delete(session, mutation))
        del person.sessions[title], person.ids[title]
        return True

    def state_1rm(self, person: Person) -> bool:
        name, kilograms, day, mutation = (
            self.dice.choice(NAMES),
            self.dice.randrange(60, 200),
            self._any_day(),
            uuid.uuid4(),
        )
        receipt = self._promised(
            person,
            lambda: person.app.call(
                "select public.set_manual_pr_v1(:exercise, :kilograms, :day, 'manual', :user, :mutation)",
                exercise=person.app.exercises[name],
                kilograms=kilograms,
                day=day,
                mutation=mutation,
            ),
        )
        person.manual[receipt["manual_pr_id"]] = (name, day, kilograms)
        return True

    def take_back_1rm(self, person: Person) -> bool:
        record, mutation = self._any_of(person.manual), uuid.uuid4()
        if not record:
            return False
        self._promised(
            person,
            lambda: person.app.call(
                "select public.delete_manual_pr_v1(cast(:record as uuid), :user, :mutation)",
                record=record,
                mutation=mutation,
            ),
        )
        del person.manual[record]
        return True

    def import_file(self, person: Person) -> bool:
        """Import a small Strong export; what interrupts it is met by the same command again."""
        workouts = {
            person.new_title(): Stored(self._any_day(), self._any_sets())
            for _ in range(self.dice.randrange(1, 4))
        }
        minutes = [person.new_minute(self.dice) for _ in workouts]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "strong.csv"
            file.write_text(_strong(workouts, minutes), encoding="utf-8")
            history = read_history(file, "strong", "kg")
            engine = create_engine(self.database.url, poolclass=NullPool)
            # What the importer calls another name's exercise is its own business: ours have been mapped.
            report = self._answered(lambda: import_history(engine, person.user_id, "strong", history))
        assert not list(report.skipped) or report.sessions_already_there, list(report.skipped)
        person.sessions |= workouts
        return True

    def send_again(self, person: Person) -> bool:
        """Send an old write once more: the answer is the same, and nothing is written."""
        if person.receipts:
            self.check_replay(self.dice.choice(person.receipts[-20:]))
        return False

    def send_everything_again(self) -> None:
        """Send every write of the round once more; the first that has no answer ends it."""
        try:
            for person in self.people:
                for kept in person.receipts:
                    self.check_replay(kept)
        except (DBAPIError, Unanswered) as error:
            self.problems.append(f"sent again, {kept.receipt} had no answer: {error}")

    def check_replay(self, kept: Kept) -> None:
        again = self._answered(kept.send)
        if again != {**kept.receipt, "replayed": True}:
            self.problems.append(f"sent again, {kept.receipt} became {again}")

    def note_rows(self, person: Person) -> None:
        """Note the account's rows, and the generation that asks for them, of one moment."""
        try:
            generation, rows = rows_of(self.database, person.user_id)
        except DBAPIError:
            return  # the server is away; the next write is noted
        person.rows[generation] = rows

    # ------------------------------------------------------------ how

    def _store(self, person: Person, title: str, day: date, sets: Sets) -> bool:
        known = person.ids.get(title)
        fields: Json = {"session_id": known[0], "expected_updated_at": known[1]} if known else {}
        blocks = [person.app.block(name, (kilograms, reps)) for name, kilograms, reps in sets]
        payload = person.app.payload(*blocks, session_date=day.isoformat(), title=title, **fields)
        receipt = self._promised(person, lambda: person.app.save_payload(payload))
        person.sessions[title] = Stored(day, sets)
        person.ids[title] = (receipt["session_id"], receipt["updated_at"])
        return True

    def _promised(self, person: Person, write: Callable[[], Json]) -> Json:
        receipt: Json = self._answered(write)
        generation = int(receipt["statsRequestedVersion"])
        self.promises.append(Promise(time.monotonic(), person.user_id, generation))
        kept = Kept(write, {**receipt, "replayed": False})
        person.receipts.append(kept)
        return receipt

    def _answered(self, write: Callable[[], Any]) -> Any:
        """Return the answer, however often it takes."""
        gives_up_at: float | None = None
        while True:
            try:
                return write()
            except (DBAPIError, OperatorError) as error:
                cause = error.__cause__ if isinstance(error, OperatorError) else error
                code = getattr(getattr(cause, "orig", None), "pgcode", None) or "connection lost"
                last = str(cause).partition("\n")[0]
                self.repeated[code] += 1
                if code != "connection lost" and not code.startswith(_PASSING):
                    raise
            if self.over.is_set():
                gives_up_at = gives_up_at or time.monotonic() + _GIVES_UP_AFTER
                if time.monotonic() > gives_up_at:
                    raise Unanswered(f"no answer for {_GIVES_UP_AFTER} s: {last}")
            time.sleep(self.dice.uniform(0.1, 0.4))

    def _any_day(self) -> date:
        return today() - timedelta(days=self.dice.randrange(45))

    def _any_sets(self) -> Sets:
        return tuple(
            (name, self.dice.randrange(40, 180), self.dice.randrange(1, 12))
            for name in self.dice.sample(NAMES, self.dice.randrange(1, 4))
        )

    def _any_of(self, keyed: dict[str, Any]) -> str:
        return self.dice.choice(sorted(keyed)) if keyed else ""


def _strong(workouts: dict[str, Stored], minutes: Sequence[int]) -> str:
    lines = [STRONG_HEADER]
    for (title, workout), minute in zip(workouts.items(), minutes, strict=True):
        for name, kilograms, reps in workout.sets:
            at = f"{workout.day} {minute // 60:02}:{minute % 60:02}:00"
            lines.append(f'{at},"{title}",45m,"{name}",1,{kilograms},{reps},0,0,"","",')
    return "\n".join(lines) + "\n"


def rows_of(database: Database, user_id: UUID) -> tuple[int, Account]:
    """Return what an account requested last, and its canonical rows, in one snapshot."""
    engine = create_engine(database.admin_url, poolclass=NullPool, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        state = fetch.fetch_refresh_state(connection, user_id)
        return (state.requested_version if state else 0), fetch.fetch_account(connection, user_id)
