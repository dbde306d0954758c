"""Reads one row of a Strong export."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

from importers.cells import BrokenRowError, Numbers, calendar_day, shown
from importers.csv_records import Record
from importers.header import Header
from importers.history import (
    MAX_DISTANCE_M,
    MAX_DURATION_SECONDS,
    MAX_REPS,
    MAX_WEIGHT_KG,
    NOT_A_SET,
    ImportedSet,
    has_numbers,
    performed_set,
)
from importers.rows import Row
from importers.set_marks import BETWEEN_SETS, REST_TIMERS, SET_TYPES, is_rest, mark_of
from importers.spool import Remarks
from importers.strong_names import SECONDS_PER_WORD
from importers.units import (
    KG_PER_UNIT,
    Unit,
    WeightUnits,
    metres_per,
    metres_without_unit,
)

_DATE_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[ T]([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?:\s?([AaPp])\.?[Mm]\.?)?"
)
_DURATION_PART = re.compile(r"([0-9]{1,7})\s?([^\W\d_]*)\.?[\s,]*")


class RowReader:
    """Reads the rows below `header`; `remarks` collects what a person should know about rows that were read."""

    def __init__(self, header: Header, units: WeightUnits, remarks: Remarks) -> None:
        self._header = header
        self._units = units
        self._remarks = remarks
        self._numbers = Numbers(header.delimiter)
        self._metres = metres_per(header.details.get("Distance", ""))

    def read(self, record: Record) -> Row:
        """Return the row of `record`; raises BrokenRowError with the reason where it is neither set nor note."""
        cells = self._header.cells(record)
        mark = mark_of(cells["Set Order"])
        if mark in REST_TIMERS and not cells.get("Notes"):
            raise BrokenRowError(NOT_A_SET)
        if not cells["Exercise Name"]:
            raise BrokenRowError("no exercise name")
        day, started_at = _day_and_start(cells["Date"])
        # Nothing of a rest timer or note is measured: a timer's seconds are no set's duration.
        done = None if mark in BETWEEN_SETS else self._set(record.line, mark, cells)
        is_unknown = mark not in SET_TYPES
        if is_unknown and done is not None and (is_rest(mark, done) or not has_numbers(done)):
            if not cells.get("Notes"):
                raise BrokenRowError(NOT_A_SET)
            done = None
        return Row(
            line=record.line,
            session_date=day,
            started_at_local=started_at,
            title=cells["Workout Name"],
            duration_seconds=self._duration(record.line, cells.get("Duration", "")),
            exercise=cells["Exercise Name"],
            notes=cells.get("Notes", ""),
            session_notes=cells.get("Workout Notes", ""),
            done=done,
            unknown_mark=cells["Set Order"] if is_unknown and done is not None else None,
        )

    def _set(self, line: int, mark: str, cells: Mapping[str, str]) -> ImportedSet:
        numbers = self._numbers
        return performed_set(
            line,
            SET_TYPES.get(mark, "normal"),
            weight_kg=self._weight(line, cells),
            reps=numbers.whole("Reps", cells["Reps"], MAX_REPS),
            distance_m=self._distance(line, cells),
            duration_seconds=numbers.whole("Seconds", cells.get("Seconds", ""), MAX_DURATION_SECONDS),
            rpe=numbers.rpe("RPE", cells.get("RPE", "")),
        )

    def _weight(self, line: int, cells: Mapping[str, str]) -> Decimal | None:
        text = cells["Weight"]
        if not self._numbers.number("Weight", text):
            return None  # and what stands beside it as its unit says nothing about the file
        factor = KG_PER_UNIT[self._unit(line, cells)]
        return self._numbers.measure("Weight", text, factor, MAX_WEIGHT_KG)

    def _unit(self, line: int, cells: Mapping[str, str]) -> Unit:
        return self._units.of_row("Weight Unit", cells.get("Weight Unit", ""), line)

    def _distance(self, line: int, cells: Mapping[str, str]) -> Decimal | None:
        """Return metres. Where Strong prints no unit it is the app's own one, which the file does not tell."""
        text = cells.get("Distance", "")
        if not self._numbers.number("Distance", text):
            return None
        metres = self._metres
        if word := cells.get("Distance Unit", ""):
            metres = metres_per(word)
            if metres is None:
                raise BrokenRowError(f"Distance Unit {shown(word)} is not a known unit")
        if metres is None:
            metres = metres_without_unit(self._unit(line, cells), line, self._remarks)
        return self._numbers.distance("Distance", text, metres, MAX_DISTANCE_M)

    def _duration(self, line: int, text: str) -> int | None:
        """Return the session's seconds; an impossible duration costs a remark, not the sets."""
        in_seconds = bool(self._header.details.get("Duration"))
        duration = _seconds(text, SECONDS_PER_WORD if not in_seconds else {**SECONDS_PER_WORD, "": 1})
        if duration is None:
            self._remarks.add(line, f"Duration {shown(text)} is not like 1h 5m and was left out")
        elif duration > MAX_DURATION_SECONDS:
            self._remarks.add(line, f"Duration {shown(text)} is more than a week and was left out")
            return None
        return duration or None


def _day_and_start(text: str) -> tuple[date, datetime | None]:
    """Return the printed day, and the time on it where one is printed."""
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return calendar_day("Date", text, like="2024-12-31 18:30:00"), None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    try:
        if match[7] is not None:
            hour = _hour_of_day(hour, is_pm=match[7] in "Pp")
        started_at = datetime(year, month, day, hour, minute, second)
    except ValueError as error:
        raise BrokenRowError(f"Date {shown(text)} is not like 2024-12-31 18:30:00") from error
    return started_at.date(), started_at


def _hour_of_day(hour: int, *, is_pm: bool) -> int:
    """Return an hour of a clock with AM and PM as one of 24; raises ValueError where such a clock has no such hour."""
    if not 1 <= hour <= 12:
        raise ValueError(f"{hour} is not an hour from 1 to 12")
    return hour % 12 + (12 if is_pm else 0)


def _seconds(text: str, seconds_per_word: Mapping[str, int]) -> int | None:
    """Return the seconds of a duration like "1h 5m", "1小时5分钟" or, where "" is a unit, "3900"."""
    seconds = 0
    place = 0
    while place < len(text):
        part = _DURATION_PART.match(text, place)
        if part is None or part[2].casefold() not in seconds_per_word:
            return None
        seconds += int(part[1]) * seconds_per_word[part[2].casefold()]
        place = part.end()
    return seconds
