"""Imports a WodUp batch: one JSON object, for one call of `import_wodup_batch_to_canonical`.

The function's header says what a batch holds. It is imported whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from core.errors import OperatorError
from importers.csv_records import text_file
from importers.refusals import refusal, what_stopped
from tasks.transaction import service, transaction

_EXPECTED = "a WodUp batch, one JSON object"
_IMPORT = text("select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))")
_PROBLEMS_SHOWN = 20


def read_batch(path: Path, unit: str | None, user: UUID) -> dict[str, Any]:
    """Return the batch in `path`, for the account `user`.

    Raises OperatorError where it is no JSON object or another account's, and for a `unit`: each load has its own.
    """
    if unit is not None:
        raise OperatorError(f"{path}: each load of a WodUp batch names its unit: leave --unit out")
    with text_file(path, _EXPECTED) as file:
        content = "".join(file.lines())
    try:
        batch = json.loads(content, parse_constant=_no_number)
    except ValueError as error:
        raise OperatorError(f"{path}: is not JSON ({error}); expected {_EXPECTED}") from error
    except RecursionError as error:
        raise OperatorError(f"{path}: is nested too deeply; expected {_EXPECTED}") from error
    if not isinstance(batch, dict):
        raise OperatorError(f"{path}: expected {_EXPECTED}; found another kind of value")
    if str(batch.setdefault("user_id", str(user))).lower() != str(user):
        raise OperatorError(f"{path}: is the batch of account {batch['user_id']}, not of {user}")
    return batch


def import_batch(engine: Engine, path: Path, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Import `batch` and return the database's report of it; raises OperatorError where it is refused."""
    try:
        with transaction(engine, service()) as connection:
            answer: dict[str, Any] = connection.scalar(_IMPORT, {"batch": json.dumps(batch)})
    except DBAPIError as error:
        reason = refusal(error)
        problem = what_stopped(error) if reason is None else f"is refused: {reason}"
        raise OperatorError(f"{path}: {problem}; nothing of it was stored") from error
    return answer


def report_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the report of a batch in lines: results, sets, placeholders, and what contradicts an exercise."""
    return [
        f"{answer['results_saved']} sessions saved, {answer['results_already_there']} already there,"
        f" {answer['results_skipped']} not stored, of {answer['results']} results",
        f"{answer['sets_saved']} sets taken + {answer['sets_skipped']} skipped",
        *_shown(
            f'unmatched movement {movement["movement_id"]} became the exercise "{movement["name"]}"'
            f" ({movement['tracking']}, {movement['exercise_id']})"
            for movement in answer["unmatched_movements"]
        ),
        *_shown(f"{problem['reason']} ({problem['path']})" for problem in answer["contradictions"]),
        f"refresh: {answer['refresh']}",
    ]


def _shown(problems: Iterable[str]) -> list[str]:
    lines = [f"  {problem}" for problem in problems]
    hidden = len(lines) - _PROBLEMS_SHOWN
    return lines if hidden <= 0 else [*lines[:_PROBLEMS_SHOWN], f"  and {hidden} more"]


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")
