"""How often: what an operator types, what RedBeat keeps, and what a person reads."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from celery.schedules import BaseSchedule, ParseException, crontab, schedule

from core.errors import OperatorError

Cadence: TypeAlias = BaseSchedule

SHORTEST = timedelta(seconds=0.1)
"""What beat fires at most: an entry that was written past the commands may ask for any number a second."""

_UNITS = {"s": 1, "m": 60, "h": 3600}
_LONGEST_SECONDS = 31 * 24 * 3600
_CRON_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


def every(seconds: float) -> schedule:
    """Return a fixed rate."""
    return schedule(seconds)


def cron(text: str) -> crontab:
    """Return the cadence of a cron line; raise OperatorError where it is none or never comes."""
    fields = text.split()
    if len(fields) != len(_CRON_FIELDS):
        raise OperatorError(f'{text!r}: a cron line has five fields, as in "7-57/10 * * * *"')
    try:
        return crontab(**dict(zip(_CRON_FIELDS, fields, strict=True)))
    except (ParseException, ValueError) as error:
        raise OperatorError(f"{text!r} is not a cron line: {error}") from error


def parse(every_text: str | None, cron_text: str | None) -> Cadence:
    """Return the cadence that an operator asked for; exactly one of the two has to be given."""
    if (every_text is None) == (cron_text is None):
        raise OperatorError("name either --every or --cron")
    return cron(cron_text) if cron_text is not None else every(_seconds(str(every_text)))


def _seconds(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)([smh])", text.strip())
    if match is None:
        raise OperatorError(f"{text!r}: write a whole number and s, m or h, as in 5s, 2m or 1h")
    seconds = int(match[1]) * _UNITS[match[2]]
    if not 1 <= seconds <= _LONGEST_SECONDS:
        raise OperatorError(f"{text!r}: must be from 1s to 744h")
    return seconds


def describe(cadence: object) -> str:
    """Return the cadence as an operator would type it."""
    if isinstance(cadence, crontab):
        return " ".join(str(getattr(cadence, f"_orig_{field}")) for field in _CRON_FIELDS)
    if not isinstance(cadence, schedule):
        return str(cadence)
    seconds = cadence.run_every.total_seconds()
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"every {seconds / length:g}{unit}"
    return f"every {seconds:g}s"
