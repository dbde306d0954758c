"""The folder of STATS_REFRESH_DATA_DIR, in which a stack keeps its data."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ops.errors import OperatorError

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
        yield path
    finally:
        os.close(lock)


def _make(path: Path) -> None:
    if not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o711)  # as root, the user that runs Postgres has to get through
    with tempfile.TemporaryFile(dir=path):
        pass  # it can be written


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OperatorError(
            f"another stack uses {path}: stop it or choose another STATS_REFRESH_DATA_DIR"
        ) from error
