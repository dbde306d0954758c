"""Whatever a file holds, in any format: each data row is a set of one session or skipped, and read as printed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import OperatorError
from importers.formats import read_with_source
from importers.history import ParsedHistory

NAMES = st.sampled_from(["Bench", "Pull Up (Assisted)", "Plank", "Leg Press", "Run", "Übung, 臥推"])
MARKS = st.sampled_from(["1", "2", "0", "W", "D", "F", "Rest Timer", "Ruhezeit", "Note", "Lepo", "", "?"])
TEXTS = st.sampled_from(["", "", "slow", "two\nlines", "a, b; c", 'say "hi"'])
BROKEN = st.sampled_from(["broken", "1,2", '"never closed', ";;;;;;;;;;;;;;;;;;;;;", 'a"b,c'])


def numbers(most: str, places: int) -> st.SearchStrategy[Decimal | None]:
    return st.none() | st.decimals(Decimal(0), Decimal(most), places=places, allow_nan=False)


@dataclass(frozen=True)
class Set:
    """What one row prints."""

    started_at: datetime
    title: str
    exercise: str
    mark: str
    weight: Decimal | None
    reps: int | None
    distance: Decimal | None
    seconds: int | None
    note: str


SETS = st.builds(
    Set,
    st.datetimes(datetime(2020, 1, 1), datetime(2020, 1, 4)).map(
        lambda at: at.replace(second=0, microsecond=0)
    ),
    st.sampled_from(["", "Push", "Tag 1; schwer"]),
    NAMES,
    MARKS,
    numbers("12000", 2) | st.decimals(-100, 0, places=1),
    st.none() | st.integers(0, 1_100_000),
    numbers("20", 2),
    st.none() | st.integers(0, 800_000),
    TEXTS,
)


def cell(value: object) -> str:
    return "" if value is None else str(value)


def strong(one: Set) -> list[str]:
    return [f"{one.started_at:%Y-%m-%d %H:%M:%S}", one.title, one.exercise, one.mark, cell(one.weight), cell(one.reps),
            cell(one.distance), cell(one.seconds), one.note]  # fmt: skip


def hevy(one: Set) -> list[str]:
    kind = {"W": "warmup", "D": "dropset", "F": "failure", "Lepo": "lepo"}.get(one.mark, "normal")
    return [one.title, f"{one.started_at:%d %b %Y, %H:%M}", one.exercise, one.mark[:1], one.note, kind,
            cell(one.weight), cell(one.reps), cell(one.distance), cell(one.seconds)]  # fmt: skip


def fitnotes(one: Set) -> list[str]:
    clock = (
        ""
        if one.seconds is None
        else f"{one.seconds // 3600}:{one.seconds // 60 % 60:02}:{one.seconds % 60:02}"
    )
    return [f"{one.started_at:%Y-%m-%d}", one.exercise, "Any", cell(one.weight), cell(one.reps), cell(one.distance),
            "km", clock, one.note]  # fmt: skip


def fitbod(one: Set) -> list[str]:
    is_warmup = "true" if one.mark == "W" else "false"
    return [f"{one.started_at:%Y-%m-%d %H:%M:%S} +0000", one.exercise, cell(one.reps), cell(one.weight),
            cell(one.seconds), cell(one.distance), "0", "0", is_warmup, one.note, "1.0"]  # fmt: skip


def own(one: Set) -> list[str]:
    return [f"{one.started_at:%d.%m.%Y}", f"{one.started_at:%H:%M}", one.exercise, cell(one.weight), cell(one.reps),
            cell(one.distance), cell(one.seconds), one.mark, one.note]  # fmt: skip


FORMATS = {
    "strong": (
        strong,
        "Date,Workout Name,Exercise Name,Set Order,Weight (kg),Reps,Distance (km),Seconds,Notes",
    ),
    "hevy": (
        hevy,
        "title,start_time,exercise_title,superset_id,exercise_notes,set_type,weight_kg,reps,distance_km,duration_seconds",
    ),
    "fitnotes": (
        fitnotes,
        "Date,Exercise,Category,Weight (kgs),Reps,Distance,Distance Unit,Time,Comment",
    ),
    "fitbod": (
        fitbod,
        "Date,Exercise,Reps,Weight(kg),Duration(s),Distance(km),Incline,Resistance,isWarmup,Note,multiplier",
    ),
    "csv": (own, "day,at,lift,load (kg),times,way (km),long,kind,text"),
}
COLUMNS = (
    "date=day,time=at,exercise=lift,weight=load (kg),reps=times,distance=way (km),duration=long,set_type=kind,"
    "notes=text"
)


def lines_of(fields: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def parsed(folder: Path, format: str, rows: list[Set | str]) -> tuple[ParsedHistory, dict[int, Set]]:
    """Read a file of `rows`, and return which line each good one stands on."""
    print_row, header = FORMATS[format]
    content, line, lines = header + "\n", 2, {}
    for row in rows:
        printed = f"{row}\n" if isinstance(row, str) else lines_of(print_row(row))
        if isinstance(row, Set):
            lines[line] = row
        content += printed
        line += printed.count("\n")
    path = folder / f"{format}.csv"
    path.write_text(content, encoding="utf-8")
    columns = COLUMNS if format == "csv" else None
    return read_with_source(path, format, None, columns)[1], lines


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(SETS | BROKEN, min_size=1, max_size=25))
def test_every_row_is_taken_or_skipped_once(tmp_path, format, rows):
    try:
        history, lines = parsed(tmp_path, format, rows)
    except OperatorError as refused:
        if f"none of its {len(rows)} rows is a set" not in str(refused):
            assert any(isinstance(row, str) for row in rows)
        return
    sets = [a_set for session in history.sessions for a_set in session.sets()]
    taken = [a_set.line for a_set in sets]
    skipped = [row.line for row in history.skipped]
    assert len(taken) + len(skipped) == history.data_rows
    assert set(Counter(taken + skipped).values()) <= {1}
    assert lines.keys() <= {*taken, *skipped}
    for a_set in sets:
        printed = lines[a_set.line]
        assert a_set.weight_kg == (printed.weight or None)
        assert a_set.reps == (printed.reps or None)
        assert a_set.distance_m == ((printed.distance or 0) * 1000 or None)
        assert a_set.duration_seconds == (printed.seconds or None)
    assert {
        block.exercise for session in history.sessions for block in session.blocks
    } <= history.tracking.keys()
    assert {one.line for one in history.typos} <= {*taken}


@pytest.mark.parametrize("format", FORMATS)
def test_a_plain_file_loses_nothing(tmp_path, format):
    rows: list[Set | str] = [
        Set(datetime(2020, 1, 1, 8 + n // 5), "Push", "Bench", "1", Decimal(60 + n), 8, None, None, "")
        for n in range(20)
    ]
    history, _ = parsed(tmp_path, format, rows)
    assert (history.taken, len(history.skipped), len(history.typos)) == (20, 0, 0)
