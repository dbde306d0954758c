"""Reads single cells of a row. A cell that cannot be read breaks its row, with the reason."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

from importers.history import hundredths

_PLAIN = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,30})?")
_COMMA = re.compile(r"-?[0-9]{1,12},[0-9]{1,30}")
_ONE_GROUP = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")
# Spaces and apostrophes never are decimal, the first of two kinds of sign groups, and so does one that comes twice.
_GROUPED = re.compile(
    r"(?P<whole>-?[1-9][0-9]{0,2}(?P<sign>[ '’,.])[0-9]{3}(?:(?P=sign)[0-9]{3})*)"
    r"(?:(?!(?P=sign))[.,](?P<part>[0-9]{1,30}))?"
)

_NO_SIGNS = str.maketrans("", "", " '’,.")

_CLOCK = re.compile(r"(?:([0-9]{1,3}):)?([0-9]{1,4}):([0-9]{2})")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class BrokenRowError(Exception):
    """A row that cannot be taken; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Reads the numbers of one file.

    Where commas separate the columns, nothing says whether a quoted "1,234" has a decimal comma or groups its
    thousands, so it breaks its row; with any other delimiter commas are decimal. "1,234.5", "1.234,5" and
    "1,234,567" leave no choice, in any file.
    """

    delimiter: str = ","

    def number(self, column: str, text: str) -> Decimal:
        """Return the cell's number, 0 for an empty one."""
        if not text:
            return Decimal(0)
        if _PLAIN.fullmatch(text):
            return Decimal(text)
        if self.delimiter == "," and _ONE_GROUP.fullmatch(text):
            raise BrokenRowError(f"{column} {shown(text)} has a comma that may be decimal or group thousands")
        if _COMMA.fullmatch(text):
            return Decimal(text.replace(",", "."))
        if grouped := _GROUPED.fullmatch(unicodedata.normalize("NFKC", text)):
            whole = grouped["whole"].translate(_NO_SIGNS)
            return Decimal(f"{whole}.{grouped['part']}" if grouped["part"] else whole)
        raise BrokenRowError(f"{column} {shown(text)} is not a number")

    def whole(self, column: str, text: str, most: int) -> int | None:
        """Return the cell's count, None for 0."""
        number = self.number(column, text)
        if number != number.to_integral_value():
            raise BrokenRowError(f"{column} {shown(text)} is not a whole number")
        if number < 0:
            raise BrokenRowError(f"{column} {shown(text)} is negative")
        if number > most:
            raise BrokenRowError(f"{column} {shown(text)} is too large")
        return int(number) or None

    def measure(self, column: str, text: str, factor: Decimal, most: Decimal) -> Decimal | None:
        """Return the cell times `factor` to 0.01, with its sign; None for 0."""
        measure = hundredths(self.number(column, text) * factor)
        if abs(measure) > most:
            raise BrokenRowError(f"{column} {shown(text)} is too large")
        return measure or None

    def distance(self, column: str, text: str, factor: Decimal, most: Decimal) -> Decimal | None:
        """Return the cell times `factor` to 0.01; None for 0."""
        metres = self.measure(column, text, factor, most)
        if metres is not None and metres < 0:
            raise BrokenRowError(f"{column} {shown(text)} is negative")
        return metres

    def seconds(self, column: str, text: str, most: int, factor: int = 1) -> int | None:
        """Return whole seconds of a cell that prints so many times `factor`, or h:mm:ss or m:ss; None for 0."""
        if clock := _CLOCK.fullmatch(text):
            hours, minutes, seconds = (int(part or 0) for part in clock.groups())
            total = Decimal((hours * 60 + minutes) * 60 + seconds)
        else:
            total = (self.number(column, text) * factor).to_integral_value(ROUND_HALF_UP)
        if total < 0:
            raise BrokenRowError(f"{column} {shown(text)} is negative")
        if total > most:
            raise BrokenRowError(f"{column} {shown(text)} is too large")
        return int(total) or None

    def rpe(self, column: str, text: str) -> Decimal | None:
        """Return the rate of perceived exertion, None for 0."""
        rpe = self.number(column, text)
        if not 0 <= rpe <= 10:
            raise BrokenRowError(f"{column} {shown(text)} is not between 0 and 10")
        return rpe or None


def calendar_day(column: str, text: str, like: str = "2024-12-31") -> date:
    """Return the day that the cell names as YYYY-MM-DD; a message says what it should have been `like`."""
    if _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass
    raise BrokenRowError(f"{column} {shown(text)} is not like {like}")


def shown(text: str) -> str:
    """Return `text` quoted, on one line and short enough for a message."""
    printable = "".join(character if character.isprintable() else " " for character in text.strip())
    return f'"{printable if len(printable) <= 80 else printable[:77] + "..."}"'
