"""Tables at any width: nothing but prose is ever folded, and a pipe gets one whole line a row."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from ops.durations import duration
from ops.printing import Column, Table, say

IDS = ["5f0c8e5e-0000-4000-8000-00000000000a", "5f0c8e5e-0000-4000-8000-00000000000b"]
ERROR = f"the set {IDS[0]} of 日本 weighs less than nothing, and that is more than a bar takes"
TABLE = Table(
    (Column("id"), Column("name"), Column("ms", justify="right"), Column("error", prose=40)),
    [(IDS[0], "squat", "5", "-"), (IDS[1], "bench press", "1250", ERROR)],
)


def shown(table: Table, width: int | None) -> list[str]:
    return [line.plain for line in table.lines(width)]


def test_a_pipe_gets_one_whole_aligned_line_a_row():
    assert shown(TABLE, None) == [
        "id                                    name           ms  error",
        f"{IDS[0]}  squat           5  -",
        f"{IDS[1]}  bench press  1250  {ERROR}",
    ]


def test_a_narrow_terminal_gets_several_lines_of_one_shape():
    assert shown(TABLE, 80) == [
        "id                                    name           ms",
        "  error",
        f"{IDS[0]}  squat           5",
        "  -",
        f"{IDS[1]}  bench press  1250",
        f"  the set {IDS[0]} of 日本 weighs less than nothing,",
        "  and that is more than a bar takes",
    ]


def test_prose_is_folded_beside_the_other_columns_where_it_has_room():
    assert shown(TABLE, 110)[2:] == [
        f"{IDS[1]}  bench press  1250  the set {IDS[0]} of 日本",
        " " * 57 + "weighs less than nothing, and that is more than a bar",
        " " * 57 + "takes",
    ]


def test_no_width_loses_or_breaks_a_word_and_only_long_ones_stand_out():
    words = [word for row in TABLE.rows for cell in row for word in cell.split()]
    for width in range(1, 160):
        lines = shown(TABLE, width)
        assert [word for line in lines for word in line.split()][4:] == words
        assert all(Text(line).cell_len <= max(width, 2 + len(IDS[0])) for line in lines)


def test_columns_fill_a_line_to_its_last_place():
    table = Table((Column(""), Column("")), [("a" * 10, "b" * 8)])
    assert shown(table, 20) == ["aaaaaaaaaa  bbbbbbbb"]
    assert shown(table, 19) == ["aaaaaaaaaa", "  bbbbbbbb"]


def test_what_would_break_a_line_or_act_on_the_terminal_is_escaped():
    table = Table((Column("id"), Column("error", prose=10)), [("a\nb", "one\ntwo\x1b[2J\r\u2028")])
    assert shown(table, None)[1] == r"a\nb  one\ntwo\x1b[2J\r\u2028"
    assert shown(table, 80)[1:] == [r"a\nb  one", r"      two\x1b[2J\r\u2028"]


def test_a_table_without_headings_has_rows_alone_and_one_without_rows_its_headings():
    assert shown(Table((Column(""), Column("")), [("a", "b")]), None) == ["a  b"]
    assert shown(Table((Column("id"), Column("name")), []), None) == ["id  name"]


@pytest.mark.parametrize("variable", ["COLUMNS", "FORCE_COLOR"])
def test_nothing_in_the_environment_gives_a_pipe_a_width(monkeypatch, capsys, variable):
    monkeypatch.setenv(variable, "40")
    say(TABLE)
    assert ERROR in capsys.readouterr().out
    say(f"installed: {', '.join(IDS * 3)}")
    assert capsys.readouterr().out.count("\n") == 1


def test_nothing_is_taken_for_markup(capsys):
    say("[red]boom[/] :boom: [/nothing]")
    say(Table((Column(""),), [("[red]boom[/] :boom: [/nothing]",)]))
    assert capsys.readouterr().out == "[red]boom[/] :boom: [/nothing]\n" * 2


def test_a_style_is_of_its_cell_alone():
    table = Table(
        (Column("a"), Column("b", prose=4)), [(Text("x", "red"), Text("one two", "green")), ("y", "z")]
    )
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=8)
    for line in table.lines(8):
        console.print(line, soft_wrap=True)
    assert console.file.getvalue().splitlines()[1:] == [
        "\x1b[31mx\x1b[0m  \x1b[32mone\x1b[0m",
        "   \x1b[32mtwo\x1b[0m",
        "y  z",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0s"),
        (0.44, "0.4s"),
        (9.9, "9.9s"),
        (59.9, "59s"),
        (60, "1m"),
        (200, "3m 20s"),
        (18_125, "5h 2m"),
        (86_460, "1d"),
        (273_600, "3d 4h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds, words):
    assert duration(seconds) == words
