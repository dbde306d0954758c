"""`stats-refresh schedule` and `stats-refresh history` as an operator types them, on a real Valkey and Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import Result
from conftest import Database
from redbeat.schedulers import get_redis
from redis import Redis
from typer.testing import CliRunner

from ops.cli import app as cli
from ops.embedded.valkey import ValkeyServer
from ops.errors import OperatorError
from schedules.entries import ENTRIES
from schedules.entry import FixedRateEntry
from schedules.install import install_missing
from schedules.settings import schedule_app
from tasks.config import config

CLAIM = "lift-guild-stats-refresh"
PUBLISH = "barbelic-stats-projection-publish"
PURGE = "barbelic-stats-cron-history-purge"
Run = Callable[..., Result]


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def stored(valkey: ValkeyServer) -> Callable[[str], FixedRateEntry]:
    """Install the schedule; return what reads one entry as Redis has it."""
    app = schedule_app(valkey.redis_url)
    Redis.from_url(valkey.redis_url).flushall()
    install_missing(app)
    return lambda name: FixedRateEntry.named(app, name)


@pytest.fixture
def stats_refresh(valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run the command line on the Valkey, and on the database that is passed."""
    monkeypatch.setenv("COLUMNS", "220")

    def run(*arguments: str, database: Database | None = None, redis_url: str | None = None) -> Result:
        url = database.url if database else "postgresql://nobody@nowhere/none"
        environment = {
            "STATS_REFRESH_DATABASE_URL": url,
            "STATS_REFRESH_REDIS_URL": redis_url or valkey.redis_url,
        }
        config.cache_clear()
        return CliRunner().invoke(cli, arguments, env=environment)

    yield run
    config.cache_clear()


def cells(result: Result) -> dict[str, list[str]]:
    """Return the printed table's rows by their entry."""
    assert result.exit_code == 0, result.output
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in result.output.splitlines()
        if line.startswith("│")
    ]
    return {row[0]: row[1:] for row in rows}


def test_schedule_list_shows_every_entry(stats_refresh: Run, stored: Callable[[str], FixedRateEntry]) -> None:
    stored(CLAIM)._next_instance(last_run_at=datetime.now(UTC) - timedelta(seconds=30))
    listed = cells(stats_refresh("schedule", "list"))
    assert list(listed) == [entry.name for entry in ENTRIES]
    cadence, enabled, last_run, next_run, runs, drift, *no_work = listed[CLAIM]
    assert (cadence, enabled, runs, no_work) == ("every 1s", "yes", "1", ["0", "0", "0"])
    assert 29 <= float(drift) < 40
    assert last_run < next_run
    assert listed[PURGE][0] == "7-57/10 * * * *"
    assert listed[PUBLISH][2:5] == ["-", "-", "0"]


def test_schedule_set_changes_the_cadence_and_says_so(
    stats_refresh: Run, stored: Callable[[str], FixedRateEntry]
) -> None:
    before = stored(CLAIM)
    assert stats_refresh("schedule", "set", CLAIM, "--every", "5s").output.strip() == f"{CLAIM}: every 5s"
    assert (
        stats_refresh("schedule", "set", PURGE, "--cron", "3 4 * * *").output.strip() == f"{PURGE}: 3 4 * * *"
    )

    listed = cells(stats_refresh("schedule", "list"))
    assert (listed[CLAIM][0], listed[PURGE][0]) == ("every 5s", "3 4 * * *")
    after = stored(CLAIM)
    assert (after.task, after.options, after.enabled) == (before.task, before.options, True)


def test_schedule_pause_and_resume_stop_and_start_one_entry(
    stats_refresh: Run, stored: Callable[[str], FixedRateEntry]
) -> None:
    assert stats_refresh("schedule", "pause", CLAIM).output.strip() == f"{CLAIM}: paused"
    assert not stored_now(stored, CLAIM)
    listed = cells(stats_refresh("schedule", "list"))
    assert (listed[CLAIM][1], listed[PUBLISH][1]) == ("no", "yes")

    stats_refresh("schedule", "set", CLAIM, "--every", "2s")
    assert not stored_now(stored, CLAIM)
    assert stats_refresh("schedule", "resume", CLAIM).output.strip() == f"{CLAIM}: resumed"
    assert cells(stats_refresh("schedule", "list"))[CLAIM][:2] == ["every 2s", "yes"]


