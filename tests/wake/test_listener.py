"""The listener alone: what it hears, how often it wakes, and what it survives."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.app import AppAccount

from core.listening import Listener
from core.processes import wait_until
from tasks.listener import APPLICATION_NAME, CHANNEL, listener_of_saves

if TYPE_CHECKING:
    from conftest import Database

BACKENDS = (
    f"from pg_stat_activity where application_name = '{APPLICATION_NAME}' and datname = current_database()"
)


class Wakes:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0
        self.last = float("-inf")

    def __call__(self) -> None:
        self.count += 1
        self.last = time.monotonic()


@contextmanager
def listening(database: Database, wakes: Wakes) -> Iterator[Listener]:
    """Run a listener that has said hello: one wake at connecting, for what it may have missed."""
    listener = listener_of_saves(database.url, wakes)
    listener.start()
    try:
        assert wait_until(lambda: wakes.count == 1, 10)
        yield listener
    finally:
        listener.stop()


def backends(database: Database) -> int:
    [[count]] = database.admin(f"select count(*) {BACKENDS}")
    return count


def test_a_save_wakes_once_a_repeated_one_not_at_all(database: Database, app_account: AppAccount) -> None:
    app_account.exercise()
    wakes = Wakes()
    with listening(database, wakes):
        app_account.save()
        assert wait_until(lambda: wakes.count == 2, 5)
        app_account.save()  # merged into the pending row: claim has been told already
        other = AppAccount(database)
        other.save()
        assert wait_until(lambda: wakes.count == 3, 5)
    assert wakes.count == 3


def test_a_thousand_notifications_are_a_few_wakes_and_the_last_one_counts(database: Database) -> None:
    wakes = Wakes()
    with listening(database, wakes):
        began = time.monotonic()

        def burst() -> None:
            with database.admin_engine.connect() as connection:
                for _ in range(250):
                    connection.exec_driver_sql(f"notify {CHANNEL}")
                    connection.commit()

        writers = [threading.Thread(target=burst) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        last = time.monotonic()
        database.admin(f"notify {CHANNEL}")
        assert wait_until(lambda: wakes.last > last, 5)
        assert 2 <= wakes.count <= 3 + (time.monotonic() - began) / 0.05


def test_a_lost_connection_is_made_again_and_what_was_missed_is_asked_for(database: Database) -> None:
    wakes = Wakes()
    with listening(database, wakes):
        database.admin(f"select pg_catalog.pg_terminate_backend(pid) {BACKENDS}")
        assert wait_until(lambda: wakes.count == 2, 10)
        database.admin(f"notify {CHANNEL}")
        assert wait_until(lambda: wakes.count == 3, 10)


def test_stop_closes_the_connection_at_once(database: Database) -> None:
    wakes = Wakes()
    with listening(database, wakes) as listener:
        assert backends(database) == 1
        began = time.monotonic()
        listener.stop()
        assert time.monotonic() - began < 2
        assert wait_until(lambda: backends(database) == 0, 5)


def test_a_wake_that_raises_does_not_end_the_listener(database: Database) -> None:
    calls: list[str] = []

    def wake() -> None:
        calls.append("called")
        if len(calls) == 1:
            raise RuntimeError("no broker")

    listener = listener_of_saves(database.url, wake)
    listener.start()
    try:
        assert wait_until(lambda: len(calls) >= 2, 15)
    finally:
        listener.stop()


def test_a_database_that_is_away_is_tried_again(database: Database) -> None:
    wakes = Wakes()
    [[name]] = database.admin("select current_database()")
    with database.admin_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"alter database {name} connection limit 0")
        listener = listener_of_saves(database.url, wakes)
        listener.start()
        try:
            assert not wait_until(lambda: wakes.count > 0, 0.5)
            connection.exec_driver_sql(f"alter database {name} connection limit -1")
            assert wait_until(lambda: wakes.count == 1, 10)
        finally:
            listener.stop()
