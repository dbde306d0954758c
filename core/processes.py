"""Processes that die with their owner, run as an ordinary user, and are waited for with a deadline."""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

# Loaded here, not between fork and exec, where only the bare system call is safe.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def die_with_parent(death_signal: int = signal.SIGKILL, *, parent: int | None = None) -> None:
    """Ask the kernel to send `death_signal` to the calling process when its parent is gone.

    Call it in the child. The kernel ties this to the parent's *thread* that forked: that thread has to live
    as long as the child should. With `parent`, the process id that forked, a parent that died before this
    call counts too. Does nothing where the system has no such call.
    """
    if _libc is None:
        return
    _libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), death_signal)


@dataclass(frozen=True)
class RunAs:
    """A user that a process drops to before it starts."""

    name: str
    uid: int
    gid: int


@cache
def unprivileged_user() -> RunAs | None:
    """Return who runs a server that refuses to run as root; None where we are an ordinary user already."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return RunAs(nobody.pw_name, nobody.pw_uid, nobody.pw_gid)


def popen_options(
    run_as: RunAs | None, *, death_signal: int | None = None, own_session: bool = False
) -> dict[str, Any]:
    """Return options for `subprocess.Popen`: the child runs as `run_as` and dies with this thread.

    What it writes is its user's alone, whatever umask the shell has that started us.
    """
    options: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "start_new_session": own_session,
        "umask": 0o077,
    }
    if run_as is not None:
        options |= {"user": run_as.uid, "group": run_as.gid, "extra_groups": []}
    if death_signal is not None:
        parent = os.getpid()
        # After the change of user, which would clear the request.
        options["preexec_fn"] = lambda: die_with_parent(death_signal, parent=parent)
    return options


def spawn(
    argv: Sequence[str | Path], *, output: IO[bytes], run_as: RunAs | None, death_signal: int
) -> subprocess.Popen[bytes]:
    """Start `argv` in its own session; it gets `death_signal` when the calling thread or process ends."""
    # The working directory may be one that `run_as` can't enter.
    return subprocess.Popen(
        argv,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd="/",
        **popen_options(run_as, death_signal=death_signal, own_session=True),
    )


def can_enter(folder: Path, run_as: RunAs | None) -> bool:
    """Tell whether `run_as` gets into `folder`: the kernel knows more than the mode bits."""
    return _succeeds(["/bin/sh", "-c", 'cd -- "$1"', "sh", folder], run_as)


def can_execute(binary: Path, run_as: RunAs | None) -> bool:
    """Tell whether `run_as` can start `binary --version`, shared libraries included."""
    return _succeeds([binary, "--version"], run_as)


def _succeeds(argv: Sequence[str | Path], run_as: RunAs | None) -> bool:
    try:
        answer = subprocess.run(argv, check=False, capture_output=True, cwd="/", **popen_options(run_as))
    except PermissionError:
        return False
    return bool(answer.returncode == 0)


def wait_until(
    condition: Callable[[], bool],
    timeout: float,
    *,
    interval: float = 0.02,
    cancelled: threading.Event | None = None,
) -> bool:
    """Ask `condition` until it holds; return False when `timeout` seconds are over or `cancelled` is set.

    The only place that polls: for what can't be waited on, such as a server that becomes ready.
    """
    cancelled = cancelled or threading.Event()
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline or cancelled.wait(interval):
            return False
    return True


def describe_exit(returncode: int) -> str:
    """Return how a process ended, for a log line: ``status 1`` or ``SIGKILL``."""
    return f"status {returncode}" if returncode >= 0 else signal.Signals(-returncode).name
