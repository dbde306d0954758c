"""One measurement, and how it is printed beside its bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def print_report(title: str, measured: Sequence[Measured]) -> None:
    """Print the measurements as a table."""
    table = Table(title=title)
    for heading in ("what", "measured", "bar", ""):
        table.add_column(heading, no_wrap=True)
    for one in measured:
        bar = (
            f"<= {one.bar:g}"
            if one.bar is not None
            else f">= {one.at_least:g}"
            if one.at_least is not None
            else ""
        )
        met = {True: "met", False: "MISSED", None: ""}[one.is_met]
        table.add_row(one.name, f"{one.value:.2f} {one.unit}", bar, met)
    Console(width=120).print(table)
