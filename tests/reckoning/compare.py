"""Holds what was published for an account against the reckoning."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from .daily_rollups import daily_rollups
from .fetch import (
    fetch_account,
    fetch_calendar_days,
    fetch_daily_rollups,
    fetch_policy,
    fetch_pr_summaries,
    fetch_records,
    fetch_refresh_state,
    fetch_rep_maxes,
    fetch_training_periods,
)
from .pr_summaries import pr_summaries
from .records import records
from .rep_maxes import rep_maxes
from .training_periods import calendar_days, training_periods

Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]


def differences(expected: Rows, actual: Rows) -> list[str]:
    """One line for each row that is missing or too many and for each column that differs, by key.

    Numbers compare as numbers: Decimal("100.00") equals 100.
    """
    lines = []
    for key in sorted(expected.keys() | actual.keys(), key=_text_of_key):
        name = _text_of_key(key)
        if key not in actual:
            lines.append(f"{name}: missing, expected {_text_of_row(expected[key])}")
        elif key not in expected:
            lines.append(f"{name}: not expected, found {_text_of_row(actual[key])}")
        else:
            lines += [f"{name}: {line}" for line in _column_differences(expected[key], actual[key])]
    return lines


def assert_account_equals_reckoning(connection: Any, user_id: UUID | str) -> None:
    """Every read model of the account is what its canonical rows give.

    For an account that was published and has nothing more to compute. Every published snapshot is compared,
    so that one outside the window (anchor - 1, anchor, anchor + 1) is a difference too.
    """
    state = fetch_refresh_state(connection, user_id)
    if state is None or state.published_anchor is None:
        raise AssertionError(f"account {user_id} was never published: {state}")
    account = fetch_account(connection, user_id)
    policy = fetch_policy(connection)
    window = [state.published_anchor + timedelta(days=offset) for offset in (-1, 0, 1)]
    compared = {
        "user_exercise_daily_rollups": differences(
            daily_rollups(account, policy), fetch_daily_rollups(connection, user_id)
        ),
        "user_exercise_records": differences(records(account, policy), fetch_records(connection, user_id)),
        "user_pr_exercise_summary_snapshots": differences(
            pr_summaries(account, policy, window), fetch_pr_summaries(connection, user_id)
        ),
        "user_exercise_rep_maxes": differences(rep_maxes(account), fetch_rep_maxes(connection, user_id)),
        "user_training_period_stats": differences(
            training_periods(account, policy), fetch_training_periods(connection, user_id)
        ),
        "user_calendar_day_summaries": differences(
            calendar_days(account, policy), fetch_calendar_days(connection, user_id)
        ),
    }
    lines = [f"{table} {line}" for table, found in compared.items() for line in found]
    if lines:
        heading = f"account {user_id} differs from the reckoning in {len(lines)} places ({state}, {policy})"
        raise AssertionError("\n  ".join([heading, *lines]))


def _column_differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    lines = []
    for column in [*expected, *(column for column in actual if column not in expected)]:
        if column not in actual:
            lines.append(f"{column}: expected {_text(expected[column])}, found no such column")
        elif column not in expected:
            lines.append(f"{column}: expected no such column, found {_text(actual[column])}")
        elif expected[column] != actual[column]:
            lines.append(f"{column}: expected {_text(expected[column])}, found {_text(actual[column])}")
    return lines


def _text_of_key(key: tuple[Any, ...]) -> str:
    return " / ".join(str(part) for part in key)


def _text_of_row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{column}={_text(value)}" for column, value in row.items())


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
