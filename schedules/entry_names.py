"""What an operator may call a beat entry: its name, its task, or words of its name that fit no other."""

from __future__ import annotations

from core.errors import OperatorError
from schedules.entries import ENTRIES, Entry


def full_name(called: str) -> str:
    """Return the name of the entry that is called so; raise OperatorError, with those to choose from, otherwise.

    `claim` is the entry whose task is stats.claim, `backfill` the one with that word in its name. Half a word is
    none: what stops an entry should not be guessed.
    """
    fitting = [entry for entry in ENTRIES if called in (entry.name, entry.task, _short_task(entry))]
    fitting = fitting or [entry for entry in ENTRIES if f"-{called}-" in f"-{entry.name}-"]
    match fitting:
        case [entry]:
            return entry.name
        case []:
            raise OperatorError(f"{called}: is no entry; the entries are {_listed(ENTRIES)}")
        case _:
            raise OperatorError(f"{called}: fits more than one entry: {_listed(fitting)}")


def _listed(entries: tuple[Entry, ...] | list[Entry]) -> str:
    return ", ".join(f"{entry.name} ({_short_task(entry)})" for entry in entries)


def _short_task(entry: Entry) -> str:
    return entry.task.removeprefix("stats.")
