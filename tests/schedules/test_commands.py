"""`stats-refresh schedule` and `stats-refresh history` as an operator types them, on a real Valkey and Postgres."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import Result
from conftest import Database
from operations.terminal import terminal
from redbeat.schedulers import get_redis
from redis import Redis
from typer.testing import CliRunner

from core.config import config
from core.errors import OperatorError
from embedded.valkey import ValkeyServer
from ops.cli import app as cli
from schedules.entries import ENTRIES
from schedules.entry import FixedRateEntry
from schedules.entry_names import full_name
from schedules.install import install_missing
from schedules.settings import schedule_app

CLAIM = "lift-guild-stats-refresh"
PUBLISH = "barbelic-stats-projection-publish"
PURGE = "barbelic-stats-cron-history-purge"
ROLLOVER = "lift-guild-pr-overview-snapshot-rollover"
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
def stats_refresh(valkey: ValkeyServer) -> Iterator[Run]:
    """Run the command line on the Valkey, and on the database that is passed."""

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
    """Return the printed list's rows by their first column: in a pipe each is one line."""
    assert result.exit_code == 0, result.output
    rows = [re.split(" {2,}", line) for line in result.output.splitlines()[1:]]
    return {row[0]: row[1:] for row in rows}


def test_schedule_list_shows_every_entry(stats_refresh: Run, stored: Callable[[str], FixedRateEntry]) -> None:
    stored(CLAIM)._next_instance(last_run_at=datetime.now(UTC) - timedelta(seconds=30))
    listed = cells(stats_refresh("schedule", "list"))
    assert list(listed) == [entry.name for entry in ENTRIES]
    cadence, enabled, runs, last_run, next_run, drift, *no_work = listed[CLAIM]
    assert (cadence, enabled, runs, no_work) == ("every 1s", "yes", "1", ["0", "0", "0"])
    assert 29 <= float(drift.removesuffix("s")) < 40
    assert last_run < next_run
    assert listed[PURGE][0] == "7-57/10 * * * *"
    assert listed[PUBLISH][2:5] == ["0", "-", "-"]


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


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("claim", CLAIM),
        ("stats.claim", CLAIM),
        ("refresh", CLAIM),
        ("publish", PUBLISH),
        ("projection-publish", PUBLISH),
        ("history-purge", PURGE),
        (PURGE, PURGE),
    ],
)
def test_an_entry_is_called_by_its_task_or_by_words_that_no_other_has(
    stats_refresh: Run, stored: Callable[[str], FixedRateEntry], called: str, name: str
) -> None:
    assert stats_refresh("schedule", "set", called, "--every", "9s").output == f"{name}: every 9s\n"
    assert stats_refresh("schedule", "pause", called).output == f"{name}: paused\n"
    paused = [entry.name for entry in ENTRIES if not stored_now(stored, entry.name)]
    assert paused == [name]
    assert stats_refresh("schedule", "resume", called).output == f"{name}: resumed\n"


@pytest.mark.parametrize(
    ("called", "problem"),
    [
        (
            "projection",
            f"fits more than one entry: barbelic-stats-projection-compute (compute), {PUBLISH} (publish)",
        ),
        ("publ", f"publ: is no entry; the entries are {CLAIM} (claim), "),
        ("", ": is no entry; the entries are "),
        ("-", "-: is no entry; the entries are "),
    ],
)
def test_what_fits_several_entries_or_none_lists_the_candidates(
    stats_refresh: Run, stored: Callable[[str], FixedRateEntry], called: str, problem: str
) -> None:
    before = stored(PUBLISH)._definition_json()
    for arguments in (("set", "--every", "9s"), ("pause",), ("resume",)):
        refused = stats_refresh("schedule", *arguments, "--", called)
        assert isinstance(refused.exception, OperatorError)
        assert problem in str(refused.exception)
    assert stored(PUBLISH)._definition_json() == before


