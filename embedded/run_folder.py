"""A short-lived folder for sockets, process files and data that nobody asked to keep.

Every folder lies in one folder per user under the system's temporary folder, is locked by its owner for as
long as that process lives (so a process id that was used again can't be mistaken for it), and is removed at
the end. What a killed owner left behind is removed by whoever comes next.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from core.errors import OperatorError
from core.processes import RunAs, can_enter, unprivileged_user

# A socket's path has room for 107 bytes; what we put below the temporary folder takes about 45.
_LONGEST_TEMPORARY_FOLDER = 60


class RunFolder:
    """A folder that lives as long as its owner; make one with `create`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls) -> RunFolder:
        """Make and lock a new folder; remove those whose owner is gone."""
        with _locked_home() as home:
            _remove_abandoned(home)
            path = home / secrets.token_hex(4)
            make_folder(path, passable=True)
            lock = _try_lock(path)
            if lock is None:
                raise RuntimeError(f"{path} was locked by somebody else right after it was made")
            return cls(path, lock)

    def subfolder(self, name: str, *, owner: RunAs | None = None, shared: bool = False) -> Path:
        """Return the folder `name` in it, for `owner` alone; with `shared`, Postgres' user may pass through."""
        path = self.path / name
        if not path.exists():
            make_folder(path, passable=shared)
            if owner is not None:
                os.chown(path, owner.uid, owner.gid)
        return path

    def remove(self) -> None:
        """Remove the folder and, when it was the last one, the user's folder around it."""
        if self._lock < 0:
            return
        with _locked_home() as home:
            shutil.rmtree(self.path)
            os.close(self._lock)
            self._lock = -1
            with suppress(OSError):  # other folders are still in it
                home.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def live_run_folders() -> list[Path]:
    """Return the folders of this user whose owner still lives; remove the others."""
    with _locked_home() as home:
        _remove_abandoned(home)
        live = sorted(path for path in home.iterdir() if path.is_dir())
        with suppress(OSError):  # live folders are in it
            home.rmdir()
        return live


def temporary_root() -> Path:
    """Return the system's temporary folder, or /tmp where that is of no use for a server's socket."""
    root = Path(tempfile.gettempdir())
    # A comma separates hosts for libpq.
    unfit_for_sockets = len(os.fsencode(root)) > _LONGEST_TEMPORARY_FOLDER or "," in str(root)
    return Path("/tmp") if unfit_for_sockets or not can_enter(root, unprivileged_user()) else root


def make_folder(path: Path, *, passable: bool) -> None:
    """Make the folder `path` for us alone; with `passable`, the user that runs Postgres gets through it too.

    As root that is another user, who has to reach its own folder in there, but needs no listing. Nobody else gets in:
    the way is open to that user's group, not to all.
    """
    path.mkdir(mode=0o700)
    run_as = unprivileged_user()
    if passable and run_as is not None:
        os.chown(path, -1, run_as.gid)
        path.chmod(0o710)


def write_private(path: Path, text: str, *, owner: RunAs | None = None) -> None:
    """Write all of `text` at once, for `owner` (None: us) alone: a reader sees a complete file or the one before."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    # Exclusively: in a folder of another user's, the name may lead somewhere by now.
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        if owner is not None:
            os.fchown(descriptor, owner.uid, owner.gid)
        file.write(text)
    unfinished.rename(path)


@contextmanager
def _locked_home() -> Iterator[Path]:
    """Yield the user's folder, locked: making, listing and removing never overlap."""
    home = temporary_root() / f"stats-refresh-{os.geteuid()}"
    while True:
        with suppress(FileExistsError):
            make_folder(home, passable=True)
        try:
            lock = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # removed since by a stack that was the last one
        except OSError as error:
            raise OperatorError(f"{home} can't be used ({error.strerror}); remove it") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _refuse_foreign(home, os.fstat(lock))
            if _is_same_folder(lock, home):
                yield home
                return
        finally:
            os.close(lock)


def _is_same_folder(lock: int, home: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), home.stat())
    except FileNotFoundError:
        return False


def _refuse_foreign(home: Path, found: os.stat_result) -> None:
    # The name is known to everybody: somebody else may have made it first, to read or change what we put
    # there.
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise OperatorError(f"{home} belongs to somebody else or is open to others; remove it")


def _remove_abandoned(home: Path) -> None:
    for path in home.iterdir():
        lock = _try_lock(path)
        if lock is not None:
            # A server that just lost its owner may still be writing its last files; the next one removes
            # the rest.
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _try_lock(path: Path) -> int | None:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
