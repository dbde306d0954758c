"""`stats-refresh settings`: the one settings row that every stage reads at its next call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from sqlalchemy import text

from core.errors import OperatorError
from ops.printing import Column, Table, say
from ops.service_calls import as_service

_SHOW = text("select public.stats_projection_settings_v1()")
_SET = text("select public.update_stats_projection_settings_v1(cast(:changes as jsonb))")


def show(database_url: str) -> None:
    """Print the settings row."""
    with as_service(database_url) as connection:
        settings: dict[str, Any] = connection.execute(_SHOW).scalar_one()
    say(settings_table(settings))


def change(database_url: str, assignments: Iterable[str]) -> None:
    """Apply NAME=VALUE assignments, all or none, and print what the named settings are now.

    Raises OperatorError for text that is no assignment and for a value that breaks a rule.
    """
    changes = parse(assignments)
    with as_service(database_url) as connection:
        settings: dict[str, Any] = connection.execute(_SET, {"changes": json.dumps(changes)}).scalar_one()
    say(settings_table({name: settings[name] for name in changes}))


def parse(assignments: Iterable[str]) -> dict[str, Any]:
    """Return {name: value} of NAME=VALUE texts. A list is written with commas; the database judges the rest."""
    changes: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals or not name or (not value and name != "paused_stages"):
            raise OperatorError(f"{assignment}: write NAME=VALUE, such as compute_budget_ms=30000")
        if name in changes:
            raise OperatorError(f"{name}: is given twice")
        changes[name] = _value(name, value)
    return changes


def _value(name: str, value: str) -> object:
    if name == "paused_stages":
        return [stage.strip() for stage in value.split(",") if stage.strip()]
    return int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else value


def settings_table(settings: dict[str, Any]) -> Table:
    """Return settings as a table, in the order of their names."""
    return Table(
        (Column("setting"), Column("value")),
        [
            (name, ", ".join(value) or "none" if isinstance(value, list) else str(value))
            for name, value in sorted(settings.items())
        ],
    )
