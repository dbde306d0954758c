"""The maintenance tasks: each runs one bounded page in one transaction, and itself again while there is more."""

from __future__ import annotations

import logging
from functools import partial

from celery import Task
from sqlalchemy import TextClause, text
from sqlalchemy.exc import SQLAlchemyError

from core.config import config
from core.database import engine
from tasks.app import app
from tasks.beats import entry_of
from tasks.chain import next_link
from tasks.execution import StageFailed, execute
from tasks.transaction import Answer, service, transaction
from tasks.wake import Message, send

logger = logging.getLogger(__name__)

PURGE = text("select public.purge_stats_history_v1()")
ROLLOVER = text("select public.run_user_pr_overview_rollover_v1()")
REPAIR = text("select public.run_user_exercise_stats_backfill_scan_cron()")
CATALOG = text("select public.run_stats_catalog_walk_v1()")
_ALERTS = text("select public.stats_projection_worker_status_v1() -> 'alerts'")

_DID_A_PAGE = ("purged", "enqueued", "scanned", "walked")
"""Answers after which another page at once makes sense: not those of a stage that waits, is paused or failed."""


@app.task(name="stats.purge_history", bind=True, throws=(StageFailed,))
def purge_history(self: Task, link: str | None = None) -> Answer:
    """Remove one page of what only grows."""
    return _page(self, PURGE, link)


@app.task(name="stats.rollover", bind=True, throws=(StageFailed,))
def rollover(self: Task, link: str | None = None) -> Answer:
    """Request a new generation for one page of the accounts whose day has turned."""
    try:
        return _page(self, ROLLOVER, link)
    finally:
        # A page that failed or could not run says so too. Once a beat, not for each page of a chain.
        if entry_of(self.request) is not None:
            _warn_of_late_rollovers()


@app.task(name="stats.repair", bind=True, throws=(StageFailed,))
def repair(self: Task, link: str | None = None) -> Answer:
    """Look through one page of source rows for read models that don't follow from them."""
    return _page(self, REPAIR, link)


@app.task(name="stats.catalog", bind=True, throws=(StageFailed,))
def catalog(self: Task, link: str | None = None) -> Answer:
    """Request a new generation for one page of the accounts that use a changed exercise."""
    return _page(self, CATALOG, link)


def _page(task: Task, statement: TextClause, link: str | None) -> Answer:
    return execute(task, "maintenance", statement, {}, partial(_go_on, task, link))


def _go_on(task: Task, link: str | None, answer: Answer) -> None:
    """Send the task itself while there is more: a backlog does not wait a minute for each page."""
    more = answer["response"] in _DID_A_PAGE and bool(answer.get("has_more") or answer.get("behind"))
    if config().wake == "on" and (following := next_link(str(task.name), link, more=more)) is not None:
        send(app, [Message(str(task.name), {"link": following})])


def _warn_of_late_rollovers() -> None:
    try:
        with transaction(engine(), service()) as connection:
            alerts = connection.scalar(_ALERTS)
    except SQLAlchemyError:
        return  # what keeps the status from being read has failed the page as well
    if late := [alert for alert in alerts or [] if alert["subject"] == "rollover"]:
        logger.warning(
            "the rollover needs a person: %s",
            "; ".join(f"{alert['text']} ({alert['action']})" for alert in late),
            extra={"action": "rollover_alert"},
        )
