"""Two exports of one account that are imported at the same moment end as one history."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine
from support.app import Json
from support.histories import block, history, lift, session, stored_sessions

from core.errors import OperatorError
from core.processes import wait_until
from importers.history import ParsedHistory
from importers.saving import MOST_SESSIONS, ImportReport, import_history

WORKOUTS = 3 * MOST_SESSIONS
HOLDERS = """
    select count(*) from pg_locks l
    where l.locktype = 'advisory' and l.granted is not distinct from :granted
        and ((l.classid::bigint << 32) | l.objid::bigint) =
            hashtextextended('stats-refresh:import:' || cast(:user as text), 0)
"""


@pytest.fixture
def user() -> UUID:
    return uuid4()


def export(hour: int, workouts: int = WORKOUTS) -> ParsedHistory:
    """Every second day's workout, as a phone of another zone would print it."""
    days = (date(2026, 1, 1) + timedelta(days=2 * n) for n in range(workouts))
    return history(
        *(
            session(
                block("Bench", lift(n, 60 + n)),
                ref=f"{day} {hour}",
                day=day,
                at=datetime(day.year, day.month, day.day, hour, n % 60),
            )
            for n, day in enumerate(days)
        )
    )


def waits(database, user: UUID) -> bool:
    return database.admin(HOLDERS, user=user, granted=False) == [(1,)]


def test_the_later_export_waits_and_finds_what_the_earlier_one_saved(database, user):
    waited = threading.Event()
    with ThreadPoolExecutor(1) as other:
        second: list = []

        def begin_the_other(done: int, total: int) -> None:
            if not second:
                second.append(
                    other.submit(
                        import_history,
                        database.engine,
                        user,
                        "strong",
                        export(17, WORKOUTS + 2),
                        waiting=waited.set,
                    )
                )
                assert wait_until(lambda: second[0].done() or waits(database, user), 20, interval=0.02)

        first = import_history(database.engine, user, "strong", export(18), begin_the_other)
        report = second[0].result(60)
    assert waited.is_set()
    assert first.sessions_saved == WORKOUTS
    assert report.sessions_saved == 2
    assert len(stored_sessions(database, user)) == WORKOUTS + 2


def test_an_import_that_lost_its_turn_compares_anew(database, user):
    """Its connection was ended; another import came in between, and has saved the same workouts an hour off."""
    reports: list[ImportReport] = []

    def lose_the_turn(done: int, total: int) -> None:
        if done == MOST_SESSIONS and not reports:
            database.admin(
                "select pg_terminate_backend(l.pid, 10000) from pg_locks l where l.locktype = 'advisory'"
                " and ((l.classid::bigint << 32) | l.objid::bigint) ="
                " hashtextextended('stats-refresh:import:' || cast(:user as text), 0)",
                user=user,
            )
            reports.append(import_history(database.engine, user, "strong", export(17)))

    report = import_history(database.engine, user, "strong", export(18), lose_the_turn)
    assert len(reports) == 1
    assert report.sessions_saved == MOST_SESSIONS
    assert reports[0].sessions_saved == WORKOUTS - MOST_SESSIONS
    assert len(stored_sessions(database, user)) == WORKOUTS


def test_a_dry_run_waits_for_nobody(database, user):
    def look(done: int, total: int) -> None:
        import_history(database.engine, user, "strong", export(17), dry_run=True, waiting=pytest.fail)

    assert import_history(database.engine, user, "strong", export(18), look).sessions_saved == WORKOUTS


def test_imports_of_two_accounts_do_not_wait_for_each_other(database, user):
    def import_another(done: int, total: int) -> None:
        import_history(database.engine, uuid4(), "strong", export(17, 1), waiting=pytest.fail)

    assert import_history(database.engine, user, "strong", export(18), import_another).sessions_saved


def test_a_turn_outlasts_the_databases_limits(database, user):
    """Waiting, and holding the turn while a large file is read, say nothing for longer than these defaults allow."""
    waited = threading.Event()
    limits = ("statement_timeout = '200ms'", "idle_in_transaction_session_timeout = '200ms'")
    engine: Engine = database.engine
    [(name,)] = database.admin("select current_database()")
    for limit in limits:
        database.admin(f'alter database "{name}" set {limit}')
    engine.dispose()
    answers: list[Json] = []
    with ThreadPoolExecutor(1) as other:

        def begin_the_other(done: int, total: int) -> None:
            if done == MOST_SESSIONS:
                answers.append(
                    other.submit(import_history, engine, user, "strong", export(17), waiting=waited.set)
                )
                since = (
                    "select now() - min(a.xact_start) > interval '600 ms' from pg_stat_activity a"
                    " where a.wait_event = 'advisory' and a.datname = current_database()"
                )
                assert wait_until(lambda: database.admin(since) == [(True,)], 20, interval=0.02)

        try:
            first = import_history(engine, user, "strong", export(18), begin_the_other)
            second = answers[0].result(60)
        except OperatorError as error:
            raise AssertionError(f"a limit of the database ended an import: {error}") from error
    assert (first.sessions_saved, second.sessions_saved) == (WORKOUTS, 0)


def test_somebody_else_s_turn_is_refused(database, user):
    with pytest.raises(Exception, match="expected_user_id"):
        database.as_account(uuid4())(
            "select public.take_import_turn_v1(false, cast(:user as uuid))", user=user
        )
