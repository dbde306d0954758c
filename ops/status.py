"""`stats-refresh status`: how fresh the accounts are, what waits and what failed."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from redis import RedisError
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from sqlalchemy import Engine, create_engine, text

from core.redis_client import quick_client
from ops.printing import Table, say, terminal
from ops.status_summary import status_table
from schedules.counters import dropped_messages
from tasks.transaction import service, transaction

Status = Callable[[], dict[str, Any]]
"""Asks for the status as it is now."""

_STATUS = text("select public.stats_projection_worker_status_v1()")


def show(database_url: str, redis_url: str | None, as_json: bool, watch: bool) -> None:
    """Print the worker status; with `watch` again every second until Ctrl-C."""
    engine = create_engine(database_url, pool_size=1, max_overflow=0)
    status = partial(_status, engine, redis_url)
    try:
        if watch:
            _watch(status, as_json)
        elif as_json:
            terminal().print_json(data=status())
        else:
            say(status_table(status()))
    finally:
        engine.dispose()


def _status(engine: Engine, redis_url: str | None) -> dict[str, Any]:
    return worker_status(engine) | {"dropped_messages": _dropped_messages(redis_url)}


def _dropped_messages(redis_url: str | None) -> dict[str, int] | None:
    """Return how many messages were dropped, by queue; None where Redis does not say."""
    if redis_url is None:
        return None
    try:
        with quick_client(redis_url) as redis:
            return dropped_messages(redis)
    except RedisError:
        return None


def worker_status(engine: Engine) -> dict[str, Any]:
    """Return what `stats_projection_worker_status_v1` says."""
    with transaction(engine, service()) as connection:
        status: dict[str, Any] = connection.scalar(_STATUS)
    return status


def _watch(status: Status, as_json: bool) -> None:
    console = terminal()
    # Whoever ends it gets the terminal back as it was.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        if as_json:
            for current in _each_second(status):
                say(json.dumps(current))
        elif not console.file.isatty() or console.is_dumb_terminal:
            for current in _each_second(status):
                say(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")
                say(status_table(current))
        else:
            _watch_on_screen(console, status)


def _watch_on_screen(console: Console, status: Status) -> None:
    """Paint the screen anew each second, whatever size it has by then, and leave the last status behind."""
    shown = None
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            for current in _each_second(status):
                shown = status_table(current)
                live.update(_OneScreen(shown), refresh=True)
    finally:
        if shown is not None:
            say(shown)


def _each_second(status: Status) -> Iterator[dict[str, Any]]:
    tick = threading.Event()
    while True:
        yield status()
        tick.wait(1)


@dataclass(frozen=True)
class _OneScreen:
    """As much of a table as the terminal has lines for; the last line says how much more there is."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.size.height
        lines = console.render_lines(self.table, options.update(height=None), pad=False)
        if len(lines) > height:
            more = f"... {len(lines) - height + 1} more lines"
            lines = [*lines[: height - 1], [Segment(more[: options.max_width])]]
        for line in lines:
            yield from line
            yield Segment.line()
