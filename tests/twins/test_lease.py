"""Twins of what a lease is: the run that a stage takes, its token, and the fence around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .trial import Trial
from .twin import Twin


def _take_run(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/take_run.sql", line, instead, f"tests/interleavings/{node}")


def _lease(line: str, instead: str, node: str) -> Twin:
    return Twin("runs/lease.sql", line, instead, f"tests/interleavings/{node}")


_FENCED = """(old.phase, old.payload, old.lease_token, old.lease_until)
            is distinct from (new.phase, new.payload, new.lease_token, new.lease_until)"""


def _unfenced(*columns: str) -> str:
    old, new = (", ".join(f"{row}.{column}" for column in columns) for row in ("old", "new"))
    return f"({old})\n            is distinct from ({new})"


TWINS: dict[str, Twin] = {
    "a run taken by its message without its row lock": _take_run(
        "where r.id = p_run_id\n    for update skip locked;",
        "where r.id = p_run_id;",
        "test_doubled_messages.py::test_a_second_compute_finds_the_run_held[by its message]",
    ),
    "a run taken by a beat without its row lock": _take_run(
        "limit 1\n        for update skip locked;",
        "limit 1;",
        "test_doubled_messages.py::test_a_second_compute_finds_the_run_held[by a beat]",
    ),
    "a run taken with any token": _take_run(
        "when run.lease_token is distinct from p_lease_token then",
        "when false then",
        "test_doubled_messages.py::test_a_token_that_is_not_the_runs_loses[another-compute]",
    ),
    "a run taken after its lease": _take_run(
        "and run.lease_until <= clock_timestamp() then",
        "and false then",
        "test_fence.py::test_a_zombie_whose_lease_ran_out_changes_nothing[plain-compute]",
    ),
    "a run taken by a clock that stands still": _take_run(
        "and run.lease_until <= clock_timestamp() then",
        "and run.lease_until <= now() then",
        "test_fence.py::test_a_zombie_whose_lease_ran_out_changes_nothing[now() frozen-compute]",
    ),
    "a run taken by a beat after its lease": _take_run(
        "and r.lease_until > clock_timestamp()",
        "",
        "test_doubled_messages.py::test_a_beat_leaves_an_expired_run_to_the_claim[compute]",
    ),
    "a run taken in any phase": _take_run(
        "when run.phase <> p_phase or",
        "when",
        "test_doubled_messages.py::test_messages_that_come_late_or_twice_change_nothing",
    ),
    "a fence around expired leases": _lease(
        "and old.lease_until > clock_timestamp()",
        "",
        "test_fence.py::test_a_repair_script_is_free_once_the_lease_ran_out[plain]",
    ),
    "a fence with a clock that stands still": _lease(
        "and old.lease_until > clock_timestamp()",
        "and old.lease_until > now()",
        "test_fence.py::test_a_repair_script_is_free_once_the_lease_ran_out[now() frozen]",
    ),
    "a fence around finished runs": _lease(
        "old.phase in ('claimed', 'computed')",
        "true",
        "test_fence.py::test_a_finished_run_is_free_though_its_lease_has_time_left",
    ),
    "a fence that any token opens": _lease(
        "is distinct from old.lease_token::text",
        "is null",
        "test_fence.py::test_a_token_of_another_run_opens_nothing",
    ),
    "a fence with a hole for the phase": _lease(
        _FENCED,
        _unfenced("payload", "lease_token", "lease_until"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for the payload": _lease(
        _FENCED,
        _unfenced("phase", "lease_token", "lease_until"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for the token": _lease(
        _FENCED,
        _unfenced("phase", "payload", "lease_until"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for the lease": _lease(
        _FENCED,
        _unfenced("phase", "payload", "lease_token"),
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence with a hole for deletes": _lease(
        "before update or delete on",
        "before update on",
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[plain]",
    ),
    "a fence that a replica walks around": _lease(
        "enable always trigger",
        "enable trigger",
        "test_fence.py::test_a_repair_script_is_refused_while_the_lease_lives[replica]",
    ),
    "a run taken by a beat while it backs off": Twin(
        "runs/take_run.sql",
        "and r.retry_not_before is null",
        "",
        "tests/interleavings/test_batch_retries.py"
        "::test_a_run_that_backs_off_is_not_computed_before_a_claim_brings_it_back[by a beat]",
    ),
    "a run taken by its message while it backs off": Twin(
        "runs/take_run.sql",
        " or run.retry_not_before is not null then 'idle'",
        " then 'idle'",
        "tests/interleavings/test_batch_retries.py"
        "::test_a_run_that_backs_off_is_not_computed_before_a_claim_brings_it_back[by its message]",
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_is_noticed(name: str, twins_trial: Trial, tmp_path: Path) -> None:
    twins_trial.must_be_red(TWINS[name], tmp_path)
