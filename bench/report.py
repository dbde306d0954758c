"""One measurement, and how measurements are printed beside their bars and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Measured:
    """A figure; `bar` is the most that it may be, `at_least` the least."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        if self.bar is None and self.at_least is None:
            return None
        return (self.bar is None or self.value <= self.bar) and (
            self.at_least is None or self.value >= self.at_least
        )


Results = Mapping[str, Sequence[Measured]]
"""Measurements by the module that made them."""


def print_report(title: str, measured: Sequence[Measured]) -> None:
    """Print the measurements of one module."""
    print_results(title, {title: measured})


def print_results(title: str, results: Results) -> None:
    """Print the measurements as one table, a section a module."""
    table = Table(title=title)
    for heading in ("what", "measured", "bar", ""):
        table.add_column(heading, no_wrap=True)
    for measured in results.values():
        for one in measured:
            table.add_row(one.name, f"{one.value:,.2f} {one.unit}", _bar(one), _verdict(one))
        table.add_section()
    Console(width=120).print(table)


def write_results(path: Path, machine: Mapping[str, object], results: Results) -> None:
    """Write the measurements and the facts of the machine as JSON."""
    measured = [
        {"bench": name, **asdict(one), "met": one.is_met} for name, group in results.items() for one in group
    ]
    path.write_text(json.dumps({"machine": machine, "measured": measured}, indent=2) + "\n")


def _bar(one: Measured) -> str:
    if one.bar is not None:
        return f"<= {one.bar:g}"
    return f">= {one.at_least:g}" if one.at_least is not None else ""


def _verdict(one: Measured) -> str:
    return {True: "met", False: "MISSED", None: ""}[one.is_met]
