"""The main job as a newcomer types it: `stats-refresh demo`, on real input, on a stack of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"


def demo(*options: str) -> str:
    """Run the demo and return what it printed; fails where it did not exit with 0."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STATS_REFRESH_")}
    done = subprocess.run(
        [sys.executable, "-m", "ops.cli", "demo", *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_main_job(printed: str, sessions: int, rows: int) -> None:
    assert re.match(
        "Postgres: an embedded one; Redis: an embedded one; "
        r"writes the demo account [0-9a-f-]{36}, which goes with them\n",
        printed,
    )
    assert f"{sessions} sessions saved, 0 already there" in printed
    taken, skipped, all_rows = map(
        int, re.search(r"(\d+) sets taken \+ (\d+) rows skipped = (\d+) data rows", printed).groups()
    )
    assert taken + skipped == all_rows == rows
    assert re.search(r"requested = applied = \d+", printed)
    milliseconds = float(re.search(r"save -> published: ([\d.]+) ms", printed)[1])
    assert 0 < milliseconds < 60_000
    assert "PR board of" in printed


def test_a_made_up_history():
    assert_main_job(demo(), sessions=300, rows=6445)


@pytest.mark.parametrize(
    ("name", "sessions", "rows"),
    [("strong-kg-de-10months.csv", 129, 2078), ("strong-kg-olympic-lifting.csv", 86, 1903)],
)
def test_a_real_export(name, sessions, rows):
    if not (DATA / name).exists():
        pytest.skip("the real exports lie in ../shared/data, which is not here")
    printed = demo("--file", str(DATA / name), "--unit", "kg")
    assert_main_job(printed, sessions, rows)
    assert "Bench Press (Barbell)" in printed