def test_no_entry_is_called_like_another() -> None:
    """Each task's short name, which the errors offer, leads to its own entry."""
    assert [full_name(entry.task.removeprefix("stats.")) for entry in ENTRIES] == [
        entry.name for entry in ENTRIES
    ]


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
        (("--entry", "claim"), ["worker4", "worker2"]),
        (("--failed",), ["worker2"]),
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


def test_history_in_a_pipe_is_one_whole_line_a_run(stats_refresh: Run, runs: Database) -> None:
    """However long the answer is, and whatever is in it."""
    words = " ".join(f"word{number}" for number in range(200))
    runs.admin(
        "update public.cron_run_history set error = :error where error is not null", error=f"{words}\n[/end]"
    )
    output = stats_refresh("history", database=runs).output
    assert output.count("\n") == 6
    [line] = [line for line in output.splitlines() if "failed" in line]
    assert line.startswith(f"2026-03-10 10:00:02.000  {CLAIM} ")
    assert line.endswith(f"worker2  {words}\\n[/end]")


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_history_fits_a_terminal(runs: Database, columns: int) -> None:
    runs.admin("update public.cron_run_history set job_name = :longest where error is null", longest=ROLLOVER)
    with terminal("history", columns=columns, STATS_REFRESH_DATABASE_URL=runs.url) as opened:
        lines = opened.finish()
    assert len(lines) == (6 if columns == 200 else 12)
    assert max(map(len, lines)) <= columns
    for whole in (CLAIM, ROLLOVER, "2026-03-10 10:00:02.000", "out of plates", '{"response": "idle"}'):
        assert any(whole in line for line in lines)


def test_schedule_list_fits_a_terminal_of_80_columns(
    valkey: ValkeyServer, stored: Callable[[str], FixedRateEntry]
) -> None:
    stored(CLAIM)._next_instance(last_run_at=datetime.now(UTC))
    urls = {"STATS_REFRESH_DATABASE_URL": "postgresql://unused", "STATS_REFRESH_REDIS_URL": valkey.redis_url}
    with terminal("schedule", "list", columns=80, **urls) as opened:
        lines = opened.finish()
    assert len(lines) == 2 + 2 * len(ENTRIES)
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[2::2]] == [entry.name for entry in ENTRIES]
    assert lines[1].split()[-3:] == ["dropped", "overlapped", "missed"]


@pytest.mark.parametrize("entry", ["nosuch", "lift-guild"])
def test_history_of_what_is_no_entry_lists_the_names(stats_refresh: Run, runs: Database, entry: str) -> None:
    refused = stats_refresh("history", "--entry", entry, database=runs)
    assert isinstance(refused.exception, OperatorError)
    assert CLAIM in str(refused.exception)
    assert ROLLOVER in str(refused.exception)


def test_history_keeps_the_runs_of_an_entry_of_an_earlier_release(stats_refresh: Run, runs: Database) -> None:
    runs.admin("update public.cron_run_history set job_name = 'nosuch' where worker = 'worker1'")
    assert [
        row[3] for row in cells(stats_refresh("history", "--entry", "nosuch", database=runs)).values()
    ] == ["worker1"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--entry", "purge"), f"{PURGE}: no runs yet"),
        (("--entry", PUBLISH, "--failed"), f"{PUBLISH}: no failed runs"),
        (("--entry", PURGE, "--failed"), f"{PURGE}: no failed runs"),
    ],
)
def test_history_without_runs_says_so(
    stats_refresh: Run, runs: Database, options: tuple[str, ...], line: str
) -> None:
    assert stats_refresh("history", *options, database=runs).output == f"{line}\n"


def test_a_history_without_any_runs_says_so(stats_refresh: Run, database: Database) -> None:
    assert stats_refresh("history", database=database).output == "no runs yet\n"
    assert stats_refresh("history", "--failed", database=database).output == "no failed runs\n"


@pytest.mark.parametrize("limit", ["0", "1001", "many"])
def test_history_refuses_a_limit_out_of_bounds(stats_refresh: Run, runs: Database, limit: str) -> None:
    assert stats_refresh("history", "--limit", limit, database=runs).exit_code == 2
