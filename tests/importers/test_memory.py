"""Memory that does not grow with a file's rows, whatever the format, and whatever becomes of the rows."""

from __future__ import annotations

import csv
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pytest

from importers import fitbod, fitnotes, hevy, strong
from importers.formats import read_with_source
from importers.history import ParsedHistory
from importers.saving import import_history
from ops.import_report import report_lines

ROWS = 1_000
TIMES = 8
KIB = 2**10
# A file's buffers are full only with the larger one. A row that stays in memory takes several hundred bytes, so
# this many rows would take megabytes.
NOISE = 256 * KIB

STRONG = "Date,Workout Name,Duration,Exercise Name,Set Order,Weight,Reps,Notes"
HEVY = "title,start_time,end_time,exercise_title,set_index,set_type,weight_kg,reps"
FITBOD = "Date,Exercise,Reps,Weight(kg),Duration(s),Distance(m),Incline,Resistance,isWarmup,Note,multiplier"
FITNOTES = "Date,Exercise,Category,Weight (kgs),Reps,Distance,Distance Unit,Time"

Write = Callable[[Path, int], None]


def write_strong(path: Path, rows: int) -> None:
    """Of every ten rows one is broken and one has a duration that gets a remark, each in its own words."""
    write(path, STRONG, (
        [f"{at(n)}", "Push", f"{n} fortnights" if n % 10 == 0 else "1h", f"Exercise {n % 50}", n % 4 + 1, 40 + n % 60,
         f"{n}.5" if n % 10 == 1 else 8, "slow"]
        for n in range(rows)
    ))  # fmt: skip


def write_scattered_strong(path: Path, rows: int) -> None:
    """The rows of a session stand as far apart as the file allows."""
    write(path, STRONG, (
        [f"{at(n % (rows // 10) * 10)}", "Push", "1h", f"Exercise {n % 50}", 1, 60, 8, ""] for n in range(rows)
    ))  # fmt: skip


def write_hevy(path: Path, rows: int) -> None:
    """Every row is a session of its own, with an end that is too late."""
    starts = [at(10 * n) for n in range(rows)]
    write(path, HEVY, (
        ["Push", f"{start:%d %b %Y, %H:%M}", f"{start + timedelta(days=9):%d %b %Y, %H:%M}", f"Exercise {n % 50}",
         n % 4, "normal", 40 + n % 60, 8]
        for n, start in enumerate(starts)
    ))  # fmt: skip


def write_fitnotes(path: Path, rows: int) -> None:
    """Every tenth row is too short."""
    write(path, FITNOTES, (
        [f"{at(n):%Y-%m-%d}", f"Exercise {n % 50}", "Chest", 40 + n % 60, 8, "", "", ""][: 5 if n % 10 == 0 else 8]
        for n in range(rows)
    ))  # fmt: skip


def write_fitbod(path: Path, rows: int) -> None:
    """Every set has a time of its own, and every tenth row is too short."""
    write(path, FITBOD, (
        [f"{at(n) + timedelta(minutes=n % 10)} +0000", f"Exercise {n % 50}", 8, 40 + n % 60, 0, 0, 0, 0, "false", "",
         1][: 5 if n % 10 == 0 else 11]
        for n in range(rows)
    ))  # fmt: skip


def write_own(path: Path, rows: int) -> None:
    """Every set has a time of its own, an eighth a weight that can't be, and one a mark that nobody knows."""
    write(path, "when,lift,load,times,kind", (
        [f"{at(n) + timedelta(minutes=n % 10):%d %b %Y %H:%M}", f"Exercise {n % 50}", 700 if n % 8 == 0 else 60, 8,
         f"Mark {n}" if n % 10 == 1 else 1]
        for n in range(rows)
    ))  # fmt: skip


def parse_own(path: Path, unit: str) -> ParsedHistory:
    return read_with_source(
        path, "csv", unit, "date=when,exercise=lift,weight=load,reps=times,set_type=kind"
    )[1]


def write(path: Path, columns: str, rows: Iterator[list[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(chain([columns.split(",")], rows))


def at(row: int) -> datetime:
    """The start of the session that the row belongs to: ten rows a session, a session every twelve hours."""
    return datetime(2000, 1, 1, 6, 30) + timedelta(hours=12 * (row // 10))


def peak_of(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("parse", "write_file"),
    [
        (strong.parse, write_strong),
        (strong.parse, write_scattered_strong),
        (hevy.parse, write_hevy),
        (fitnotes.parse, write_fitnotes),
        (fitbod.parse, write_fitbod),
        (parse_own, write_own),
    ],
    ids=["strong", "scattered", "hevy", "fitnotes", "fitbod", "csv"],
)
def test_reading_takes_no_more_memory_for_more_rows(tmp_path, parse, write_file: Write):
    def read(file: Path) -> None:
        history = parse(file, "kg")
        assert sum(1 for session in history.sessions for _ in session.sets()) >= 0.8 * history.data_rows

    few, many = tmp_path / "few.csv", tmp_path / "many.csv"
    write_file(few, ROWS)
    write_file(many, TIMES * ROWS)
    read(few)  # what is loaded only once
    assert peak_of(lambda: read(many)) - peak_of(lambda: read(few)) < NOISE


def test_a_report_of_many_skipped_rows_takes_no_more_memory(database, tmp_path):
    """All that is there already is skipped, and all of it is named."""

    def imported_again(rows: int) -> Callable[[], None]:
        file, user = tmp_path / f"{rows}.csv", uuid4()
        write_strong(file, rows)
        history = strong.parse(file, "kg")
        import_history(database.engine, user, "strong", history)

        def again() -> None:
            report = import_history(database.engine, user, "strong", history)
            assert len(report.skipped) == report.data_rows == rows
            assert sum(1 for _ in report_lines(report)) >= rows // 10

        return again

    few, many = imported_again(ROWS), imported_again(TIMES * ROWS)
    few()
    assert peak_of(many) - peak_of(few) < NOISE


IMPORT_FILES = """
import sys
from pathlib import Path
from uuid import uuid4
from ops.importing import import_file

def peak():
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))

def peak_of(file):
    # What a process inherits of its parent counts as getrusage's peak, and loading modules as the kernel's.
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    import_file(Path(file), "strong", "kg", uuid4(), "UTC", url)
    return peak() - before

url, small, few, many = sys.argv[1:]
peak_of(small)
sys.stderr.write(f"{peak_of(few)} {peak_of(many)}")
"""


def test_the_whole_command_takes_no_more_memory_for_more_rows(database, tmp_path):
    sizes = (ROWS, 2 * ROWS, 2 * TIMES * ROWS)
    files = [tmp_path / f"{rows}.csv" for rows in sizes]
    for file, rows in zip(files, sizes, strict=True):
        write_strong(file, rows)
    command = [sys.executable, "-c", IMPORT_FILES, database.url, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    few, many = map(int, done.stderr.split())
    # SQLite's caches and the allocator's reserves fill up to a limit of their own.
    assert (many - few) * KIB < 4 * KIB * KIB
