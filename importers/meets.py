"""Records the tested 1RMs of a list of meet results as an account's manual records, by `set_manual_pr_v1`.

How the list is read, where it leaves a choice:

- One row is one lifter at one meet, with the heaviest good squat, bench press and deadlift in kilograms. An empty
  cell is a lift that was not done, a negative one a lift of which no attempt was good; neither is a 1RM.
- A lift in other equipment is another exercise, "Squat (Raw)" or "Squat (Single-ply)"; a mapping of the provider
  `meets` leads from that name to an exercise that is there already.
- A lift that counted in two divisions of a day is printed twice; the same weight on the same day is one record.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import UUID, uuid5

from sqlalchemy import Connection, Engine, text

from core.errors import OperatorError
from importers.cells import BrokenRowError, Numbers, calendar_day, shown
from importers.csv_records import Record, TextFile, text_file
from importers.header import Format, Header, read_header
from importers.history import MAX_WEIGHT_KG, Listed, Remark
from importers.one_by_one import Refused, write_each
from importers.reading import data_records
from importers.spool import Remarks, SkippedRows
from importers.units import KG_PER_UNIT, WeightUnits, asked_unit, weight_unit
from tasks.transaction import account

_PROVIDER = "meets"
_LIFTS = {"Squat": "Best3SquatKg", "Bench Press": "Best3BenchKg", "Deadlift": "Best3DeadliftKg"}
_REQUIRED = ("LifterId", "Date", "Equipment", *_LIFTS.values())
_OPTIONAL = ("MeetCode", "Sex", "Event", "BodyweightKg", "TotalKg", "Place")
_FORMAT = Format("a list of meet results", {name: name for name in _REQUIRED + _OPTIONAL}, _REQUIRED)
_LONGEST_EQUIPMENT = 40

_MUTATIONS = UUID("0d4f4b7c-2f0a-5a7e-8c55-64d1c5d2b9a4")
_EXERCISE = text(
    "select public.resolve_external_exercise_v1(p_provider => :provider, p_external_id => :name, p_name => :name,"
    " p_tracking => 'weight_reps', p_expected_user_id => :user) ->> 'exercise_id'"
)
_IS_STORED = text(
    "select exists (select from public.user_manual_pr_records"
    " where user_id = :user and exercise_id = :exercise and achieved_on = :day and one_rm_kg = :kg)"
)
_RECORD = text(
    "select public.set_manual_pr_v1(p_exercise_id => :exercise, p_one_rm_kg => :kg, p_achieved_on => :day,"
    " p_source => 'manual', p_expected_user_id => :user, p_mutation_id => :mutation)"
)


@dataclass(frozen=True, slots=True)
class GoodLift:
    """One lift of one row: the heaviest good attempt of a meet."""

    line: int
    exercise: str
    day: date
    one_rm_kg: Decimal


@dataclass(frozen=True, slots=True)
class MeetResults:
    """One lifter's results out of a whole list, read before anything is written."""

    lifts: tuple[GoodLift, ...]
    skipped: SkippedRows
    rows_of_others: int


_Outcome = Literal["recorded", "already there", "deleted since", "refused"]


@dataclass(frozen=True, slots=True)
class MeetReport:
    """What became of every row: `rows_taken` + the skipped rows + `rows_of_others` are all of them."""

    rows_taken: int
    rows_of_others: int
    lifts: Counter[_Outcome]
    skipped: SkippedRows
    remarks: Listed[Remark]


def read_meets(path: Path, unit: str | None, lifter: str | None) -> MeetResults:
    """Read what the list `path` says of `lifter`, who may be left out where it is about one alone.

    Rows that are broken, or without a good lift, are skipped with line and reason. Raises OperatorError for a
    `unit` other than kilograms, for a lifter who is missing or not in it, for a file that is no such list, and where
    there is not one good lift.
    """
    asked = asked_unit(unit)
    lifts: list[GoodLift] = []
    skipped = SkippedRows()
    rows_of_others = 0
    with text_file(path, _FORMAT.expected) as file:
        header = read_header(path, file.first_line(), _FORMAT)
        WeightUnits(path, "list of meet results", "kg", asked)
        _refuse_other_units(path, header)
        lifter = _only_lifter(file, header) if lifter is None else lifter.strip()
        for record in data_records(file, header):
            try:
                if _lifter(header, record) == lifter:
                    lifts += _lifts(header, record)
                else:
                    rows_of_others += 1
            except BrokenRowError as broken:
                skipped.add(record.line, str(broken))
    if not lifts:
        first = next(iter(skipped), None)
        why = "" if first is None else f"; line {first.line}, for one: {first.reason}"
        raise OperatorError(f"{path}: found no good lift of lifter {shown(lifter)}{why}")
    return MeetResults(tuple(lifts), skipped, rows_of_others)


