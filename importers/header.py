"""Finds a file's columns by the names in its first line, and says what a strange first line looks like."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import OperatorError
from importers.cells import BrokenRowError, shown
from importers.csv_records import Record, records

_DELIMITERS = (",", ";", "\t")
_BRACKETS = re.compile(r"(.+?)\s*[(（]([^()（）]*)[)）]")

# What a first line with all of these columns is, whatever it was given as.
_SIGNATURES: tuple[tuple[frozenset[str], str, str], ...] = (
    (frozenset({"exercise_title", "set_index"}), "a Hevy export", "hevy"),
    (frozenset({"workout name", "set order"}), "a Strong export", "strong"),
    (frozenset({"date", "exercise", "category"}), "a FitNotes export", "fitnotes"),
    (frozenset({"exercise", "iswarmup"}), "a Fitbod export", "fitbod"),
    (frozenset({"lifterid", "best3squatkg"}), "a list of meet results", "meets"),
    (frozenset({"id", "name", "equipment", "primary_muscles"}), "a list of exercises", "catalog"),
)
_JSON = ("a WodUp batch", "wodup")


@dataclass(frozen=True, slots=True)
class Format:
    """What one exporter's header may hold. `names` leads from each printed name, in any language, to ours."""

    expected: str
    names: Mapping[str, str]
    required: tuple[str, ...]
    units: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Names that are the unit of a column alone, as `kg` for the weight: the column and the unit."""


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
    names = _names(format)
    fewest_missing = format.required
    for delimiter in _DELIMITERS:
        printed = header_cells(line, delimiter)
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


def has_columns(line: str, format: Format) -> bool:
    """Tell whether the first line names every column that `format` requires."""
    names = _names(format)
    return any(
        frozenset(format.required) <= _header(delimiter, header_cells(line, delimiter), names).places.keys()
        for delimiter in _DELIMITERS
    )


def signature(line: str) -> tuple[str, str] | None:
    """Return what the first line is that of, and its `--format`; None where it is none that we know."""
    for delimiter in _DELIMITERS:
        cells = _without_brackets(header_cells(line, delimiter))
        for columns, what, format in _SIGNATURES:
            if columns <= cells:
                return what, format
    return _JSON if line.lstrip()[:1] == "{" else None


def best_delimiter(line: str) -> str:
    """Return the delimiter that makes the most columns of the first line."""
    return max(_DELIMITERS, key=lambda delimiter: len(header_cells(line, delimiter)))


def name_and_unit(cell: str) -> tuple[str, str]:
    """Return what stands before the brackets of a column's name, and in them: ("Weight", "kg")."""
    brackets = _BRACKETS.fullmatch(cell)
    return (cell, "") if brackets is None else (brackets[1], brackets[2].strip())


def header_cells(line: str, delimiter: str) -> list[str]:
    """Return the names of the columns in the first line."""
    return [cell.strip() for record in records([line], delimiter, columns=1) for cell in record.fields or ()]


_Names = Mapping[str, tuple[str, str]]


def _names(format: Format) -> _Names:
    """Return the column and the unit of each name that stands alone."""
    names = {printed: (name, "") for printed, name in format.names.items()} | dict(format.units)
    return {printed.casefold(): meaning for printed, meaning in names.items()}


def _header(delimiter: str, printed: list[str], names: _Names) -> Header:
    places: dict[str, int] = {}
    details: dict[str, str] = {}
    for place, cell in enumerate(printed):
        name, detail = _name_and_detail(cell, names)
        if name is not None:
            places.setdefault(name, place)
            details[name] = detail
    return Header(delimiter, places, details)


def _name_and_detail(cell: str, names: _Names) -> tuple[str | None, str]:
    if cell.casefold() in names:
        return names[cell.casefold()]
    before, unit = name_and_unit(cell)
    name, _ = names.get(before.casefold(), (None, ""))
    return (name, unit) if unit else (None, "")


def _refuse_strange_columns(
    path: Path, printed: list[str], header: Header, names: _Names, format: Format
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
    found = signature(line)
    if found is None:
        return ""
    what, format = found
    if found == _JSON:
        return f", which looks like JSON: pass --format {format} for {what}"
    return f", which looks like {what}: pass --format {format}"


def _without_brackets(cells: Collection[str]) -> frozenset[str]:
    return frozenset(name_and_unit(cell)[0].casefold() for cell in cells)
