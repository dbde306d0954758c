"""Processor time of a stack that this process runs."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARTS = {
    "postgres": "postgres",
    "valkey": "valkey",
    "pipeline@": "pipeline worker",
    "compute@": "compute worker",
    "maintenance@": "maintenance worker",
    "flower": "flower",
    "beat": "beat",
}
"""What stands in a process's command, and what part of the stack it is."""


def seconds_by_part() -> dict[str, float]:
    """Return what the descendants of this process have used so far, by part of the stack."""
    used: defaultdict[str, float] = defaultdict(float)
    for pid, part in _descendants(os.getpid(), "other"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended, and counts with its parent
            # utime, stime, and what its ended children used: fields 14 to 17, counted after the name in brackets.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used[part] += sum(int(field) for field in fields[11:15]) / _TICKS
    return used


def _descendants(parent: int, part: str) -> Iterator[tuple[int, str]]:
    with suppress(FileNotFoundError, ProcessLookupError):
        threads = Path(f"/proc/{parent}/task").glob("*/children")
        for pid in [int(pid) for children in threads for pid in children.read_text().split()]:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            # A child of a part is of that part, whatever it calls itself.
            name = (
                part
                if part != "other"
                else next((one for mark, one in _PARTS.items() if mark in command), part)
            )
            yield pid, name
            yield from _descendants(pid, name)
