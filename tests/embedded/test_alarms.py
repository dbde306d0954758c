"""Which lines of the processes reach the terminal, and what becomes of the file that has them all."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from ops.alarms import Alarms
from ops.logs import AlarmLog, FileLog

POSTGRES = "2026-12-01 04:05:31.854 UTC [14423]"
VALKEY = "14305:M 01 Dec 2026 04:05:22.610"
CELERY = "[2026-12-01 04:05:31,736:"
FLOWER = "261201 04:05:32 inspector:98]"


def alarming(name: str, *lines: str) -> list[bool]:
    alarms = Alarms()
    return [alarms.is_alarming(name, line) for line in lines]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("postgres", f"{POSTGRES} FATAL:  data directory has wrong ownership"),
        ("postgres", f"{POSTGRES} WARNING:  there is no transaction in progress"),
        ("postgres", f"{POSTGRES} PANIC:  could not write"),
        ("valkey", f"{VALKEY} # Short read or OOM loading DB. Unrecoverable error, aborting now."),
        ("flower", f"[E {FLOWER} Uncaught exception"),
        ("flower", f"[W {FLOWER} Inspect method stats failed: Connection refused"),
        ("pipeline", f"{CELERY} WARNING/MainProcess] not listening, saves wait for the beats"),
        ("compute", f"{CELERY} ERROR/ForkPoolWorker-1] Task stats.compute raised"),
        ("beat", f"{CELERY} CRITICAL/MainProcess] beat raised exception"),
        ("beat", "Traceback (most recent call last):"),
    ],
)
def test_warnings_and_errors_are_alarms(name: str, line: str) -> None:
    assert alarming(name, line) == [True]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("postgres", f"{POSTGRES} LOG:  database system is ready to accept connections"),
        # Whoever asked has it: a reader that came too early, a save that broke a rule.
        ("postgres", f"{POSTGRES} ERROR:  there is no published snapshot of 2026-03-10"),
        ("valkey", f"{VALKEY} * Ready to accept connections unix"),
        (
            "valkey",
            f"{VALKEY} # WARNING Memory overcommit must be enabled! Without it, a background save may fail",
        ),
        ("valkey", f"{VALKEY} # Valkey is now ready to exit, bye bye..."),
        (
            "valkey",
            f"{VALKEY} # Redis version=7.0.15, bits=64, commit=00000000, modified=0, pid=1, just started",
        ),
        ("flower", f"[I {FLOWER} Visit me at http://127.0.0.1:5555"),
        ("flower", f"[W {FLOWER} Inspect method stats failed"),
        ("pipeline", f"{CELERY} INFO/MainProcess] pipeline@vm ready."),
        ("pipeline", " -------------- pipeline@vm v5.7.0 (collider)"),
    ],
)
def test_what_a_healthy_stack_says_is_none(name: str, line: str) -> None:
    assert alarming(name, line) == [False]


def test_what_belongs_to_an_alarm_is_one_until_the_next_line_with_a_level() -> None:
    assert alarming(
        "compute",
        f"{CELERY} INFO/MainProcess] compute@vm ready.",
        f"{CELERY} ERROR/ForkPoolWorker-1] Task stats.compute raised unexpected",
        "Traceback (most recent call last):",
        '  File "tasks/pipeline.py", line 1, in compute',
        f"{CELERY} INFO/MainProcess] Task stats.claim received",
        "worker: Warm shutdown (MainProcess)",
    ) == [False, True, True, True, False, False]
    assert alarming(
        "postgres",
        f"{POSTGRES} FATAL:  could not open a file",
        f"{POSTGRES} CONTEXT:  reading it",
        "\tfor the second time",
        f"{POSTGRES} LOG:  shutting down",
        f"{POSTGRES} DETAIL:  of that",
    ) == [True, True, True, False, False]


def test_processes_are_judged_apart() -> None:
    alarms = Alarms()
    assert alarms.is_alarming("compute", f"{CELERY} ERROR/ForkPoolWorker-1] raised")
    assert not alarms.is_alarming("pipeline", "a line of its own")
    assert alarms.is_alarming("compute", "ValueError: out of plates")


class Terminal:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def write(self, name: str, line: str) -> None:
        self.lines.append((name, line))


def test_the_file_has_everything_and_the_terminal_the_supervisor_and_the_alarms(tmp_path: Path) -> None:
    file, terminal = FileLog(tmp_path / "log"), Terminal()
    log = AlarmLog(file, terminal)
    log.write("stack", "started beat, process 7")
    log.write("beat", f"{CELERY} INFO/MainProcess] Sending due task")
    log.write("beat", f"{CELERY} WARNING/MainProcess] beat: lost its lock")
    file.close()
    assert terminal.lines == [
        ("stack", "started beat, process 7"),
        ("beat", f"{CELERY} WARNING/MainProcess] beat: lost its lock"),
    ]
    assert len(file.path.read_text().splitlines()) == 3


def test_the_file_is_private_and_bounded(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log", limit=1000)
    for number in range(100):
        log.write("beat", f"line {number}")
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["log", "log.1"]
    assert all(file.stat().st_size < 1100 for file in files)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    lines = (files[1].read_text() + files[0].read_text()).splitlines()
    first = int(lines[0].split()[-1])
    assert [int(line.split()[-1]) for line in lines] == list(range(first, 100))


def test_a_full_disk_stops_nobody() -> None:
    log = FileLog(Path("/dev/full"))
    log.write("beat", "one")
    log.write("beat", "two")
    log.close()


def test_a_log_whose_next_file_could_not_be_opened_once_goes_on(tmp_path, monkeypatch):
    log = FileLog(tmp_path / "log", limit=200)

    def fails():
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as once:
        once.setattr(log, "_open", fails)
        log.write("beat", "x" * 300)
    for number in range(50):
        log.write("beat", f"later {number}")

    log.close()
    files = [tmp_path / "log.1", tmp_path / "log"]
    assert "later 49" in "".join(file.read_text() for file in files)
    assert all(file.stat().st_size < 1000 for file in files)
