"""What a database must answer before a worker starts on it."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from core.config import config
from core.database import TCP

logger = logging.getLogger(__name__)

TIMEOUT_TEXT = "canceling statement due to statement timeout"
"""By this text alone the stages tell a statement that ran over its budget from one that a person cancelled."""

_QUERY_CANCELED = "57014"
_PATIENCE = 20.0
"""Seconds for the whole check."""

# Caught on the server: in its log, an error at every worker's start would look like a fault.
_TIME_OUT = text("""
    do $$
    begin
        perform pg_catalog.pg_sleep(10);
        raise 'ten seconds went by under a statement timeout of 50 milliseconds';
    exception when query_canceled then
        set local statement_timeout = 0;
        perform pg_catalog.set_config('stats_refresh.timeout_text', sqlerrm, true);
    end $$
""")
_CAUGHT = text("select pg_catalog.current_setting('stats_refresh.timeout_text')")


def timeout_text(connection: Connection) -> str:
    """Provoke a statement timeout and return what the server says to it; the caller's transaction goes on.

    Whatever lc_messages is called and wherever it is set, only the server's own words tell its language.
    """
    savepoint = connection.begin_nested()
    try:
        connection.execute(text("set local statement_timeout = 50"))
        connection.execute(_TIME_OUT)
        return str(connection.scalar(_CAUGHT))
    except DBAPIError as error:
        # A server that was too busy to get as far as the block in time.
        if getattr(error.orig, "pgcode", None) != _QUERY_CANCELED:
            raise
        diagnostics = getattr(error.orig, "diag", None)
        return str(getattr(diagnostics, "message_primary", error.orig))
    finally:
        savepoint.rollback()


def language_problem(connection: Connection) -> str | None:
    """Return one line that says what is wrong with the server's language and what to do; None: nothing."""
    found = timeout_text(connection)
    if found == TIMEOUT_TEXT:
        return None
    database = connection.scalar(text("select pg_catalog.quote_ident(pg_catalog.current_database())"))
    return (
        f'a statement timeout reads "{found}" here, and the stages only recognise "{TIMEOUT_TEXT}": '
        f"run ALTER DATABASE {database} SET lc_messages = 'C' and start the workers again"
    )


def refuse_other_language(patience: float = _PATIENCE) -> None:
    """Raise SystemExit where this process's database doesn't speak English.

    A worker on it would never recognise a timeout: attempts would raise instead of being recorded, and an account
    that runs over its budget would neither back off nor ever be given up. A database that does not answer right
    now, or not within `patience` seconds, is no reason to stop, the worker would sit out an outage too;
    `stats-refresh status` tells the language then.
    """
    url = config().database_url
    if url is None:
        return
    # A connection of its own that is closed again: the pool children fork from here.
    engine = create_engine(
        url,
        poolclass=NullPool,
        connect_args={
            "connect_timeout": TCP["connect_timeout"],
            "application_name": "stats-refresh readiness",
        },
    )
    try:
        with engine.connect() as connection, _closed_after(connection, patience):
            problem = language_problem(connection)
    except OperationalError as error:
        line = str(error.orig).strip().partition("\n")[0]
        logger.warning("the database's language is not checked: %s", line, extra={"action": "readiness"})
        return
    if problem is not None:
        raise SystemExit(f"stats-refresh: {problem}")


@contextmanager
def _closed_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Shut the connection's socket where the block takes longer; who waits in it gets an OperationalError.

    No timeout of the server's will do: a silent connection doesn't bring it, and a clock that is set back during the
    check lets the server wait for as long as the step was.
    """
    opened = connection.connection.driver_connection
    assert opened is not None
    with socket.socket(fileno=os.dup(opened.fileno())) as ours:
        timer = threading.Timer(seconds, ours.shutdown, [socket.SHUT_RDWR])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
