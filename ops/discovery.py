"""How a command in another terminal finds the stack that `stats-refresh up` runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from core.config import config
from core.errors import OperatorError
from embedded.run_folder import RunFolder, live_run_folders, write_private

_FILE_NAME = "stack.json"


@dataclass(frozen=True)
class StackUrls:
    """Where the servers of a stack are."""

    database_url: str
    """For workers and commands."""
    admin_url: str
    """For migrations, which create roles; the same as `database_url` on a server that is not ours."""
    redis_url: str | None
    """None where a command was only told the database."""


@dataclass(frozen=True)
class RunningStack:
    """A stack that `up` runs, and the process that runs it."""

    pid: int
    urls: StackUrls


def connection_urls() -> StackUrls:
    """Return the configured URLs, else those of the one stack that this user runs here."""
    configured = config()
    if configured.database_url is not None:
        return StackUrls(configured.database_url, configured.database_url, configured.redis_url)
    if configured.redis_url is not None:
        # The database of a stack that runs here beside somebody else's Redis would be nobody's wish.
        raise OperatorError("STATS_REFRESH_REDIS_URL is set: set STATS_REFRESH_DATABASE_URL too, or neither")
    stacks = running_stacks()
    if len(stacks) == 1:
        return stacks[0].urls
    if not stacks:
        raise OperatorError(
            "no stack is running here: start one with `make up`, or set STATS_REFRESH_DATABASE_URL"
        )
    found = "; ".join(f"process {stack.pid}: {shown_url(stack.urls.database_url)}" for stack in stacks)
    raise OperatorError(
        f"{len(stacks)} stacks are running, set STATS_REFRESH_DATABASE_URL to one of them ({found})"
    )


def running_stacks() -> list[RunningStack]:
    """Return the stacks that this user runs with `up`."""
    stacks = []
    for folder in live_run_folders():
        try:
            state = json.loads((folder / _FILE_NAME).read_text())
        except FileNotFoundError:
            continue  # a server without a stack, or a stack that is still starting
        stacks.append(RunningStack(int(state["pid"]), StackUrls(**state["urls"])))
    return stacks


def shown_url(url: str) -> str:
    """Return a database's or Redis's URL for a person: its password and our driver are nobody's business."""
    url = re.sub(r"^postgresql\+\w+", "postgresql", url)
    url = re.sub(r"(://[^:@/]*):[^@/]*@", r"\1:***@", url)
    return re.sub(r"(password=)[^&]*", r"\1***", url)


@contextmanager
def announced(urls: StackUrls, folder: RunFolder) -> Iterator[None]:
    """Let other commands of this user find the stack for as long as the body runs."""
    path = folder.path / _FILE_NAME
    write_private(path, json.dumps({"pid": os.getpid(), "urls": asdict(urls)}))
    try:
        yield
    finally:
        path.unlink()
