"""How fast and how large an import is: `python -m bench.import_file [ROWS ...]`, on a Postgres of its own.

Each size runs in a process of its own, so that its peak is its own. Rows per second are those of the whole
import, reading and saving; memory is what the process has more at its peak than before it opens the file.
"""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from sqlalchemy import create_engine

from ops.embedded.postgres import PostgresServer
from ops.importing import import_history, read_history
from sql.migrate import migrate

SIZES = (25_000, 100_000)
SETS_A_SESSION = 20
COLUMNS = (
    "Date", "Workout Name", "Duration", "Exercise Name", "Set Order", "Weight", "Reps", "Distance", "Seconds",
    "Notes", "Workout Notes", "RPE",
)  # fmt: skip


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


def measure(rows: int, database_url: str) -> str:
    """Import a file of `rows` rows into a new account and return the figures as a line."""
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
    return (
        f"{rows} rows ({size / 2**20:.1f} MiB): {rows / (ended - started):.0f} rows/s "
        f"(reading {rows / (read - started):.0f}, saving {rows / (ended - read):.0f}); "
        f"memory +{peak:.0f} MiB RSS, Python's own peak while reading {traced:.0f} MiB"
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _traced_mib(path: Path) -> float:
    tracemalloc.start()
    read_history(path, "strong", "kg")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def main() -> None:
    """Measure each size."""
    if len(sys.argv) == 4 and sys.argv[1] == "--in":
        sys.stdout.write(measure(int(sys.argv[3]), sys.argv[2]) + "\n")
        return
    server = PostgresServer()
    server.start()
    try:
        migrate(create_engine(server.url()))
        for rows in [int(argument) for argument in sys.argv[1:]] or SIZES:
            subprocess.run(
                [sys.executable, "-m", "bench.import_file", "--in", server.url(), str(rows)], check=True
            )
    finally:
        server.stop()


if __name__ == "__main__":
    main()
