"""Units of weight and distance, and whether `--unit` agrees with what the file says itself."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Literal

from core.errors import OperatorError
from importers.cells import BrokenRowError, shown
from importers.spool import Remarks

Unit = Literal["kg", "lb"]

KG_PER_UNIT: Mapping[Unit, Decimal] = {"kg": Decimal(1), "lb": Decimal("0.45359237")}
METRES_PER_KILOMETRE = Decimal(1000)
METRES_PER_MILE = Decimal("1609.344")

_WEIGHT_WORDS: Mapping[str, Unit] = {
    "kg": "kg", "kgs": "kg", "kilogram": "kg", "kilograms": "kg",
    "lb": "lb", "lbs": "lb", "pound": "lb", "pounds": "lb", "кг": "kg", "公斤": "kg", "千克": "kg", "磅": "lb",
}  # fmt: skip
_METRES_PER_WORD: Mapping[str, Decimal] = {
    "m": Decimal(1), "meter": Decimal(1), "meters": Decimal(1), "metre": Decimal(1), "metres": Decimal(1),
    "metros": Decimal(1), "km": METRES_PER_KILOMETRE, "kms": METRES_PER_KILOMETRE,
    "kilometers": METRES_PER_KILOMETRE, "kilometres": METRES_PER_KILOMETRE,
    "mi": METRES_PER_MILE, "mile": METRES_PER_MILE, "miles": METRES_PER_MILE,
    "ft": Decimal("0.3048"), "feet": Decimal("0.3048"), "yd": Decimal("0.9144"), "yards": Decimal("0.9144"),
    "cm": Decimal("0.01"), "in": Decimal("0.0254"), "inches": Decimal("0.0254"),
}  # fmt: skip


class UnitMissing(OperatorError):
    """Neither the file nor the caller says the unit of its weights."""


def asked_unit(unit: str | None) -> Unit | None:
    """Return the `--unit` option; raises OperatorError where it is no unit."""
    if unit is None:
        return None
    if (known := weight_unit(unit)) is not None:
        return known
    raise OperatorError(f"unknown weight unit {shown(unit)}: pass --unit kg or --unit lb")


def weight_unit(word: str) -> Unit | None:
    """Return the unit of weight that `word` names."""
    return _WEIGHT_WORDS.get(word.strip().strip(".").casefold())


def metres_per(word: str) -> Decimal | None:
    """Return how many metres the unit of distance `word` has."""
    return _METRES_PER_WORD.get(word.strip().strip(".").casefold())


def metres_without_unit(weights: Unit, line: int, remarks: Remarks) -> Decimal:
    """Return how many metres a distance has whose unit stands nowhere, by the unit of the weights, and say so."""
    is_metric = weights == "kg"
    remarks.add(line, f"distances carry no unit and were read as {'kilometres' if is_metric else 'miles'}")
    return METRES_PER_KILOMETRE if is_metric else METRES_PER_MILE


class WeightUnits:
    """Knows the unit of each weight of one file: `stated` by its header, by a row, or `asked` for.

    `format` is the exporter's name, for messages. Raises OperatorError where header and option contradict
    each other.
    """

    def __init__(self, path: Path, format: str, stated: Unit | None, asked: Unit | None) -> None:
        self._path = path
        self._format = format
        self._asked = asked
        if stated is not None:
            self._refuse_contradiction(stated, "its header")
        self._unit = stated or asked

    @property
    def of_file(self) -> Unit | None:
        """Return the unit of the weights whose row names none."""
        return self._unit

    def missing(self, line: int) -> UnitMissing:
        """Return the error for a weight whose unit nobody named."""
        return UnitMissing(
            f"{self._path}: this {self._format} export does not say its weight unit (line {line}):"
            " pass --unit kg or --unit lb"
        )

    def of_row(self, column: str, word: str, line: int) -> Unit:
        """Return the unit of a row's weight, where its cell `column` holds `word`."""
        if not word:
            if self._unit is None:
                raise self.missing(line)
            return self._unit
        unit = weight_unit(word)
        if unit is None:
            raise BrokenRowError(f"{column} {shown(word)} is neither kg nor lb")
        self._refuse_contradiction(unit, f"line {line}")
        return unit

    def _refuse_contradiction(self, unit: Unit, where: str) -> None:
        if self._asked not in (None, unit):
            raise OperatorError(
                f"{self._path}: --unit {self._asked} contradicts the file, whose weights are in {unit}"
                f" ({where}): leave --unit out"
            )
