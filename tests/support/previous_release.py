"""The code of the release before the newest step of the schema, from the git history."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STEPS = "sql/migrations/versions"


@cache
def previous_release() -> Path:
    """Return a code tree of the release before. It goes with the process."""
    tree = tempfile.TemporaryDirectory(prefix="previous-release-")
    _trees.append(tree)
    newest = _git("log", "-1", "--diff-filter=A", "--format=%H", "--", _STEPS).decode().strip()
    packed = _git("archive", f"{newest}^")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tree.name, filter="data")
    return Path(tree.name)


def no_history() -> str | None:
    """Say why there is no release before; None: there is one."""
    try:
        found = _git("log", "-1", "--diff-filter=A", "--format=%P", "--", _STEPS)
    except (OSError, subprocess.CalledProcessError):
        return "there is no git history here"
    if re.match(rb"[0-9a-f]{40}", found):
        return None
    return "the git history does not reach back to a release before"


_trees: list[tempfile.TemporaryDirectory[str]] = []


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout
