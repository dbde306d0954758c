"""`stats-refresh status`: how fresh the accounts are, what waits and what failed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine, create_engine, text

from tasks.transaction import service, transaction

_STATUS = text("select public.stats_projection_worker_status_v1()")


def show(database_url: str, as_json: bool, watch: bool) -> None:
    """Print the worker status; with `watch` again every second until Ctrl-C."""
    engine = create_engine(database_url, pool_size=1, max_overflow=0)
    try:
        if watch:
            _watch(engine, as_json)
        elif as_json:
            Console().print_json(data=worker_status(engine))
        else:
            Console().print(status_table(worker_status(engine)))
    finally:
        engine.dispose()


def worker_status(engine: Engine) -> dict[str, Any]:
    """Return what `stats_projection_worker_status_v1` says."""
    with transaction(engine, service()) as connection:
        status: dict[str, Any] = connection.scalar(_STATUS)
    return status


def status_table(status: dict[str, Any]) -> Table:
    """Return the status as a table for a person, alerts first; the settings row stays with `--json`."""
    table = Table(title="stats-refresh status", show_header=False)
    for alert in status["alerts"]:
        what_to_do = f"{alert['text']}. {alert['action']}"
        table.add_row(Text(f"alert: {alert['subject']}", style="red"), Text(what_to_do, style="red"))
    for subject in ("accounts", "jobs", "leases", "last_hour", "rollover", "maintenance"):
        for name, value in _flat(subject.replace("_", " ") + ":", status[subject]):
            table.add_row(name, value)
    if not status["messages_are_english"]:
        table.add_row("language of errors", Text("not English: workers refuse to start", style="red"))
    table.add_row("paused stages", ", ".join(status["paused_stages"]) or "none")
    return table


def _watch(engine: Engine, as_json: bool) -> None:
    tick = threading.Event()
    try:
        if as_json:
            while True:
                Console().print(json.dumps(worker_status(engine)), soft_wrap=True, highlight=False)
                tick.wait(1)
        with Live(auto_refresh=False) as live:
            while True:
                live.update(status_table(worker_status(engine)), refresh=True)
                tick.wait(1)
    except KeyboardInterrupt:
        return


def _flat(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield one row for each value, also of groups in groups."""
    if isinstance(value, dict):
        for part, inner in value.items():
            yield from _flat(f"{name} {part.replace('_', ' ')}", inner)
    else:
        yield name, "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
