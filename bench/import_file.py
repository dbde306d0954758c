"""How fast and how large an import is: `python -m bench.import_file [ROWS ...]`, on a Postgres of its own.

Each size runs in a process of its own, so that its peak is its own. Rows per second are those of the whole
import, reading and saving; memory is what the process has more at its peak than before it opens the file.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from bench.report import Measured, print_report
from ops.embedded.postgres import PostgresServer
from ops.importing import import_history, read_history
from sql.migrate import migrate

SIZES = (25_000, 100_000)
SETS_A_SESSION = 20
MIB = 2**20
COLUMNS = (
    "Date", "Workout Name", "Duration", "Exercise Name", "Set Order", "Weight", "Reps", "Distance", "Seconds",
    "Notes", "Workout Notes", "RPE",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One file's import: its size, rows a second, and memory."""

    mib: float
    rows_per_second: float
    reading: float
    saving: float
    peak_mib: float
    python_mib: float


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
        path = Path(folder) / "strong.csv"
        write_strong_file(path, rows)
        size = path.stat().st_size
        before = _peak_mib()
        started = time.perf_counter()
        history = read_history(path, "strong", "kg")
        read = time.perf_counter()
        engine = create_engine(database_url, pool_size=1, max_overflow=0)
        report = import_history(engine, uuid4(), "strong", history)
        ended = time.perf_counter()
        peak = _peak_mib() - before
        engine.dispose()
        del history
        traced = _traced_mib(path)
    if report.sets_taken != rows:
        raise RuntimeError(f"{report.sets_taken} of {rows} rows were taken")
    return Result(
        mib=size / MIB,
        rows_per_second=rows / (ended - started),
        reading=rows / (read - started),
        saving=rows / (ended - read),
        peak_mib=peak,
        python_mib=traced,
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _traced_mib(path: Path) -> float:
    tracemalloc.start()
    read_history(path, "strong", "kg")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / MIB


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure files of as many rows as `arguments` say."""
    measured = []
    with PostgresServer() as server:
        migrate(create_engine(server.url(), poolclass=NullPool))
        for rows in [int(argument) for argument in arguments] or SIZES:
            taken = _in_a_process(rows, server.url())
            file = f"Strong file of {rows:,} rows"
            measured += [
                Measured(f"{file}: size", taken.mib, "MiB"),
                Measured(f"{file}: import", taken.rows_per_second, "rows/s", at_least=1000),
                Measured(f"{file}: reading alone", taken.reading, "rows/s"),
                Measured(f"{file}: saving alone", taken.saving, "rows/s"),
                Measured(f"{file}: memory at the peak, over the start", taken.peak_mib, "MiB"),
                Measured(f"{file}: Python's own peak while reading", taken.python_mib, "MiB"),
            ]
    return measured


def _in_a_process(rows: int, database_url: str) -> Result:
    command = [sys.executable, "-m", "bench.import_file", "--in", database_url, str(rows)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Result(**json.loads(done.stdout))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in"]:
        sys.stdout.write(json.dumps(asdict(measure(int(sys.argv[3]), sys.argv[2]))))
    else:
        print_report("importing a file", run(sys.argv[1:]))
