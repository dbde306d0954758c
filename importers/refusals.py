"""Tells what the database says about the data from what it says about the import as a whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg2
from sqlalchemy.exc import DBAPIError

from core.errors import OperatorError
from importers.spool import no_room

_CHECK_VIOLATION = "23514"
_DATA_EXCEPTIONS = "22"
_NO_DATA_FOUND = "P0002"
_SERIALIZATION_FAILURE = "40001"
_CONNECTION_LOST = ("08", "57P")
_NOT_MIGRATED = frozenset({"42883", "42P01", "42704", "3F000"})


def what_stopped(error: DBAPIError) -> str:
    """Return what is wrong with the import as a whole, and what to do about it."""
    code, message = _code_and_message(error)
    if code in _NOT_MIGRATED:
        return f"the database is not ready for this release ({message}): run stats-refresh migrate"
    if code is None or code.startswith(_CONNECTION_LOST):
        return f"no connection to the database ({message}): check that it runs and STATS_REFRESH_DATABASE_URL"
    return f"the database stopped the import ({code}: {message})"


@contextmanager
def told_clearly(how_far: Callable[[], str]) -> Iterator[None]:
    """Turn whatever stops the import into one line that says `how_far` it came and what to do."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise OperatorError(f"interrupted; {how_far()}", exit_code=130) from stop
    except DBAPIError as error:
        raise OperatorError(f"{what_stopped(error)}; {how_far()}") from error
    except sqlite3.OperationalError as error:
        raise OperatorError(f"{no_room(error)}; {how_far()}") from error


def is_gone(error: DBAPIError) -> bool:
    """Tell whether what was to be changed is not there any more."""
    return _code_and_message(error)[0] == _NO_DATA_FOUND


def has_changed(error: DBAPIError) -> bool:
    """Tell whether what was to be changed is not what it was when it was read."""
    return _code_and_message(error)[0] == _SERIALIZATION_FAILURE


def refusal(error: DBAPIError) -> str | None:
    """Return why the database refuses what it was given; None where the error is about something else."""
    code, message = _code_and_message(error)
    if code is None or not (code.startswith(_DATA_EXCEPTIONS) or code == _CHECK_VIOLATION):
        return None
    return message


def _code_and_message(error: DBAPIError) -> tuple[str | None, str]:
    """Return the SQLSTATE (None: the server did not answer) and the message's first line."""
    original = error.orig
    if not isinstance(original, psycopg2.Error):
        return None, str(error).splitlines()[0]
    message = original.diag.message_primary or str(original)
    return original.pgcode, (message.strip().splitlines() or ["connection lost"])[0]
