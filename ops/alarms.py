"""Which lines of a stack's processes a person should see at once: warnings and errors, and what belongs to them."""

from __future__ import annotations

import re
from collections.abc import Mapping

# How each process begins a line that has a level. Lines without belong to the one before them.
_POSTGRES = re.compile(r"\d{4}-\d\d-\d\d \S+ \S+ \[\d+\] (?P<level>[A-Z]+)\d?:  ")
_VALKEY = re.compile(r"\d+:[A-Z] \d\d \w{3} \d{4} \S+ (?P<level>\S) ")
_FLOWER = re.compile(r"\[(?P<level>[A-Z]) ")
_CELERY = re.compile(r"\[[^\]]*: (?P<level>[A-Z]+)/")
_BEGINNINGS: Mapping[str, re.Pattern[str]] = {"postgres": _POSTGRES, "valkey": _VALKEY, "flower": _FLOWER}
_ALARMING = frozenset({"WARNING", "ERROR", "CRITICAL", "FATAL", "PANIC", "W", "E", "C", "#"})
_ANSWERS: Mapping[str, str] = {"postgres": "ERROR"}
"""The level of what a process tells the client that asked, who has it already: a refused save, a reader too early."""
_WITH_THE_LINE_BEFORE = frozenset({"DETAIL", "HINT", "QUERY", "CONTEXT", "LOCATION", "STATEMENT"})
"""What Postgres writes as lines of their own, but below the error that they explain."""
_TRACEBACK = "Traceback (most recent call last):"

_HARMLESS: Mapping[str, re.Pattern[str]] = {
    # About forks on a machine without memory to spare; this server holds messages and seven entries. And Redis
    # says at this level how it starts and that it ends.
    "valkey": re.compile(
        r"# (WARNING:? Memory overcommit must be enabled!"
        r"|(Valkey|Redis) is now ready to exit, bye bye"
        r"|oO0OoO0OoO0Oo Redis is starting|Redis version=|Configuration loaded$|Server initialized$"
        r"|User requested shutdown)"
    ),
    # It asks before the workers, which start beside it, can answer; a page of a worker asks again.
    "flower": re.compile(r"Inspect method \w+ failed$"),
}


class Alarms:
    """Tells line by line whether one is a warning or an error, or goes on with one; the harmless ones are not."""

    def __init__(self) -> None:
        self._alarmed: dict[str, bool] = {}

    def is_alarming(self, name: str, line: str) -> bool:
        """Judge the next `line` of the process `name`."""
        beginning = _BEGINNINGS.get(name, _CELERY).match(line)
        if beginning is not None and beginning["level"] not in _WITH_THE_LINE_BEFORE:
            self._alarmed[name] = _is_for_a_person(name, beginning["level"], line)
        elif line.startswith(_TRACEBACK):
            self._alarmed[name] = True
        return self._alarmed.get(name, False)


def _is_for_a_person(name: str, level: str, line: str) -> bool:
    is_harmless = name in _HARMLESS and _HARMLESS[name].search(line) is not None
    return level in _ALARMING and level != _ANSWERS.get(name) and not is_harmless
