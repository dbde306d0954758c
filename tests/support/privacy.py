"""Which files of a stack others than its owner get at."""

from __future__ import annotations

import pwd
import stat
from pathlib import Path


def open_to_others(folder: Path) -> list[str]:
    """Return what is under `folder`, and itself, that a group or others may read, write, enter or connect to.

    The way to the folders of Postgres' own user, which its group may pass and not list, is none of it.
    """
    found = []
    for path in [folder, *folder.rglob("*")]:
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue  # gone since
        mode = stat.S_IMODE(status.st_mode)
        way_for_postgres = (
            stat.S_ISDIR(status.st_mode) and mode == 0o710 and status.st_gid == pwd.getpwnam("nobody").pw_gid
        )
        if not stat.S_ISLNK(status.st_mode) and mode & 0o077 and not way_for_postgres:
            found.append(f"{mode:o} {path}")
    return found
