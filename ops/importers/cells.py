"""Reads single cells of a row. A cell that cannot be read breaks its row, with the reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from ops.importers.history import hundredths

_PLAIN = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,30})?")
_COMMA = re.compile(r"-?[0-9]{1,12},[0-9]{1,30}")
_GROUPED = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class BrokenRowError(Exception):
    """A row that cannot be taken; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Reads the numbers of one file.

    Where commas separate the columns, nothing says whether a quoted "1,234" has a decimal comma or groups its
    thousands, so it breaks its row; with any other delimiter commas are decimal.
    """

    delimiter: str = ","

    def number(self, column: str, text: str) -> Decimal:
        """Return the cell's number, 0 for an empty one."""
        if not text:
            return Decimal(0)
        if _PLAIN.fullmatch(text):
            return Decimal(text)
        if self.delimiter == "," and _GROUPED.fullmatch(text):
            raise BrokenRowError(f"{column} {shown(text)} has a comma that may be decimal or group thousands")
        if _COMMA.fullmatch(text):
            return Decimal(text.replace(",", "."))
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

    def rpe(self, column: str, text: str) -> Decimal | None:
        """Return the rate of perceived exertion, None for 0."""
        rpe = self.number(column, text)
        if not 0 <= rpe <= 10:
            raise BrokenRowError(f"{column} {shown(text)} is not between 0 and 10")
        return rpe or None


def calendar_day(column: str, text: str) -> date:
    """Return the day that the cell names as YYYY-MM-DD."""
    if _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass
    raise BrokenRowError(f"{column} {shown(text)} is not like 2024-12-31")


def shown(text: str) -> str:
    """Return `text` quoted, on one line and short enough for a message."""
    printable = "".join(character if character.isprintable() else " " for character in text.strip())
    return f'"{printable if len(printable) <= 80 else printable[:77] + "..."}"'
