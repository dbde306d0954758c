"""Ways to Postgres on which the listener would wait for ever: it notices, says so, and connects again."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url
from support.proxy import Pooler, Proxy
from support.rig import soon

from core import listening as module
from tasks.listener import CHANNEL, HEARTBEAT_APPLICATION_NAME, listener_of_saves

if TYPE_CHECKING:
    from conftest import Database

LISTENING = "listening for saves"
SILENT = "its own notification did not come back within 1 s"


class Wakes:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[str], int]:
    """Return how often the listener has said what a pattern matches."""
    caplog.set_level(logging.INFO, "core.listening")
    return lambda pattern: sum(
        bool(re.search(pattern, record.getMessage())) for record in list(caplog.records)
    )


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.5)


@contextmanager
def listening(listens: str, notifies: str) -> Iterator[Wakes]:
    """Run a listener that proves itself each second."""
    wakes = Wakes()
    listener = listener_of_saves(listens, wakes, notify_url=notifies, every=0.5, answer_within=1)
    listener.start()
    try:
        yield wakes
    finally:
        listener.stop()


def hears(database: Database, wakes: Wakes) -> bool:
    before = wakes.count
    database.admin(f"notify {CHANNEL}")
    return soon(lambda: wakes.count > before, 10)


@pytest.mark.parametrize(
    ("directions", "shared"),
    [(("up", "down"), True), (("down",), True), (("up", "down"), False), (("down",), False)],
    ids=[
        "all, both connections",
        "answers, both connections",
        "all, the listening one",
        "answers, the listening one",
    ],
)
def test_a_connection_that_went_silent_is_made_again(
    database: Database, said: Callable[[str], int], directions: tuple[str, ...], shared: bool
) -> None:
    with Proxy(database.url) as proxy, listening(proxy.url, proxy.url if shared else database.url) as wakes:
        assert soon(lambda: said(LISTENING) == 1)
        assert hears(database, wakes)
        proxy.swallow(*directions)
        assert soon(lambda: said("not listening, saves wait for the beats") >= 1, 10)
        proxy.resume()
        assert soon(lambda: said(LISTENING) == 2)
        assert hears(database, wakes)
    assert said("could not be sent: the server does not answer" if shared else SILENT) >= 1
    assert said("STATS_REFRESH_LISTEN_DATABASE_URL") == 0


def test_a_silence_is_one_warning(database: Database, said: Callable[[str], int]) -> None:
    """The connection alone is dead, as behind a router that has forgotten it; the way is well."""
    with Proxy(database.url) as proxy, listening(proxy.url, database.url) as wakes:
        assert soon(lambda: said(LISTENING) == 1)
        proxy.swallow("down")
        assert soon(lambda: said(SILENT) == 1)
        proxy.resume()
        assert soon(lambda: said(LISTENING) == 2)
        assert hears(database, wakes)
        assert said("not listening") <= 2


def test_a_way_that_takes_no_connection_is_tried_again(
    database: Database, said: Callable[[str], int]
) -> None:
    with Proxy(database.url) as proxy, listening(proxy.url, database.url) as wakes:
        assert soon(lambda: said(LISTENING) == 1)
        proxy.swallow("up", "down")
        # It accepts, as the system does for it, and nothing ever answers.
        assert soon(lambda: said("the server did not answer within 1 s") >= 2)
        proxy.resume()
        assert soon(lambda: said(LISTENING) == 2)
        assert hears(database, wakes)


def test_a_pooler_that_can_not_listen_is_named_with_the_remedy(
    database: Database, said: Callable[[str], int]
) -> None:
    with Pooler(database.url) as pooler, listening(pooler.url, pooler.url):
        assert soon(lambda: said("a pooler that can't LISTEN, or to another database") >= 1, 10)
        assert (
            said("set STATS_REFRESH_LISTEN_DATABASE_URL to a URL of the same database without the pooler")
            >= 1
        )
        assert said(LISTENING) == 0


def test_a_listener_beside_the_pooler_proves_itself_through_it(
    database: Database, said: Callable[[str], int]
) -> None:
    with Pooler(database.url) as pooler, listening(database.url, pooler.url) as wakes:
        assert soon(lambda: said(LISTENING) == 1)
        assert hears(database, wakes)
        assert said("not listening") == 0


def test_a_listener_in_another_database_is_noticed(database: Database, said: Callable[[str], int]) -> None:
    other = make_url(database.url).set(database="postgres").render_as_string(hide_password=False)
    with listening(other, database.url):
        assert soon(lambda: said("or to another database; set STATS_REFRESH_LISTEN_DATABASE_URL") >= 1, 10)


def test_the_heartbeats_own_connection_may_end(database: Database, said: Callable[[str], int]) -> None:
    backends = (
        f"from pg_stat_activity where application_name = '{HEARTBEAT_APPLICATION_NAME}'"
        " and datname = current_database()"
    )
    with listening(database.url, database.url) as wakes:
        assert soon(lambda: said(LISTENING) == 1)
        [[first]] = database.admin(f"select pid {backends}")
        database.admin(f"select pg_catalog.pg_terminate_backend(pid) {backends}")
        assert soon(lambda: any(pid != first for (pid,) in database.admin(f"select pid {backends}")))
        assert hears(database, wakes)
        assert said("not listening") == 0
