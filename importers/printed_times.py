"""Reads dates and times as apps print them: in numbers, or with the month's name in the app's language.

What one text leaves open, all texts of the file may tell together:

- 05/06/2025 is read where some day of the file is later than the 12th, or the words beside it belong to languages
  that agree. A dot stands between day and month, never between month and day.
- A word that means different things in two languages is read in those that know every word of the file.

What is open then is not guessed: the row is broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import lru_cache

from importers.cells import BrokenRowError, shown
from importers.time_words import Language, NumericOrder, languages, normal, words

_TIMES_REMEMBERED = 100
_BUDDHIST_ERA = 543
_LATEST_YEAR = 2400

_ISO = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[t ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)? ?"
    r"(?:z|utc|[+-][0-9]{2}:?[0-9]{2})?"
)
_YEAR_FIRST = re.compile(
    r"(?<![0-9])([0-9]{4})(?: ?年 ?|[ ]?[-/.] ?)([0-9]{1,2})(?: ?月 ?| ?[-/.] ?)([0-9]{1,2})(?![0-9:])[.日]?"
)
_YEAR_LAST = re.compile(r"(?<![0-9])([0-9]{1,2}) ?([/.-]) ?([0-9]{1,2}) ?\2 ?([0-9]{4})(?![0-9])")
_TIME = re.compile(
    r"(?<![0-9.:])([0-9]{1,2})(?:[:.]| h | ?[시时時] ?)([0-9]{2})(?:(?:[:.]| min )([0-9]{2})(?: s)?)?(?![0-9:])[분分]?"
)
_MONTH_SIGN = re.compile(r"(?P<before>[0-9]{1,2}) ?[월月]|(?P<word>tháng|thg) ?(?P<after>[0-9]{1,2})")
_YEAR = re.compile(r"(?<![0-9])[0-9]{4}(?![0-9])")
# Vietnamese counts the days of the week.
_NUMBERED_WEEKDAY = re.compile(r"\bthứ [2-7]\b")
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class _Parts:
    """A text taken apart: its numbers, and the words that are left."""

    year: int
    month: int | None
    """None where a word names it."""
    day: int
    other: int | None
    """The other number of a date like 05/06/2025, of which either may be the day; `order` tells where known."""
    time: tuple[int, int, int] | None
    words: tuple[str, ...]
    order: NumericOrder | None = None


class Dates:
    """Reads the dates and times of a file, of which `texts` are all or many."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._taken_apart = lru_cache(maxsize=_TIMES_REMEMBERED)(_taken_apart)
        # Each time is printed with every set of its session.
        self._parsed = lru_cache(maxsize=_TIMES_REMEMBERED)(self._parse)
        self._languages = tuple(languages().values())
        orders: set[NumericOrder] = set()
        for text in texts:
            parts = self._taken_apart(text)
            if parts is None:
                continue
            if parts.order is not None:
                orders.add(parts.order)
            # What nobody understands is a broken row, and tells nothing about the others.
            self._languages = _understood(parts.words, self._languages) or self._languages
        self._contradicts_itself = len(orders) > 1
        orders = orders or {language.order for language in self._languages}
        self._order = orders.pop() if len(orders) == 1 else None

    def read(self, column: str, text: str) -> datetime:
        """Return the time as printed; raises BrokenRowError where it is none, or may be two."""
        day, at = self._parsed(column, text)
        if at is None:
            raise _unreadable(column, text)
        return datetime.combine(day, at)

    def day_and_time(self, column: str, text: str) -> tuple[date, time | None]:
        """Return the day and, where one is printed, the time on it; raises BrokenRowError as `read` does."""
        return self._parsed(column, text)

    def _parse(self, column: str, text: str) -> tuple[date, time | None]:
        parts = self._taken_apart(text)
        if parts is None:
            raise _unreadable(column, text)
        half = self._meaning(column, text, parts, "halves")
        try:
            day = date(parts.year, *self._month_and_day(column, text, parts))
            at = None if parts.time is None else time(_hour(parts.time[0], half), *parts.time[1:])
        except ValueError as error:
            raise _unreadable(column, text) from error
        if at is None and half is not None:
            raise _unreadable(column, text)
        return day, at

    def _month_and_day(self, column: str, text: str, parts: _Parts) -> tuple[int, int]:
        if parts.other is None:
            month = parts.month or self._meaning(column, text, parts, "months")
            if month is None:
                raise _unreadable(column, text)
            return month, parts.day
        order = None if self._contradicts_itself else parts.order or self._order
        if order is None:
            raise BrokenRowError(
                f"{column} {shown(text)} may be day/month or month/day, and the file does not tell"
            )
        return (parts.other, parts.day) if order == "day first" else (parts.day, parts.other)

    def _meaning(self, column: str, text: str, parts: _Parts, kind: str) -> int | None:
        """Return the one month or half of the day that the words name in all languages that they may be of."""
        if not parts.words:
            return None
        found = {
            frozenset(_meanings(parts.words, language, kind))
            for language in _understood(parts.words, self._languages) or _understood(parts.words)
        }
        if kind == "months":
            # A date has one month: in a language that sees none or two in these words it is none.
            found = {named for named in found if len(named) == 1}
        if len(found) != 1:
            raise _unreadable(column, text)
        meanings = found.pop()
        if len(meanings) > 1:
            raise _unreadable(column, text)
        return next(iter(meanings), None)


