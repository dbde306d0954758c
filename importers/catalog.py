"""Puts a list of exercises into the catalog; one row is one global exercise, under the id that the list gives it.

How the list is read, where it leaves a choice:

- It does not say how an exercise is tracked. A column `tracking` may; else category, equipment and force decide:
  cardio by distance and time, stretching by time, what is held still by time, what needs no load by bodyweight and
  reps, all else by weight and reps.
- An exercise that is in the catalog already is left as it is: changing how one is tracked recomputes every account
  that uses it, so that is a decision of its own (`upsert_exercise_v1`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args
from uuid import UUID

from sqlalchemy import Connection, Engine, text

from core.errors import OperatorError
from importers.cells import BrokenRowError, shown
from importers.csv_records import Record, text_file
from importers.header import Format, Header, read_header
from importers.history import Listed, Remark, SkippedRow, Tracking
from importers.one_by_one import Refused, write_each
from importers.reading import data_records
from importers.spool import Remarks, SkippedRows
from tasks.transaction import account

_REQUIRED = ("id", "name", "category", "equipment")
_OPTIONAL = (
    "tracking", "force", "level", "mechanic", "primary_muscles", "secondary_muscles", "instructions", "images",
)  # fmt: skip
_FORMAT = Format("a list of exercises", {name: name for name in _REQUIRED + _OPTIONAL}, _REQUIRED)

_NO_LOAD = frozenset({"", "body only", "exercise ball", "foam roll"})
_LONGEST_ID = 200
_LONGEST_NAME = 200

# A global exercise belongs to no account, but every write names who makes it.
_ADMINISTRATOR = account(UUID(int=0), admin=True)
_STORED = text(
    "select x.name, x.tracking, x.archived_at from public.exercises x"
    " where x.id = :id and x.owner_user_id is null"
)
_ADD = text(
    "select public.upsert_exercise_v1(p_name => :name, p_tracking => :tracking, p_exercise_id => :id,"
    " p_global => true, p_expected_user_id => '00000000-0000-0000-0000-000000000000')"
)


@dataclass(frozen=True, slots=True)
class CatalogExercise:
    """One row of the list."""

    line: int
    id: str
    name: str
    tracking: Tracking


@dataclass(frozen=True, slots=True)
class Catalog:
    """A whole list, read before anything is written."""

    exercises: tuple[CatalogExercise, ...]
    skipped: SkippedRows


@dataclass(frozen=True, slots=True)
class CatalogReport:
    """What became of every row: `added` + `already_there` + the skipped rows = `data_rows`."""

    data_rows: int
    added: Mapping[Tracking, int]
    """How many exercises are new, by their tracking."""
    already_there: int
    skipped: SkippedRows
    remarks: Listed[Remark]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Whether an exercise is new, and else how the one that is there differs."""

    is_new: bool
    difference: str = ""


def read_catalog(path: Path, unit: str | None) -> Catalog:
    """Read the list `path`.

    Rows that are broken, or have the id of a row before them, are skipped with line and reason. Raises
    OperatorError for a `unit`, for a file that is no such list, and for one without a single usable row.
    """
    if unit is not None:
        raise OperatorError(f"{path}: a list of exercises has no weights: leave --unit out")
    exercises: dict[str, CatalogExercise] = {}
    skipped = SkippedRows()
    with text_file(path, _FORMAT.expected) as file:
        header = read_header(path, file.first_line(), _FORMAT)
        for record in data_records(file, header):
            try:
                exercise = _exercise(header, record)
                if first := exercises.get(exercise.id):
                    raise BrokenRowError(f"has the id of line {first.line}")
                exercises[exercise.id] = exercise
            except BrokenRowError as broken:
                skipped.add(record.line, str(broken))
    if not exercises:
        raise OperatorError(f"{path}: {_fruitless(skipped)}")
    return Catalog(tuple(exercises.values()), skipped)


