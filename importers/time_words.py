"""The words in printed dates and times, in every language that Hevy has; from CLDR, as Babel brings it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from babel import Locale

NumericOrder = Literal["day first", "month first"]

# Hevy's languages, and the regions whose names or order are other ones. Croatian is none of them: its "listopad" is
# the Polish November's name.
_LOCALES = (
    "en", "en_GB", "en_AU", "en_CA", "de", "de_AT", "es", "es_MX", "fr", "fr_CA", "it", "pt", "pt_PT", "nl", "tr",
    "ru", "pl", "ko", "zh", "zh_Hant", "ja", "cs", "sk", "hu", "fi", "uk", "el", "he", "ar", "ar_EG", "ar_SY",
    "ar_MA", "ar_DZ", "ar_TN", "hi", "th", "vi", "sv", "da", "nb", "nn", "ro", "id", "ms", "ca", "bg",
)  # fmt: skip
_SHORTEST_ABBREVIATION = 3

# What apps print beside CLDR's own words.
_MORE_MONTHS: Mapping[str, Mapping[str, int]] = {
    "de": {"mrz": 3},
    "es": {"setiembre": 9, "set": 9},
    "it": {"sett": 9},
    "ru": {"май": 5},
}
_HALVES: Mapping[str, int] = {
    **dict.fromkeys(("am", "오전", "上午", "午前", "凌晨", "清晨", "早上", "صباحا"), 0),
    **dict.fromkeys(("pm", "오후", "下午", "午後", "中午", "晚上", "مساء"), 12),
}
_BETWEEN = (
    "de del at um à às as alle ore om o г kl klo uhr en lúc ngày pukul v ve в о στις ב בשעה को बजे เวลา พ.ศ. la ora"
    " saat ค.ศ. 년 월 일 年 月 日 に"
)

# Names of two words, of which neither is a month by itself: Levantine November, October, December and January.
_TWO_WORDS = re.compile(r"(تشرين|كانون) ")
_QUOTED = re.compile(r"'([^']+)'")
_DOT_IN_WORD = re.compile(r"(?<=[^\W\d_])(?<!\s)\.|(?<=[\u0300-\u036f\u0900-\u0dff\u0e00-\u0e7f])\.")
# A word goes up to the next digit, space or sign; \w alone would break it at the vowels of Hindi and Thai.
_WORD = re.compile(r"[^\s\d,;:./()\-+]+")


@dataclass(frozen=True, slots=True)
class Language:
    """What each word means in one language: a month, a half of the day (0 or 12), a day of the week, or nothing."""

    months: Mapping[str, int]
    halves: Mapping[str, int]
    weekdays: frozenset[str]
    others: frozenset[str]
    order: NumericOrder

    def knows(self, word: str) -> bool:
        """Tell whether `word` is one of this language, in full or as it is abbreviated."""
        return any(word in known for known in (self.months, self.halves, self.weekdays, self.others))

    def month_beginning(self, word: str) -> int | None:
        """Return the month whose name alone begins with `word`."""
        if len(word) < _SHORTEST_ABBREVIATION:
            return None
        found = {month for name, month in self.months.items() if name.startswith(word)}
        return found.pop() if len(found) == 1 else None


@cache
def languages() -> Mapping[str, Language]:
    """Return every language by its code."""
    return {code: _language(code, Locale.parse(code)) for code in _LOCALES}


def normal(text: str) -> str:
    """Return `text` in its plainest characters: no marks of direction, European digits, "p. m." as "pm"."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(_plain(character) for character in plain)
    plain = _TWO_WORDS.sub(r"\1_", plain)
    plain = re.sub(r"\b([ap])\.\s?m\b\.?", r"\1m", plain)
    return _DOT_IN_WORD.sub("", plain)


def words(text: str) -> list[str]:
    """Return the words of a normal text."""
    return _WORD.findall(text)


def _plain(character: str) -> str:
    if unicodedata.category(character) == "Cf" or character in "׳״’'॰":
        return ""
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


def _language(code: str, locale: Locale) -> Language:
    months: dict[str, int] = dict(_MORE_MONTHS.get(code, {}))
    between = frozenset(words(normal(_BETWEEN)))
    others = set(between)
    for name, month in _month_names(locale):
        # Catalan says "de novembre"; names with a number in them are read by their sign.
        *before, last = words(normal(name)) or [""]
        others.update(before)
        if re.search(r"\d", name):
            others.add(last)
        elif last:
            months.setdefault(last, month)
            if code == "he":
                months.setdefault(f"ב{last}", month)  # the preposition is written as one word
    others.update(word for text in _literals(locale) for word in words(normal(text)))
    weekdays = frozenset(word for text in _weekdays(locale) for word in words(normal(text)))
    halves = dict(_HALVES)
    for widths in locale.day_periods.values():
        for width in ("wide", "abbreviated"):
            for name, half in (("am", 0), ("pm", 12)):
                # Hungarian "de." is the half that a clock shows anyway, and "of" in other languages.
                for word in set(words(normal(widths.get(width, {}).get(name, "")))) - between:
                    halves.setdefault(word, half)
    return Language(months, halves, weekdays, frozenset(others), _order(locale))


def _month_names(locale: Locale) -> Iterator[tuple[str, int]]:
    for widths in locale.months.values():
        for width in ("wide", "abbreviated"):
            for month, name in widths.get(width, {}).items():
                yield name, month


def _weekdays(locale: Locale) -> Iterator[str]:
    for widths in locale.days.values():
        for width in ("wide", "abbreviated"):
            yield from widths.get(width, {}).values()


def _literals(locale: Locale) -> Iterator[str]:
    """Yield what stands between the fields of a date or time."""
    for formats in (locale.date_formats, locale.time_formats):
        for pattern in formats.values():
            yield from _QUOTED.findall(pattern.pattern)
            yield re.sub(r"[A-Za-z]", " ", _QUOTED.sub(" ", pattern.pattern))
    for joined in locale.datetime_formats.values():
        yield re.sub(r"\{[01]\}|'", " ", str(joined))


def _order(locale: Locale) -> NumericOrder:
    pattern = locale.date_formats["short"].pattern.casefold()
    return "day first" if pattern.index("d") < pattern.index("m") else "month first"
