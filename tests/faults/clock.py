"""The wall clock of Postgres, the workers and the beats, as libfaketime shows it to them. Their timers run on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class Clock:
    """A file that every process started with `environment` follows within a second."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._folder = folder
        self.step(0)

    def step(self, seconds: int) -> None:
        """Set the clock to the real time plus `seconds`."""
        unfinished = self._folder / "clock.new"
        unfinished.write_text(f"{seconds:+d}\n")
        unfinished.chmod(0o644)
        unfinished.rename(self._file)

    def environment(self) -> Mapping[str, str]:
        """Return what a process needs to follow the clock; nothing where libfaketime is not installed."""
        library = find_library()
        if library is None:
            return {}
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Processes of other users and of other starts share nothing but the file.
            "FAKETIME_DISABLE_SHM": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": str(Path(__file__).with_name("faketime")),
        }


def find_library() -> Path | None:
    """Return libfaketime for programs with threads; None where Debian's package `libfaketime` is not installed."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
