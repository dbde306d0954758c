"""`stats-refresh demo`: the main job once, on a stack that goes with it; servers that are given stay."""

from __future__ import annotations

import json
import urllib.request
import uuid
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from sqlalchemy import Engine, create_engine, text

from core.config import Config, config
from core.errors import OperatorError, StackFailed
from core.processes import wait_until
from edge.service.tokens import sign
from embedded.supervisor import StopRequested
from importers.formats import read_with_source
from importers.history import ParsedHistory
from importers.units import UnitMissing
from ops.discovery import shown_url
from ops.freshness import Freshness, freshness
from ops.importing import import_and_report
from ops.printing import Column, Table, say, terminal
from ops.sample_history import sample_history
from ops.stack import Stack, running_stack
from tasks.transaction import account, transaction

PUBLISHED_WITHIN = 60
"""Seconds after the last save in which everything has to be published."""
_BOARD = (
    ("best weight", "best_weight_kg"),
    ("on", "best_weight_on"),
    ("1RM", "one_rm_kg"),
    ("last done", "last_performed_on"),
)
"""What is shown of the board, as much as a terminal of 80 columns holds, and what the answer calls it."""


def run(file: Path | None, format: str, unit: str | None) -> None:
    """Import `file` (without one: a made-up history) and show that all of it is published.

    Raises OperatorError where anything fell short.
    """
    console = terminal()
    user_id = uuid.uuid4()
    console.print(_servers_line(config(), user_id), soft_wrap=True)
    provider, history = _history(console, file, format, unit)
    console.print(f"history: {file or 'a made-up one, two years'} ({history.data_rows} sets)")
    console.print("starting servers, workers, beat, Flower and the HTTP service ...")
    try:
        # By a secret of its own, for it makes a token itself.
        with running_stack(config().model_copy(update={"jwks": None})) as stack:
            engine = create_engine(stack.urls.database_url, pool_size=2, max_overflow=0)
            try:
                _show_main_job(console, stack, engine, user_id, provider, history)
            finally:
                engine.dispose()
    except StopRequested as stop:
        raise OperatorError("stopped before the end; no process is left behind", exit_code=130) from stop


def _servers_line(config: Config, user_id: UUID) -> str:
    postgres = _given(config.database_url, "STATS_REFRESH_DATABASE_URL")
    redis = _given(config.redis_url, "STATS_REFRESH_REDIS_URL")
    stays = config.database_url is not None or config.data_dir is not None
    return (
        f"Postgres: {postgres}; Redis: {redis}; "
        f"writes the demo account {user_id}, which {'stays there' if stays else 'goes with them'}"
    )


def _given(url: str | None, variable: str) -> str:
    return "an embedded one" if url is None else f"{shown_url(url)} ({variable})"


def _history(console: Console, file: Path | None, format: str, unit: str | None) -> tuple[str, ParsedHistory]:
    if file is None:
        return "sample", sample_history()
    try:
        return read_with_source(file, format, unit)
    except UnitMissing:
        # An import asks; the demo's account is gone in a minute, so it goes on and says what it took.
        console.print("the file does not say its weight unit: taken as kg (UNIT=lb for pounds)")
        return read_with_source(file, format, "kg")


def _show_main_job(
    console: Console, stack: Stack, engine: Engine, user_id: UUID, provider: str, history: ParsedHistory
) -> None:
    report = import_and_report(engine, user_id, provider, history, console=console)
    if not report.sessions_saved:
        raise OperatorError("nothing of the history could be stored; the reasons are above")
    fresh = _wait_until_fresh(engine, user_id)
    console.print(f"requested = applied = {fresh.applied}")
    console.print(_latency_line(fresh))
    today = datetime.now(UTC).date()
    board = _pr_board(stack, user_id, today, fresh.applied)
    if board["stale"] or board["generation"] != fresh.applied or not board["exercises"]:
        raise StackFailed(
            f"the PR board is not the newest generation: {board['generation']} of {fresh.applied}"
        )
    console.print(
        f"PR board of {board['as_of']}, generation {board['generation']} (kg), from {stack.http_url}"
    )
    say(_board_table(board, _exercise_names(engine, user_id)))


def _latency_line(fresh: Freshness) -> str:
    if fresh.save_to_published is None:
        return "save -> published: not measured, the server keeps no commit times (track_commit_timestamp is off)"
    milliseconds = fresh.save_to_published.total_seconds() * 1000
    return (
        f"save -> published: {milliseconds:.1f} ms, from the last save's commit to its publication's commit"
    )


def _wait_until_fresh(engine: Engine, user_id: UUID) -> Freshness:
    if not wait_until(lambda: freshness(engine, user_id).is_fresh, PUBLISHED_WITHIN, interval=0.01):
        late = freshness(engine, user_id)
        raise StackFailed(
            f"after {PUBLISHED_WITHIN} s generation {late.requested} was requested and {late.applied} applied;"
            " `stats-refresh status` on a running stack (`make up`) says what waits"
        )
    return freshness(engine, user_id)


def _pr_board(stack: Stack, user_id: UUID, as_of: date, generation: int) -> dict[str, Any]:
    """Read the board as an app does: over HTTP, with the account's token."""
    assert stack.http_secrets.jwt_secret is not None
    request = urllib.request.Request(
        f"{stack.http_url}/v1/pr-overview?date={as_of}&min_generation={generation}&wait=10",
        headers={"Authorization": f"Bearer {sign(stack.http_secrets.jwt_secret, user_id)}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            board: dict[str, Any] = json.load(answer)
    except OSError as error:
        raise StackFailed(f"the PR board can't be read from {stack.http_url}: {error}") from error
    return board


def _exercise_names(engine: Engine, user_id: UUID) -> dict[str, str]:
    with transaction(engine, account(user_id)) as connection:
        return {row.id: row.name for row in connection.execute(text("select id, name from public.exercises"))}


def _board_table(board: dict[str, Any], names: dict[str, str]) -> Table:
    rows = sorted(
        board["exercises"], key=lambda row: (-(row["best_e1rm_kg"] or 0), names[row["exercise_id"]])
    )
    headings = ("exercise", *(heading for heading, _ in _BOARD))
    return Table(
        [Column(heading, "left" if heading == "exercise" else "right") for heading in headings],
        [(names[row["exercise_id"]], *(_cell(row[column]) for _, column in _BOARD)) for row in rows],
    )


def _cell(value: float | str | None) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, int | float) else value
