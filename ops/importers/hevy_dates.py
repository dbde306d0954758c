"""Reads the times of a Hevy export, which names the month in the app's language."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Literal

from ops.importers.cells import BrokenRowError, shown

NumericOrder = Literal["day first", "month first"]

# Each month in full, in as many languages as Hevy's users export in; an abbreviation is how one begins.
_MONTH_NAMES: tuple[str, ...] = (
    "january januar enero janvier gennaio janeiro ocak januari январь января styczeń stycznia",
    "february februar febrero février febbraio fevereiro şubat februari февраль февраля luty lutego",
    "march märz mrz marzo mars março mart maart mrt март марта marzec marca",
    "april abril avril aprile nisan апрель апреля kwiecień kwietnia",
    "may mai mayo maggio maio mayıs mei maj май мая maja",
    "june juni junio juin giugno junho haziran июнь июня czerwiec czerwca",
    "july juli julio juillet luglio julho temmuz июль июля lipiec lipca",
    "august agosto août ağustos augustus augusti август августа sierpień sierpnia",
    "september septiembre setiembre septembre settembre setembro eylül сентябрь сентября wrzesień września",
    "october oktober octubre octobre ottobre outubro ekim октябрь октября październik października",
    "november noviembre novembre novembro kasım ноябрь ноября listopad listopada",
    "december dezember diciembre décembre dicembre dezembro aralık декабрь декабря grudzień grudnia",
)
_SHORTEST_ABBREVIATION = 3
_TIMES_REMEMBERED = 100
_BETWEEN = frozenset({"de", "del", "at", "um", "à", "às", "as", "alle", "om", "o", "г", "kl"})
_HALVES: Mapping[str, int] = {
    **dict.fromkeys(("am", "오전", "上午", "午前"), 0),
    **dict.fromkeys(("pm", "오후", "下午", "午後"), 12),
}

_ISO = re.compile(r"([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})[,T ]+(.+)")
_NUMERIC = re.compile(r"([0-9]{1,2})([/.-])([0-9]{1,2})\2([0-9]{4})[,T ]+(.+)")
_TIME = re.compile(r"([0-9]{1,2})[:.]([0-9]{2})(?:[:.]([0-9]{2}))?")
_MONTH_SIGN = re.compile(r"([0-9]{1,2})\s?[월月]")
_YEAR = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
_HALF_WITH_DOTS = re.compile(r"\b([ap])\.\s?m\b\.?", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")


def numeric_order(texts: Iterable[str]) -> NumericOrder | None:
    """Return how a whole file writes dates like 05/06/2025; None: nothing tells, or the file contradicts itself.

    A dot stands between day and month, never between month and day.
    """
    orders: set[NumericOrder] = set()
    for text in texts:
        match = _NUMERIC.fullmatch(text)
        if match is None:
            continue
        if int(match[1]) > 12 or match[2] == ".":
            orders.add("day first")
        elif int(match[3]) > 12:
            orders.add("month first")
    return orders.pop() if len(orders) == 1 else None


class Dates:
    """Reads dates and times; `order` is that of the file's numeric dates."""

    def __init__(self, order: NumericOrder | None) -> None:
        self._order = order
        # Each time is printed with every set of its session.
        self._parsed = lru_cache(maxsize=_TIMES_REMEMBERED)(self._parse)

    def read(self, column: str, text: str) -> datetime:
        """Return the time as printed; raises BrokenRowError where it is none, or may be two."""
        return self._parsed(column, text)

    def _parse(self, column: str, printed: str) -> datetime:
        text = _normal(printed)
        if iso := _ISO.fullmatch(text):
            year, month, day, rest = int(iso[1]), int(iso[2]), int(iso[3]), iso[4]
        elif numeric := _NUMERIC.fullmatch(text):
            day, month = self._day_and_month(column, text, int(numeric[1]), int(numeric[3]))
            year, rest = int(numeric[4]), numeric[5]
        else:
            year, month, day, rest = _named(column, text)
        hour, minute, second = _time(column, text, rest)
        try:
            return datetime(year, month, day, hour, minute, second)
        except ValueError as error:
            raise _unreadable(column, text) from error

    def _day_and_month(self, column: str, text: str, first: int, second: int) -> tuple[int, int]:
        if self._order is None:
            raise BrokenRowError(
                f"{column} {shown(text)} may be day/month or month/day, and the file does not tell"
            )
        return (first, second) if self._order == "day first" else (second, first)


def _normal(text: str) -> str:
    """Return `text` in its plainest characters, with "p.m." as "pm"."""
    return _HALF_WITH_DOTS.sub(r"\1m", unicodedata.normalize("NFKC", text))


def _named(column: str, text: str) -> tuple[int, int, int, str]:
    """Return year, month and day of a date that names its month, and what is left: the time and small words."""
    rest, year = _cut(text, _YEAR, column, text)
    if _MONTH_SIGN.search(rest):
        rest, sign = _cut(rest, _MONTH_SIGN, column, text)
        month = int(sign.rstrip("월月 "))
    else:
        month = _only(column, text, {found for word in _WORD.findall(rest) for found in months_named(word)})
    rest, time = _cut(rest, _TIME, column, text)
    day = _only(column, text, {int(number) for number in re.findall(r"[0-9]{1,2}", rest)})
    for word in _WORD.findall(rest):
        if not (months_named(word) or word.casefold() in _BETWEEN or word in "년월일年月日"):
            time += f" {word}"  # AM and PM, or a word that we don't know
    return int(year), month, day, time


def months_named(word: str) -> set[int]:
    """Return the months, usually one or none, whose name in some language is or begins with `word`."""
    start = word.casefold()
    if len(start) < _SHORTEST_ABBREVIATION:
        return set()
    return {
        month
        for month, names in enumerate(_MONTH_NAMES, start=1)
        for name in names.split()
        if name.startswith(start)
    }


def _time(column: str, text: str, rest: str) -> tuple[int, int, int]:
    """Return hour, minute and second of `rest`, which holds nothing but a time and its half of the day."""
    match = _TIME.search(rest)
    words = (
        (rest[: match.start()] + rest[match.end() :]).replace(".", "").casefold().split() if match else ["?"]
    )
    if match is None or len(words) > 1 or not set(words) <= _HALVES.keys():
        raise _unreadable(column, text)
    hour = int(match[1])
    if words:
        if not 1 <= hour <= 12:
            raise _unreadable(column, text)
        hour = hour % 12 + _HALVES[words[0]]
    return hour, int(match[2]), int(match[3] or 0)


def _cut(rest: str, pattern: re.Pattern[str], column: str, text: str) -> tuple[str, str]:
    """Return `rest` without the one place that matches, and that place."""
    match = pattern.search(rest)
    if match is None:
        raise _unreadable(column, text)
    return f"{rest[: match.start()]} {rest[match.end() :]}", match[0]


def _only(column: str, text: str, found: set[int]) -> int:
    if len(found) != 1:
        raise _unreadable(column, text)
    return found.pop()


def _unreadable(column: str, text: str) -> BrokenRowError:
    return BrokenRowError(f"{column} {shown(text)} is not like 31 Dec 2024, 18:30")
