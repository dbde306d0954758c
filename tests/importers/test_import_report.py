"""What `stats-refresh import` says without a database: wrong options, an unreachable server, the report."""

from __future__ import annotations

import io
from pathlib import Path
from uuid import UUID

import pytest
from rich.console import Console
from sqlalchemy import create_engine

from core.errors import OperatorError
from importers.formats import read_history
from importers.history import NOT_A_SET, ParsedHistory, Remark, SkippedRow, Typo
from importers.saving import ImportReport
from importers.spool import SkippedRows
from ops.import_report import report_lines
from ops.importing import import_and_report, import_file
from ops.sample_history import sample_history

USER = UUID("00000000-0000-4000-8000-000000000001")
NOBODY_LISTENS = "postgresql+psycopg2://nobody@127.0.0.1:1/nothing"


def report(skipped=(), remarks=(), taken=10, typos=()):
    return ImportReport(
        sessions_saved=3,
        sessions_updated=2,
        sessions_already_there=1,
        sessions_differing=4,
        sessions_refused=0,
        sets_taken=taken,
        skipped=SkippedRows(skipped),
        data_rows=taken + len(skipped),
        remarks=tuple(remarks),
        typos=tuple(typos),
        stats_requested_version=3,
    )


def test_the_report_adds_up_and_groups_by_reason():
    skipped = [SkippedRow(line, "a rest timer, not a set") for line in (9, 2, 3, 4, 6)]
    skipped.append(SkippedRow(20, 'Reps "8.5" is not a whole number'))
    assert [*report_lines(report(skipped, [Remark(7, "distances were read as miles")]))] == [
        "  skipped 5: a rest timer, not a set (lines 2-4, 6, 9)",
        '  skipped 1: Reps "8.5" is not a whole number (line 20)',
        "  note: distances were read as miles (line 7)",
        "10 sets taken + 6 rows skipped = 16 data rows",
        "3 sessions saved, 1 already there, 2 updated, 4 differing",
    ]


def test_a_long_list_of_lines_is_shortened_unless_all_is_asked_for():
    skipped = [SkippedRow(line, "no date") for line in range(2, 82, 2)]
    skipped += [SkippedRow(line, f"reason {line}") for line in range(101, 131)]
    lines = [*report_lines(report(skipped))]
    assert lines[0] == (
        "  skipped 40: no date (lines 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, ...; --verbose for all)"
    )
    assert lines[1:-2] == [f"  skipped 1: reason {line} (line {line})" for line in range(101, 131)]
    assert [*report_lines(report(skipped), verbose=True)][:3] == [
        "  skipped 40: no date (lines 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,",
        "    32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60,",
        "    62, 64, 66, 68, 70, 72, 74, 76, 78, 80)",
    ]


def test_rest_timers_are_one_line_without_their_places():
    skipped = [SkippedRow(line, NOT_A_SET) for line in range(2, 200, 2)]
    assert next(iter(report_lines(report(skipped)))) == f"  skipped 99: {NOT_A_SET}"


def test_likely_typos_are_listed_with_what_to_do():
    typos = [Typo(line, f'87777{line} reps of "Squat"') for line in range(25)]
    lines = [*report_lines(report(typos=typos))]
    assert lines[0] == '  looks like a typo: 877770 reps of "Squat" (line 0)'
    assert lines[20] == "  and 5 more that look like a typo; --verbose for all"
    assert lines[21].startswith("  typos are taken as printed: correct it in the app and import again")
    assert len([*report_lines(report(typos=typos), verbose=True)]) == 25 + 1 + 2


def steps_for(rows: int) -> int:
    """Return how many steps (of 1,000 instructions) SQLite takes to put `rows` rows of as many reasons in order."""
    skipped = SkippedRows(SkippedRow(line, f'Weight "{line}kg" is not a number') for line in range(rows))
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    skipped._spool.set_progress_handler(count, 1000)
    assert sum(1 for _, _, lines in skipped.by_reason() for _ in lines) == rows
    return steps


def test_twice_the_reasons_cost_twice_as_much():
    assert steps_for(2000) < 3 * steps_for(1000)


def test_an_unknown_format_names_the_known_ones():
    with pytest.raises(OperatorError, match='unknown format "excel": pass --format strong'):
        read_history(Path("any"), "excel", "kg")


@pytest.mark.parametrize("zone", ["Nowhere/Town", "Europe", "/etc/passwd", "../UTC", ""])
def test_an_unknown_zone(zone):
    with pytest.raises(OperatorError, match="unknown time zone"):
        import_file(Path("any"), "strong", "kg", USER, zone, NOBODY_LISTENS)


def test_a_database_url_of_another_kind(tmp_path):
    file = tmp_path / "strong.csv"
    file.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n2024-01-08 18:30:00,Push,Bench,1,60,8\n"
    )
    with pytest.raises(OperatorError, match="only postgresql:// works"):
        import_file(file, "strong", "kg", USER, "UTC", "mysql://localhost/x")


def test_an_unreachable_database_is_one_line_that_says_what_to_do():
    console = Console(file=io.StringIO())
    with pytest.raises(OperatorError) as stopped:
        import_and_report(create_engine(NOBODY_LISTENS), USER, "sample", sample_history(), console=console)
    message = str(stopped.value)
    assert "no connection to the database" in message
    assert "STATS_REFRESH_DATABASE_URL" in message
    assert "0 of 300 sessions done" in message
    assert "\n" not in message


def test_a_history_that_loses_a_row_is_a_bug():
    with pytest.raises(ValueError, match="data rows"):
        ParsedHistory(sessions=(), skipped=(), data_rows=1, tracking={})