def _understood(printed: Sequence[str], candidates: Sequence[Language] | None = None) -> tuple[Language, ...]:
    """Return which of the `candidates` know every word; an abbreviation counts where nobody knows it in full."""
    found = tuple(languages().values()) if candidates is None else tuple(candidates)
    for word in printed:
        exact = [language for language in found if language.knows(word)]
        found = tuple(exact or [language for language in found if language.month_beginning(word)])
    return found


def _meanings(printed: Sequence[str], language: Language, kind: str) -> list[int]:
    """Return what the words that are of this kind mean in one language."""
    if kind == "halves":
        return [language.halves[word] for word in printed if word in language.halves]
    months = {
        word: month
        for word in printed
        if (month := language.months.get(word) or _abbreviated(word, language)) is not None
    }
    # "mar 3 feb": where another word names the month, this one is Tuesday.
    only_months = [month for word, month in months.items() if word not in language.weekdays]
    return only_months or [*months.values()]


def _abbreviated(word: str, language: Language) -> int | None:
    return None if language.knows(word) else language.month_beginning(word)


def _taken_apart(printed: str) -> _Parts | None:
    """Return the parts of a text; None where it is no date."""
    text = _NUMBERED_WEEKDAY.sub(" ", normal(printed))
    if iso := _ISO.fullmatch(text):
        year, month, day, hour, minute, second = (int(part or 0) for part in iso.groups())
        return _Parts(year, month, day, None, (hour, minute, second), ())
    month_found: int | None = None
    other: int | None = None
    order: NumericOrder | None = None
    if found := _YEAR_FIRST.search(text):
        year, month_found, day = (int(part) for part in found.groups())
        rest = _without(text, found)
    elif found := _YEAR_LAST.search(text):
        day, other, year = int(found[1]), int(found[3]), int(found[4])
        rest = _without(text, found)
        order = _order_told(day, found[2], other)
    else:
        named = _named(text)
        if named is None:
            return None
        year, month_found, day, rest = named
    at = _TIME.search(rest)
    if at is not None:
        rest = _without(rest, at)
    if _NUMBER.search(rest):
        return None
    return _Parts(
        year - _BUDDHIST_ERA if year > _LATEST_YEAR else year,
        month_found,
        day,
        other,
        None if at is None else (int(at[1]), int(at[2]), int(at[3] or 0)),
        tuple(words(rest)),
        order,
    )


def _named(text: str) -> tuple[int, int | None, int, str] | None:
    """Return year, month (None: a word names it), day and the rest of a date that is not in numbers alone."""
    year = _YEAR.search(text)
    if year is None:
        return None
    rest = _without(text, year)
    month: int | None = None
    if sign := _MONTH_SIGN.search(rest):
        month = int(sign["before"] or sign["after"])
        rest = f"{_without(rest, sign)} {sign['word'] or ''}"
    at = _TIME.search(rest)
    beside = rest if at is None else _without(rest, at)
    numbers = list(_NUMBER.finditer(beside))
    if len(numbers) != 1:
        return None
    beside = _without(beside, numbers[0])
    return int(year[0]), month, int(numbers[0][0]), f"{beside} {at[0] if at else ''}"


def _without(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]} {text[found.end() :]}"


def _order_told(first: int, sign: str, second: int) -> NumericOrder | None:
    """Return what a date like 13/06/2025 tells by itself."""
    if first > 12 or sign == ".":
        return "day first"
    return "month first" if second > 12 else None


def _hour(hour: int, half: int | None) -> int:
    """Return an hour of the day; raises ValueError where a half of it has no such hour."""
    if half is None:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError(f"{hour} is not an hour from 1 to 12")
    return hour % 12 + half


def _unreadable(column: str, text: str) -> BrokenRowError:
    return BrokenRowError(f"{column} {shown(text)} is not like 31 Dec 2024, 18:30")
