"""Files as text and text as records: read twice, read ahead no farther than needed, nothing lost."""

from __future__ import annotations

import csv
import os
import threading
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import OperatorError
from importers import fitnotes, hevy, strong
from importers.csv_records import Record, records, text_file

STRONG = "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n2024-01-08 18:30:00,Push,Bench,1,60,8\n"
HEVY = (
    "title,start_time,exercise_title,set_type,weight_kg,reps\n"
    'Push,"05/06/2025, 19:56",Bench,normal,60,8\nPush,"13/06/2025, 19:56",Bench,normal,60,8\n'
)
FITNOTES = (
    "Date,Exercise,Category,Weight (kgs),Reps\n2024-01-08,Press, seated,Arms,60,8\n2024-01-08,Dip,Arms,60,8\n"
)


@pytest.mark.parametrize(
    ("parse", "content", "sets"), [(strong.parse, STRONG, 1), (hevy.parse, HEVY, 2), (fitnotes.parse, FITNOTES, 2)]
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_pipe_is_read_like_a_file(tmp_path, parse, content, sets, encoding):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[content.encode(encoding)])
    writer.start()
    history = parse(pipe, "kg")
    writer.join()
    assert (history.taken, len(history.skipped)) == (sets, 0)


def test_a_file_that_changes_while_it_is_read_is_read_as_it_was(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("one\ntwo\n")
    with text_file(path, "anything") as file:
        assert file.first_line() == "one\n"
        path.write_text("another\n")
        assert [*file.lines()] == [*file.lines()] == ["one\n", "two\n"]


def test_lines_end_where_csv_ends_them(tmp_path):
    path = tmp_path / "file.csv"
    path.write_bytes("a\u2028b\r\nc\rd\x0be\n\nf".encode())
    with text_file(path, "anything") as file:
        assert [*file.lines()] == ["a\u2028b\r\n", "c\r", "d\x0be\n", "\n", "f"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xef\xbb\xbf", 'found the first line ""'),
        (STRONG.encode() + b"\xff", "is not UTF-8 or UTF-16 text"),
        (STRONG.encode() + b"\0", "is a binary file"),
        (STRONG.encode("utf-16")[:-1], "is not UTF-8 or UTF-16 text"),
    ],
)
def test_what_is_no_text_is_noticed_wherever_it_stands(tmp_path, content, problem):
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(OperatorError, match=problem):
        strong.parse(path, "kg")


def end_of_file():
    pytest.fail("all of it was read")
    yield


@pytest.mark.parametrize("rest", ["a,b\n", '","\n', 'a""b\n'])
def test_an_unclosed_quote_is_noticed_without_reading_to_the_end(rest):
    found = records(chain(['"never closed\n', "x,y\n"], repeat(rest, 300_000), end_of_file()), ",", 2)
    assert next(found) == Record(1, None)
    assert next(found) == Record(2, ["x", "y"])


def test_the_longest_record_that_may_be_is_read_whole():
    quotes = '""' * csv.field_size_limit()
    lines = [f'"{quotes}","{quotes[:-2]}\n', f'","{quotes}"\n', "x,y,z\n"]
    fields = [
        '"' * csv.field_size_limit(),
        '"' * (csv.field_size_limit() - 1) + "\n",
        '"' * csv.field_size_limit(),
    ]
    assert [*records(lines, ",", 3)] == [Record(1, fields), Record(3, ["x", "y", "z"])]


@given(st.text('a,";\n\r \0é', max_size=60), st.integers(1, 4))
def test_every_line_is_part_of_one_record(text, columns):
    lines = text.splitlines(keepends=True)
    assert [*records(lines, ",", columns)] == [*records_of_all(lines, ",", columns)]


def records_of_all(lines, delimiter, columns):
    """Do what `records` does, with all lines at hand."""
    start = 0
    while start < len(lines):
        reader = csv.reader(lines[start:], delimiter=delimiter, strict=True)
        try:
            fields, used = next(reader), reader.line_num
        except csv.Error:
            fields, used = None, 1
        if used > 1 and (fields is None or len(fields) != columns):
            fields, used = None, 1
        if fields != []:
            yield Record(start + 1, fields)
        start += used