def stored_now(stored: Callable[[str], FixedRateEntry], name: str) -> bool:
    return bool(stored(name).enabled)


def test_schedule_install_puts_back_what_is_missing_and_nothing_else(
    stats_refresh: Run, stored: Callable[[str], FixedRateEntry]
) -> None:
    stats_refresh("schedule", "set", PUBLISH, "--every", "9s")
    assert stats_refresh("schedule", "install").output.strip() == "installed: nothing was missing"
    entry = stored(CLAIM)
    get_redis(entry.app).delete(entry.key)
    assert "lost: run schedule install" in cells(stats_refresh("schedule", "list"))[CLAIM]

    assert stats_refresh("schedule", "install").output.strip() == f"installed: {CLAIM}"
    listed = cells(stats_refresh("schedule", "list"))
    assert (listed[CLAIM][0], listed[PUBLISH][0]) == ("every 1s", "every 9s")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("set", CLAIM, "--every", "0s"), "must be from 1s to 744h"),
        (("set", CLAIM, "--every=-5s"), "write a whole number"),
        (("set", CLAIM), "name either --every or --cron"),
        (("set", CLAIM, "--cron", "61 * * * *"), "is not a cron line"),
        (("set", "nobody", "--every", "5s"), "nobody: is no entry"),
        (("pause", "nobody"), "nobody: is no entry"),
        (("resume", "nobody"), "nobody: is no entry"),
    ],
)
def test_schedule_refuses_nonsense_and_changes_nothing(
    stats_refresh: Run, stored: Callable[[str], FixedRateEntry], arguments: tuple[str, ...], problem: str
) -> None:
    """The command line's entry point turns the error into one line and the exit code 1."""
    before = stored(CLAIM)._definition_json()
    refused = stats_refresh("schedule", *arguments)
    assert isinstance(refused.exception, OperatorError)
    assert problem in str(refused.exception)
    assert stored(CLAIM)._definition_json() == before


@pytest.fixture
def runs(database: Database) -> Database:
    """A database with five runs, the newest last."""
    database.admin("""
        insert into public.cron_run_history (job_name, worker, status, response, error, started_at, ended_at)
        select case when n % 2 = 0 then 'lift-guild-stats-refresh' else 'barbelic-stats-projection-publish' end,
            'worker' || n, case when n = 2 then 'failed' else 'succeeded' end,
            case when n <> 2 then cast('{"response": "idle"}' as jsonb) end, case when n = 2 then 'out of plates' end,
            cast('2026-03-10 10:00:00+00' as timestamptz) + n * interval '1 second',
            cast('2026-03-10 10:00:00.25+00' as timestamptz) + n * interval '1 second'
        from generate_series(1, 5) n
    """)
    return database


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ((), ["worker5", "worker4", "worker3", "worker2", "worker1"]),
        (("--limit", "2"), ["worker5", "worker4"]),
        (("--entry", CLAIM), ["worker4", "worker2"]),
        (("--failed",), ["worker2"]),
        (("--entry", PUBLISH, "--failed"), []),
    ],
)
def test_history_shows_the_newest_runs_first(
    stats_refresh: Run, runs: Database, options: tuple[str, ...], workers: list[str]
) -> None:
    shown = cells(stats_refresh("history", *options, database=runs))
    assert [row[3] for row in shown.values()] == workers


def test_history_shows_when_how_long_and_what_became_of_a_run(stats_refresh: Run, runs: Database) -> None:
    shown = cells(stats_refresh("history", database=runs))
    assert shown["2026-03-10 10:00:02.000"] == [CLAIM, "failed", "250", "worker2", "out of plates"]
    assert shown["2026-03-10 10:00:05.000"] == [
        PUBLISH,
        "succeeded",
        "250",
        "worker5",
        '{"response": "idle"}',
    ]


@pytest.mark.parametrize("limit", ["0", "1001", "many"])
def test_history_refuses_a_limit_out_of_bounds(stats_refresh: Run, runs: Database, limit: str) -> None:
    assert stats_refresh("history", "--limit", limit, database=runs).exit_code == 2