def import_meets(engine: Engine, user: UUID, results: MeetResults) -> MeetReport:
    """Record what the account `user` has not recorded yet, each lift in a transaction of its own.

    Raises OperatorError, telling how far it came, where the database stops it or it is interrupted.
    """
    lifts: Counter[_Outcome] = Counter()
    taken: set[int] = set()
    refusals: defaultdict[int, list[str]] = defaultdict(list)
    outcomes = write_each(engine, account(user), results.lifts, partial(_record, user))
    for lift, outcome in zip(results.lifts, outcomes, strict=True):
        if isinstance(outcome, Refused):
            lifts["refused"] += 1
            refusals[lift.line].append(
                f"{lift.exercise} of {lift.day} refused by the database: {outcome.reason}"
            )
        else:
            taken.add(lift.line)
            lifts[outcome] += 1
    remarks = Remarks()
    skipped = results.skipped
    for line, reasons in refusals.items():
        (remarks if line in taken else skipped).add(line, "; ".join(reasons))
    return MeetReport(len(taken), results.rows_of_others, lifts, skipped, remarks)


def report_sums(report: MeetReport) -> Iterator[str]:
    """Yield the sums of a list; `report.skipped` has the rows that are not taken."""
    deleted, refused = report.lifts["deleted since"], report.lifts["refused"]
    yield (
        f"{report.lifts['recorded']} tested 1RMs recorded, {report.lifts['already there']} already there"
        + (f", {deleted} recorded before and deleted since" if deleted else "")
        + (f", {refused} refused" if refused else "")
    )
    rows = report.rows_taken + len(report.skipped) + report.rows_of_others
    others = f" + {report.rows_of_others} of other lifters" if report.rows_of_others else ""
    yield f"{report.rows_taken} rows taken + {len(report.skipped)} skipped{others} = {rows} data rows"


def _record(user: UUID, connection: Connection, lift: GoodLift) -> _Outcome:
    fields = {
        "user": user,
        "provider": _PROVIDER,
        "name": lift.exercise,
        "day": lift.day,
        "kg": lift.one_rm_kg,
    }
    fields["exercise"] = connection.execute(_EXERCISE, fields).scalar_one()
    # A receipt is kept for a month only, a record for good.
    if connection.execute(_IS_STORED, fields).scalar_one():
        return "already there"
    content = f"{user} {lift.exercise} {lift.day} {lift.one_rm_kg}"
    receipt = connection.execute(_RECORD, fields | {"mutation": uuid5(_MUTATIONS, content)}).scalar_one()
    if not receipt["replayed"]:
        return "recorded"
    # Another import may run at the same time.
    return "already there" if connection.execute(_IS_STORED, fields).scalar_one() else "deleted since"


def _refuse_other_units(path: Path, header: Header) -> None:
    for column in _LIFTS.values():
        detail = header.details[column]
        if detail and weight_unit(detail) != "kg":
            raise OperatorError(f"{path}: the column {column} is in {shown(detail)}; expected kilograms")


def _only_lifter(file: TextFile, header: Header) -> str:
    first = problem = None
    for record in data_records(file, header):
        try:
            lifter = _lifter(header, record)
        except BrokenRowError as broken:
            problem = problem or f"no row names a lifter; line {record.line}, for one: {broken}"
            continue
        if first is not None and lifter != first:
            raise OperatorError(
                f"{file.path}: has the results of several lifters ({shown(first)}, {shown(lifter)}, ...):"
                " pass --lifter with the one whose account it is"
            )
        first = lifter
    if first is None:
        problem = problem or "found the header line alone"
        raise OperatorError(f"{file.path}: expected {_FORMAT.expected} with rows in it; {problem}")
    return first


def _lifter(header: Header, record: Record) -> str:
    lifter = header.cells(record)["LifterId"]
    if not lifter:
        raise BrokenRowError("no LifterId")
    return lifter


def _lifts(header: Header, record: Record) -> list[GoodLift]:
    cells = header.cells(record)
    numbers = Numbers(header.delimiter)
    day = calendar_day("Date", cells["Date"])
    equipment = cells["Equipment"]
    if not 1 <= len(equipment) <= _LONGEST_EQUIPMENT:
        raise BrokenRowError(f"Equipment {shown(equipment)} must have 1 to {_LONGEST_EQUIPMENT} characters")
    lifts = []
    for lift, column in _LIFTS.items():
        kilograms = numbers.measure(column, cells[column], KG_PER_UNIT["kg"], MAX_WEIGHT_KG)
        if kilograms is not None and kilograms > 0:
            lifts.append(GoodLift(record.line, f"{lift} ({equipment})", day, kilograms))
    if not lifts:
        raise BrokenRowError("no good lift")
    return lifts