def import_catalog(engine: Engine, catalog: Catalog) -> CatalogReport:
    """Add what the catalog does not have, each exercise in a transaction of its own.

    Raises OperatorError, telling how far it came, where the database stops it or it is interrupted.
    """
    added: Counter[Tracking] = Counter()
    remarks = Remarks()
    skipped = catalog.skipped
    already_there = 0
    outcomes = write_each(engine, _ADMINISTRATOR, catalog.exercises, _add)
    for exercise, outcome in zip(catalog.exercises, outcomes, strict=True):
        if isinstance(outcome, Refused):
            skipped.add(exercise.line, f"exercise refused by the database: {outcome.reason}")
        elif outcome.is_new:
            added[exercise.tracking] += 1
        else:
            already_there += 1
            if outcome.difference:
                remarks.add(exercise.line, outcome.difference)
    data_rows = added.total() + already_there + len(skipped)
    return CatalogReport(data_rows, added, already_there, skipped, remarks)


def report_sums(report: CatalogReport) -> Iterator[str]:
    """Yield the sums of a list; `report.skipped` has the rows that are not taken."""
    added = sum(report.added.values())
    by_tracking = ", ".join(f"{count} {tracking}" for tracking, count in sorted(report.added.items()))
    yield f"{added} exercises added{f' ({by_tracking})' if added else ''}, {report.already_there} already there"
    yield (
        f"{added + report.already_there} exercises + {len(report.skipped)} rows skipped"
        f" = {report.data_rows} data rows"
    )


def _add(connection: Connection, exercise: CatalogExercise) -> _Outcome:
    fields = {"id": exercise.id, "name": exercise.name, "tracking": exercise.tracking}
    stored = connection.execute(_STORED, fields).one_or_none()
    if stored is None:
        with connection.begin_nested() as attempt:
            if connection.execute(_ADD, fields).scalar_one()["created"]:
                return _Outcome(is_new=True)
            # Somebody has added it since we looked: theirs stays as it is.
            attempt.rollback()
        stored = connection.execute(_STORED, fields).one()
    pairs = (("name", stored.name, exercise.name), ("tracking", stored.tracking, exercise.tracking))
    differences = [
        f"{field} {shown(theirs)} there, {shown(ours)} here"
        for field, theirs, ours in pairs
        if theirs != ours
    ]
    if stored.archived_at is not None:
        differences.append("archived there")
    if not differences:
        return _Outcome(is_new=False)
    return _Outcome(is_new=False, difference=f"{exercise.id} is left as it is: {'; '.join(differences)}")


def _exercise(header: Header, record: Record) -> CatalogExercise:
    cells = header.cells(record)
    for column, longest in (("id", _LONGEST_ID), ("name", _LONGEST_NAME)):
        if not cells[column]:
            raise BrokenRowError(f"no {column}")
        if len(cells[column]) > longest:
            raise BrokenRowError(f"{column} {shown(cells[column])} has more than {longest} characters")
    return CatalogExercise(record.line, cells["id"], cells["name"], _tracking(cells))


def _tracking(cells: Mapping[str, str]) -> Tracking:
    if stated := cells.get("tracking", ""):
        if stated not in get_args(Tracking):
            raise BrokenRowError(f"tracking {shown(stated)} is none of {', '.join(get_args(Tracking))}")
        return cast(Tracking, stated)
    category = cells["category"].casefold()
    equipment = cells["equipment"].casefold()
    # A box to jump on is "other", and no load; but so is a sled.
    has_no_load = equipment in _NO_LOAD or (category == "plyometrics" and equipment == "other")
    if category == "cardio":
        return "distance_duration"
    if category == "stretching":
        return "duration"
    if cells.get("force", "").casefold() == "static":
        return "duration" if has_no_load else "weight_duration"
    return "bodyweight_reps" if has_no_load else "weight_reps"


def _fruitless(skipped: SkippedRows) -> str:
    first: SkippedRow | None = next(iter(skipped), None)
    if first is None:
        return f"expected {_FORMAT.expected} with rows in it; found the header line alone"
    return f"none of its {len(skipped)} rows is an exercise; line {first.line}, for one: {first.reason}"
