"""How fast and how large an import is: `python -m bench.import_file [ROWS ...]`, on a Postgres of its own.

Each size runs in a process of its own, so that its peak is its own, and imports a small file before, so that what
is loaded only once is loaded. Rows per second are those of the whole import, reading and saving; memory is what the
process has more at its peak than before it opens the file. It is flat where the largest file takes hardly more than
the smallest.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from bench.report import Measured, print_report
from embedded.postgres import PostgresServer
from importers.formats import read_history
from importers.saving import import_history
from sql.migrate import migrate

SIZES = (25_000, 100_000)
SMALL = 1_000
SETS_A_SESSION = 20
MIB = 2**20
MORE_MIB = 4
"""Caches that fill up to a limit of their own; 75,000 rows in memory would take fifty."""
COLUMNS = (
    "Date", "Workout Name", "Duration", "Exercise Name", "Set Order", "Weight", "Reps", "Distance", "Seconds",
    "Notes", "Workout Notes", "RPE",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One file's import: its size, rows a second, and memory."""

    rows: int
    mib: float
    rows_per_second: float
    reading: float
    saving: float
    peak_mib: float


def write_strong_file(path: Path, rows: int) -> None:
    """Write a made-up Strong export: sessions of five exercises with four sets, one every second day."""
    first = datetime(2026, 1, 1, 18, 30) - timedelta(days=2 * (rows // SETS_A_SESSION))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in range(rows):
            session, place = divmod(row, SETS_A_SESSION)
            block, number = divmod(place, 4)
            start = (first + timedelta(days=2 * session)).isoformat(sep=" ")
            weight = 40 + 2.5 * ((session + block) % 40)
            exercise = f"Exercise {(session + block * 7) % 120}"
            writer.writerow(
                [
                    start,
                    f"Day {session % 3}",
                    "1h 5m",
                    exercise,
                    number + 1,
                    weight,
                    5 + number,
                    0,
                    0,
                    "",
                    "",
                    "",
                ]
            )


def measure(rows: int, database_url: str) -> Result:
    """Import a file of `rows` rows into a new account."""
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder) / "small.csv", Path(folder) / "strong.csv"
        write_strong_file(small, SMALL)
        write_strong_file(path, rows)
        size = path.stat().st_size
        engine = create_engine(database_url, pool_size=2, max_overflow=0)
        import_history(engine, uuid4(), "strong", read_history(small, "strong", "kg"))
        _forget_peak()
        before = _peak_mib()
        started = time.perf_counter()
        history = read_history(path, "strong", "kg")
        read = time.perf_counter()
        report = import_history(engine, uuid4(), "strong", history)
        ended = time.perf_counter()
        peak = _peak_mib() - before
        engine.dispose()
    if report.sets_taken != rows:
        raise RuntimeError(f"{report.sets_taken} of {rows} rows were taken")
    return Result(
        rows=rows,
        mib=size / MIB,
        rows_per_second=rows / (ended - started),
        reading=rows / (read - started),
        saving=rows / (ended - read),
        peak_mib=peak,
    )


def _forget_peak() -> None:
    # What a process inherits of its parent counts as getrusage's peak, and loading modules as the kernel's.
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) / 1024


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure files of as many rows as `arguments` say."""
    sizes = [int(argument) for argument in arguments] or SIZES
    with PostgresServer() as server:
        migrate(create_engine(server.url(), poolclass=NullPool))
        taken = [_in_a_process(rows, server.url()) for rows in sizes]
    return [*chain.from_iterable(map(_measured, taken)), *_compared(taken)]


def _measured(taken: Result) -> list[Measured]:
    file = f"Strong file of {taken.rows:,} rows"
    return [
        Measured(f"{file}: size", taken.mib, "MiB"),
        Measured(f"{file}: import", taken.rows_per_second, "rows/s", at_least=1000),
        Measured(f"{file}: reading alone", taken.reading, "rows/s"),
        Measured(f"{file}: saving alone", taken.saving, "rows/s"),
        Measured(f"{file}: memory at the peak, over the start", taken.peak_mib, "MiB"),
    ]


def _compared(taken: Sequence[Result]) -> list[Measured]:
    smallest = min(taken, key=lambda result: result.rows)
    largest = max(taken, key=lambda result: result.rows)
    if smallest.rows == largest.rows:
        return []
    name = f"memory of {largest.rows:,} rows over that of {smallest.rows:,}"
    return [Measured(name, largest.peak_mib - smallest.peak_mib, "MiB", bar=MORE_MIB)]


def _in_a_process(rows: int, database_url: str) -> Result:
    command = [sys.executable, "-m", "bench.import_file", "--in", database_url, str(rows)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Result(**json.loads(done.stdout))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in"]:
        sys.stdout.write(json.dumps(asdict(measure(int(sys.argv[3]), sys.argv[2]))))
    else:
        print_report("importing a file", run(sys.argv[1:]))
