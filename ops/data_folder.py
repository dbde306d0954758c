"""The folder of STATS_REFRESH_DATA_DIR, in which a stack keeps its data."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.errors import OperatorError
from embedded.run_folder import make_folder

_LONGEST_PATH = 900
"""Bytes. Postgres takes 1023, its own files in the folder included."""


@contextmanager
def kept_folder(path: Path) -> Iterator[Path]:
    """Yield the folder `path`, made where it was missing, and locked against a second stack.

    Raises OperatorError where it can't hold data; nothing has been started yet.
    """
    path = path.absolute()
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise OperatorError(
            f"STATS_REFRESH_DATA_DIR: its path has more than {_LONGEST_PATH} bytes, choose a shorter one"
        )
    try:
        _make(path)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise OperatorError(
            f"STATS_REFRESH_DATA_DIR: {path} can't hold data ({error.strerror}): choose a folder that you may "
            "write, or unset it for a temporary one"
        ) from error
    try:
        _lock(lock, path)
        _close_to_others(path)
        yield path
    finally:
        os.close(lock)


def _make(path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make_folder(path, passable=True)
    with tempfile.TemporaryFile(dir=path):
        pass  # it can be written


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OperatorError(
            f"another stack uses {path}: stop it or choose another STATS_REFRESH_DATA_DIR"
        ) from error


def _close_to_others(path: Path) -> None:
    """Take from everybody else what an earlier release left open; new files are private from the start."""
    ours = [*path.glob("flower*"), *path.glob("stack.log*"), path / "valkey", *(path / "valkey").rglob("*")]
    for one in ours:
        found = one.lstat() if one.exists() else None
        if found is not None and not stat.S_ISLNK(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077:
            one.chmod(stat.S_IMODE(found.st_mode) & 0o700)
