"""The supervisor, over small stand-in processes."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from core.processes import NotReady, Program, wait_until
from embedded.supervisor import Backoff, Part, Service, Step, Supervisor
from embedded.valkey import ValkeyServer
from ops.logs import ConsoleLog, FileLog

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30
READY = re.compile("^ready")
QUICKLY = Backoff(first=0.01)

POLITE = "trap 'echo asked; echo done; exit 0' TERM; echo ready $$; while :; do sleep 1000 & wait; done"
STUBBORN = "trap '' TERM; echo ready $$; while :; do sleep 1000 & wait; done"


class Lines:
    """A log that a test can wait on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = threading.Condition()

    def write(self, name: str, line: str) -> None:
        with self._news:
            self.lines.append(f"{name}: {line}")
            self._news.notify_all()

    async def seen(self, pattern: str, times: int = 1) -> list[re.Match[str]]:
        """Wait until `pattern` was written `times` times."""
        return await asyncio.to_thread(self._seen, pattern, times)

    def _seen(self, pattern: str, times: int) -> list[re.Match[str]]:
        with self._news:
            assert self._news.wait_for(lambda: len(self.found(pattern)) >= times, DEADLINE), self.lines
            return self.found(pattern)

    def found(self, pattern: str) -> list[re.Match[str]]:
        return [match for line in self.lines if (match := re.search(pattern, line))]


def shell(
    name: str,
    script: str,
    *,
    prepare: Callable[[], None] = lambda: None,
    backoff: Backoff = QUICKLY,
    **options: float,
) -> Service:
    program = Program(name, lambda: ("/bin/sh", "-c", script), READY, **options)
    return Service(program, prepare, backoff=backoff)


