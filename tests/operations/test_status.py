"""`stats-refresh status` for a person: short where all is well, and nothing unusual left out."""

from __future__ import annotations

import copy
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from batches.scene import set_settings
from operations.terminal import pipe, terminal

from ops.printing import Table
from ops.status_summary import status_table

STATUS = "select public.stats_projection_worker_status_v1()"
AT_REST = ("laps", "lap_started_at", "last_success_at", "last_success_seconds", "updated_at")
"""What a maintenance job says of itself that is no trouble."""


@pytest.fixture
def healthy(database, app_account, stages) -> dict[str, Any]:
    """The status after one published save and a page of each maintenance job."""
    app_account.save()
    stages.drain()
    database.admin(
        "update public.stats_maintenance_cursors set last_success_at = now(), laps = 4, cursor = 'x'"
    )
    return database.as_service().value(STATUS)


@pytest.fixture
def incident(healthy) -> dict[str, Any]:
    """A status with a figure of its own wherever one may be: 101, 102, ..."""
    status = copy.deepcopy(healthy)
    numbers = iter(range(101, 999))
    for group in ("jobs", "leases", "last_hour", "accounts", "rollover"):
        _number(status[group], numbers)
    for name, job in status["maintenance"].items():
        job["attempt_count"] = next(numbers)
        job.update(last_error=f"42703: {name} broke", cursor=f"{name}-cursor", next_retry_at=f"{name}-retry")
    status["catalog_walks"] = next(numbers)
    status["alerts"] = [{"subject": "rollover", "text": "1 account is late", "action": "look at the queue"}]
    status["paused_stages"] = ["claim", "publish"]
    status["messages_are_english"] = False
    return status


def _number(group: dict[str, Any], numbers: Iterator[int]) -> None:
    for name, value in group.items():
        if isinstance(value, dict):
            _number(value, numbers)
        else:
            group[name] = next(numbers)


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def lines(table: Table, width: int | None = None) -> list[str]:
    return [line.plain for line in table.lines(width)]


def test_a_healthy_system_says_so_in_less_than_a_screen(healthy):
    shown = lines(status_table(healthy), 80)
    assert len(shown) < 15
    assert max(map(len, shown)) <= 80
    assert [
        re.split(" {2,}", line.strip())[:2] for line in shown if "ms" not in line and "ago" not in line
    ] == [
        ["alerts", "none"],
        ["accounts", "1, all fresh"],
        ["jobs", "none open"],
        ["leases", "none"],
        ["last hour", "1 completed"],
        ["rollover", "nothing due"],
        ["paused stages", "none"],
    ]


def test_an_empty_system(database):
    shown = dict(re.split(" {2,}", line) for line in lines(status_table(database.as_service().value(STATUS))))
    assert (shown["accounts"], shown["last hour"]) == ("none", "no run ended")
    assert shown["maintenance"] == "catalog never, history never, repair never, rollover never"


def test_in_an_incident_no_figure_is_left_out(incident):
    shown = " ".join(lines(status_table(incident)))
    expected = copy.deepcopy({name: value for name, value in incident.items() if name != "settings"})
    for job in expected["maintenance"].values():
        for name in (*AT_REST, "next_retry_at"):
            del job[name]
    del expected["messages_are_english"]
    # Ages are in words.
    for group, name in (
        ("jobs", "oldest_wait"),
        ("leases", "longest_busy"),
        ("accounts", "oldest_staleness"),
        ("rollover", "oldest_due"),
    ):
        seconds = expected[group].pop(f"{name}_seconds")
        assert f"{seconds // 60}m {seconds % 60}s" in shown
    for leaf in leaves(expected):
        assert re.search(rf"(?<!\d){re.escape(str(leaf))}(?!\d)", shown), leaf
    assert (
        "errors are not English: workers refuse to start. Run ALTER DATABASE ... SET lc_messages = 'C'"
        in shown
    )


def test_when_a_failing_job_is_tried_again_is_not_promised(incident):
    """Nothing waits for next_retry_at: the schedule decides."""
    shown = " ".join(lines(status_table(incident)))
    assert "at cursor history-cursor" in shown
    assert "history-retry" not in shown
    assert "not before" not in shown


def test_alerts_come_first_and_what_is_wrong_is_red(incident):
    rows = list(status_table(incident).lines(None))
    assert rows[0].plain.split("  ")[0] == "alert: rollover"
    assert rows[1].plain.split("  ")[0] == "alert: language"
    styles = {
        line.plain.split("  ")[0]: {str(span.style) for span in line.spans} | {str(line.style)}
        for line in rows
    }
    assert "red" in styles["alert: rollover"]
    assert "red" in styles["jobs"]
    assert "yellow" in styles["paused stages"]
    assert "red" not in styles["accounts"]


def test_a_job_that_is_open_without_a_stale_account_is_named(healthy):
    healthy["accounts"]["oldest_staleness_seconds"] = 7200
    assert "1, all fresh, the oldest open job is 2h old" in " ".join(
        " ".join(lines(status_table(healthy))).split()
    )


def test_status_in_a_pipe_is_one_line_a_subject(database):
    set_settings(database, paused_stages=["claim"])
    with pipe("status", COLUMNS="20", STATS_REFRESH_DATABASE_URL=database.url) as command:
        shown = command.finish()
    assert "paused stages  claim" in shown
    assert "maintenance    catalog never, history never, repair never, rollover never" in shown


def test_watch_stays_within_a_small_terminal_and_follows_its_size(database):
    url = {"STATS_REFRESH_DATABASE_URL": database.url}
    with terminal("status", "--watch", columns=40, rows=5, **url) as watching:
        first = watching.wait_for(r"\.\.\. \d+ more lines")
        for frame in re.split(r"\x1b\[H", watching.shown[:first])[1:]:
            assert frame.count("\n") < 5
        assert "alerts" in watching.shown[:first]
        assert "paused stages" not in watching.shown[:first]

        watching.resize(100, 30)
        watching.wait_for(r"paused stages +none", first)
        watching.process.send_signal(signal.SIGINT)
        shown = watching.finish()
    assert watching.process.returncode == 0
    # The shell's screen is back, with the last status on it.
    assert "paused stages  none" in watching.shown.split("\x1b[?1049l")[1]
    assert "Traceback" not in "".join(shown)


def test_watch_in_a_pipe_adds_a_status_each_second_with_its_time(database):
    with pipe("status", "--watch", STATS_REFRESH_DATABASE_URL=database.url) as watching:
        watching.wait_for(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\nalerts .*?\npaused stages  none\n){2}")
        watching.process.send_signal(signal.SIGINT)
        watching.finish()
    assert watching.process.returncode == 0


def test_watch_as_json_is_one_object_a_line(database):
    with pipe("status", "--watch", "--json", STATS_REFRESH_DATABASE_URL=database.url) as watching:
        watching.wait_for(r"\n.*\n")
        watching.process.send_signal(signal.SIGINT)
        lines = watching.finish()
    assert watching.process.returncode == 0
    assert all(json.loads(line).keys() >= {"jobs", "settings", "alerts"} for line in lines)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_a_watch_gets_the_terminal_back_as_it_was(database, ending):
    url = {"STATS_REFRESH_DATABASE_URL": database.url}
    with terminal("status", "--watch", columns=80, rows=3, **url) as watching:
        watching.wait_for("more lines")
        watching.process.send_signal(ending)
        watching.finish()
    assert "\x1b[?1049l" in watching.shown
    assert "\x1b[?25h" in watching.shown
