"""Finds a file's columns by the names in its first line, and says what a strange first line looks like."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ops.errors import OperatorError
from ops.importers.cells import BrokenRowError, shown
from ops.importers.csv_records import Record, records

_DELIMITERS = (",", ";", "\t")
_BRACKETS = re.compile(r"(.+?)\s*[(（]([^()（）]*)[)）]")

# What a first line with all of these columns is, whatever it was given as.
_SIGNATURES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"exercise_title", "set_index"}), "looks like a Hevy export: pass --format hevy"),
    (frozenset({"workout name", "set order"}), "looks like a Strong export: pass --format strong"),
    (frozenset({"date", "exercise", "category"}), "looks like a FitNotes export: pass --format fitnotes"),
    (
        frozenset({"lifterid", "best3squatkg"}),
        "looks like a list of meet results: pass --format meets",
    ),
    (
        frozenset({"id", "name", "equipment", "primary_muscles"}),
        "looks like a list of exercises: pass --format catalog",
    ),
)


@dataclass(frozen=True, slots=True)
class Format:
    """What one exporter's header may hold. `names` leads from each printed name, in any language, to ours."""

    expected: str
    names: Mapping[str, str]
    required: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """Where each column stands, and what its name says in brackets: `Weight (kg)` has the detail "kg"."""

    delimiter: str
    places: Mapping[str, int]
    details: Mapping[str, str]

    def fields(self, record: Record) -> list[str]:
        """Return the fields of `record`; raises BrokenRowError where its quotes are broken."""
        if record.fields is None:
            raise BrokenRowError("broken quotes")
        return [field.strip() for field in record.fields]

    def cells(self, record: Record) -> Mapping[str, str]:
        """Return the cells of `record` by column; raises BrokenRowError unless it has one for each."""
        fields = self.fields(record)
        if len(fields) != len(self.places):
            raise BrokenRowError(f"{len(fields)} columns instead of {len(self.places)}")
        return {name: fields[place] for name, place in self.places.items()}


def read_header(path: Path, line: str, format: Format) -> Header:
    """Return the columns of the first line; raises OperatorError unless it names those that we understand."""
    names = {printed.casefold(): name for printed, name in format.names.items()}
    fewest_missing = format.required
    for delimiter in _DELIMITERS:
        printed = _cells(line, delimiter)
        header = _header(delimiter, printed, names)
        missing = tuple(name for name in format.required if name not in header.places)
        if not missing:
            _refuse_strange_columns(path, printed, header, names, format)
            return header
        fewest_missing = min(fewest_missing, missing, key=len)
    looks_like = _looks_like(line)
    if format.expected in looks_like:
        looks_like = f", without {' and '.join(fewest_missing)}"
    raise OperatorError(
        f"{path}: expected {format.expected} with the columns {', '.join(format.required)}; "
        f"found the first line {shown(line)}{looks_like}"
    )


def _header(delimiter: str, printed: list[str], names: Mapping[str, str]) -> Header:
    places: dict[str, int] = {}
    details: dict[str, str] = {}
    for place, cell in enumerate(printed):
        name, detail = _name_and_detail(cell, names)
        if name is not None:
            places.setdefault(name, place)
            details[name] = detail
    return Header(delimiter, places, details)


def _name_and_detail(cell: str, names: Mapping[str, str]) -> tuple[str | None, str]:
    brackets = _BRACKETS.fullmatch(cell)
    if brackets is None or cell.casefold() in names:
        return names.get(cell.casefold()), ""
    return names.get(brackets[1].casefold()), brackets[2].strip()


def _refuse_strange_columns(
    path: Path, printed: list[str], header: Header, names: Mapping[str, str], format: Format
) -> None:
    """A column that we don't know may hold a unit or a half of the sets; so nothing is read past it."""
    for place, cell in enumerate(printed):
        name, _ = _name_and_detail(cell, names)
        if name is None or header.places[name] != place:
            problem = "another column" if name is None else "twice the column"
            raise OperatorError(
                f"{path}: expected {format.expected}; found {problem} {shown(cell)}, whose meaning is not known"
            )


def _looks_like(line: str) -> str:
    for delimiter in _DELIMITERS:
        cells = _without_brackets(_cells(line, delimiter))
        for signature, text in _SIGNATURES:
            if signature <= cells:
                return f", which {text}"
    return (
        ", which looks like JSON: pass --format wodup for a WodUp batch" if line.lstrip()[:1] == "{" else ""
    )


def _without_brackets(cells: Collection[str]) -> frozenset[str]:
    return frozenset(
        (brackets[1] if (brackets := _BRACKETS.fullmatch(cell)) else cell).casefold() for cell in cells
    )


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for record in records([line], delimiter, columns=1) for cell in record.fields or ()]