def supervise(parts: Sequence[Part], body: Callable[[Supervisor], Awaitable[None]], log: Lines) -> None:
    """Run `parts`, then `body`, then stop."""

    async def scenario() -> None:
        supervisor = Supervisor(parts, log)
        started = asyncio.Event()
        run = asyncio.ensure_future(supervisor.run(started.set))
        waiting = asyncio.ensure_future(started.wait())
        await asyncio.wait({run, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            if started.is_set():
                await body(supervisor)
        finally:
            supervisor.request_stop()
            await run

    asyncio.run(scenario())


async def nothing(_: Supervisor) -> None:
    return None


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_starts_in_order_with_steps_between_and_stops_in_reverse_order() -> None:
    log = Lines()
    step = Step("a step", lambda: log.write("step", "done"))
    supervise([shell("first", POLITE), step, shell("second", POLITE)], nothing, log)
    order = [
        line
        for line in log.lines
        if re.search(r"^(first|second): (ready|done)|^step", line) and not line.startswith("stack")
    ]
    assert [re.sub(r" \d+$", "", line) for line in order] == [
        "first: ready",
        "step: done",
        "second: ready",
        "second: done",
        "first: done",
    ]


def test_a_service_that_dies_is_started_again_after_a_growing_pause() -> None:
    log = Lines()

    async def kill_twice(_: Supervisor) -> None:
        for time in (1, 2):
            pid = int((await log.seen(r"^fragile: ready (\d+)", time))[-1][1])
            os.kill(pid, signal.SIGKILL)
            await log.seen("fragile is back", time)

    supervise([shell("fragile", POLITE)], kill_twice, log)
    assert [match[1] for match in log.found("fragile ended with SIGKILL; starting it again in (.*) s")] == [
        "0.01",
        "0.02",
    ]


def test_backoff_doubles_up_to_a_limit() -> None:
    backoff = Backoff(first=0.5, longest=30)
    assert [backoff.after(deaths) for deaths in (1, 2, 3, 7, 100)] == [0.5, 1, 2, 30, 30]


def test_a_failing_restart_is_tried_again() -> None:
    log = Lines()
    attempts: list[int] = []

    def prepare() -> None:
        attempts.append(1)
        if len(attempts) == 2:
            raise OSError("no room")

    async def kill_once(_: Supervisor) -> None:
        pid = int((await log.seen(r"^fragile: ready (\d+)"))[0][1])
        os.kill(pid, signal.SIGKILL)
        await log.seen("fragile is back")

    supervise([shell("fragile", POLITE, prepare=prepare)], kill_once, log)
    assert log.found("no room")
    assert len(attempts) == 3


def test_children_of_a_killed_service_are_killed_before_it_is_started_again() -> None:
    log = Lines()
    script = "sleep 1000 & echo child $!; echo ready $$; wait"

    async def kill_once(_: Supervisor) -> None:
        child = int((await log.seen(r"^pool: child (\d+)"))[0][1])
        pid = int((await log.seen(r"^pool: ready (\d+)"))[0][1])
        os.kill(pid, signal.SIGKILL)
        await log.seen("starting it again")
        assert gone(child) or await asyncio.to_thread(wait_until, lambda: gone(child), DEADLINE)

    supervise([shell("pool", script)], kill_once, log)
    leftovers = [int(match[1]) for match in log.found(r"child (\d+)")]
    assert wait_until(lambda: all(gone(pid) for pid in leftovers), DEADLINE)


def test_a_service_that_does_not_start_stops_what_was_started() -> None:
    log = Lines()
    with pytest.raises(NotReady, match="broken ended with status 3 while starting: no such thing"):
        supervise([shell("first", POLITE), shell("broken", "echo no such thing; exit 3")], nothing, log)
    assert log.found("^first: done")


def test_a_service_whose_program_is_missing_stops_what_was_started() -> None:
    log = Lines()
    missing = Service(Program("missing", lambda: ("/no/such/program",), re.compile("ready")))
    with pytest.raises(
        NotReady, match="missing can't be started: /no/such/program: No such file or directory"
    ):
        supervise([shell("first", POLITE), missing], nothing, log)
    assert log.found("^first: done")


def test_services_of_a_tuple_start_together_and_stop_one_by_one_in_reverse_order() -> None:
    log = Lines()
    supervise([(shell("first", POLITE), shell("second", POLITE))], nothing, log)
    written = [line for line in log.lines if line.startswith("stack: ")]
    assert [re.sub(r", process \d+", "", line) for line in written] == [
        "stack: started first",
        "stack: started second",
        "stack: stopping second",
        "stack: stopping first",
    ]


def test_one_of_a_tuple_that_does_not_start_stops_the_others() -> None:
    log = Lines()
    waiting = shell("waiting", "echo pid $$; exec sleep 1000")
    with pytest.raises(NotReady, match="broken ended with status 3"):
        supervise([(waiting, shell("broken", "exit 3"))], nothing, log)
    assert gone(int(log.found(r"waiting, process (\d+)")[0][1]))


def test_a_service_that_is_never_ready_is_killed() -> None:
    log = Lines()
    mute = shell("mute", "echo pid $$; exec sleep 1000", ready_timeout=0.2)
    with pytest.raises(NotReady, match=r"mute was not ready after 0\.2 s: pid"):
        supervise([mute], nothing, log)
    assert gone(int(log.found(r"pid (\d+)")[0][1]))


def test_readiness_by_asking_and_more_than_one_attempt() -> None:
    log = Lines()
    asked: list[int] = []

    def ready(pid: int) -> bool:
        asked.append(pid)
        return len(asked) > 2

    script = 'if [ -e "$0.ran" ]; then echo up; exec sleep 1000; fi; : > "$0.ran"; exit 1'
    marker = Path(os.environ.get("TMPDIR", "/tmp")) / f"attempt-{os.getpid()}"
    service = Service(
        Program("twice", lambda: ("/bin/sh", "-c", script, str(marker)), ready),
        start_attempts=2,
        backoff=QUICKLY,
    )
    try:
        supervise([service], nothing, log)
    finally:
        marker.with_suffix(".ran").unlink()
    assert log.found("twice ended with status 1 while starting")


def test_a_service_that_does_not_stop_in_time_is_killed() -> None:
    log = Lines()
    supervise([shell("stubborn", STUBBORN, stop_timeout=0.2)], nothing, log)
    assert log.found(r"stubborn did not end in 0\.2 s; killing it")
    assert gone(int(log.found(r"ready (\d+)")[0][1]))


def test_an_endless_line_is_left_out_and_the_log_goes_on() -> None:
    log = Lines()
    script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after; echo ready $$; exec sleep 1000"
    supervise([shell("talker", script)], nothing, log)
    assert log.found("left out")
    assert log.found("^talker: after$")


_PROGRAM = """
import re, sys
from core.processes import Program
from ops.logs import ConsoleLog
from embedded.supervisor import Service, StopRequested, running
from rich.console import Console

def shell(name, script):
    return Service(Program(name, lambda: ("/bin/sh", "-c", script), re.compile("^ready"), stop_timeout=600))

try:
    with running([shell("first", {first!r}), shell("second", {second!r})], ConsoleLog(Console())) as stack:
        print("up", flush=True)
        stack.wait()
except StopRequested as signal:
    print("ended by", signal, flush=True)
"""


def start_program(first: str, second: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", _PROGRAM.format(first=first, second=second)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(program: subprocess.Popen[str], text: str) -> str:
    assert program.stdout is not None
    lines = ""
    for line in program.stdout:
        lines += line
        if text in line:
            return lines
    raise AssertionError(f"ended without {text!r}: {lines}")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_in_reverse_order(stop: signal.Signals) -> None:
    program = start_program(POLITE, POLITE)
    read_until(program, "up")
    program.send_signal(stop)
    rest = program.communicate(timeout=DEADLINE)[0]
    assert rest.index("second    | done") < rest.index("first     | done")
    assert rest.rstrip().endswith(f"ended by {stop.name}")
    assert program.returncode == 0


def test_a_second_signal_kills() -> None:
    program = start_program(STUBBORN, STUBBORN)
    pids = [int(pid) for pid in re.findall(r"ready (\d+)", read_until(program, "up"))]
    program.send_signal(signal.SIGINT)
    read_until(program, "stopping second")
    program.send_signal(signal.SIGINT)
    assert "killing everything" in program.communicate(timeout=DEADLINE)[0]
    assert all(gone(pid) for pid in pids)


def test_a_signal_during_the_start_stops_what_was_started() -> None:
    program = start_program(POLITE, "exec sleep 1000")
    pid = int(re.findall(r"process (\d+)", read_until(program, "started second"))[-1])
    program.send_signal(signal.SIGINT)
    assert "first     | done" in program.communicate(timeout=DEADLINE)[0]
    assert gone(pid)


def test_children_die_when_the_supervisor_is_killed() -> None:
    program = start_program(POLITE, STUBBORN)
    pids = [int(pid) for pid in re.findall(r"ready (\d+)", read_until(program, "up"))]
    program.kill()
    assert wait_until(lambda: all(gone(pid) for pid in pids), DEADLINE)
    program.communicate(timeout=DEADLINE)


_PREFORK_APP = """
import os
from celery import Celery
from celery.signals import worker_process_init
from core.processes import die_with_parent
app = Celery(broker=os.environ["BROKER"])
worker_process_init.connect(lambda **_: die_with_parent(), weak=False)
"""


def test_pool_children_die_with_a_killed_celery_worker(tmp_path: Path) -> None:
    (tmp_path / "prefork_app.py").write_text(_PREFORK_APP)
    with ValkeyServer() as server:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "prefork_app", "worker", "-c", "2", "--loglevel=INFO"],
            env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "BROKER": server.broker_url, "TMPDIR": str(tmp_path)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            read_until(worker, " ready.")
            family = psutil.Process(worker.pid).children(recursive=True)
            assert len(family) == 2
        finally:
            worker.kill()
        assert wait_until(lambda: all(gone(child.pid) for child in family), DEADLINE)
        worker.communicate(timeout=DEADLINE)


def test_console_log_has_a_colour_per_process_unless_told_otherwise() -> None:
    def written(**options: object) -> str:
        out = io.StringIO()
        log = ConsoleLog(Console(file=out, force_terminal=True, **options), ["pipeline", "beat"])
        log.write("beat", "a [line] of \N{SNOWMAN}")
        return out.getvalue()

    assert "\x1b[" in written(color_system="standard")
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d beat     \| a \[line\] of \N{SNOWMAN}\n", written(no_color=True, color_system=None)
    )


def test_file_log_shows_its_end(tmp_path: Path) -> None:
    log = FileLog(tmp_path / "log")
    for number in range(50):
        log.write("beat", str(number))
    assert [line.split("| ")[1] for line in log.tail(2).splitlines()] == ["48", "49"]
    log.close()
