"""An input that moves between two batches of a run ends the attempt, by its name, and nothing of it is published."""

from __future__ import annotations

import pytest
from batches import scene as batches

from .scene import OUTPUT, READ_MODELS, picture


def _save(database, account, run):
    account.edit(account.exercise_ids[4], "2026-03-08", 200)


def _midnight(database, account, run):
    run.change("payload = jsonb_set(payload, '{_batch,anchor}', '\"2026-01-01\"')")


def _base(database, account, run):
    database.admin("update public.user_stats_refresh_state set applied_version = requested_version")


def _outputs(database, account, run):
    database.admin(f"update {OUTPUT} set reps = reps + 1")


MOVES = {"source": _save, "anchor": _midnight, "base": _base, "outputs": _outputs}


@pytest.mark.parametrize("moved", MOVES)
def test_what_moves_between_two_batches_invalidates_the_run(database, moved):
    batches.set_settings(database, batch_size=2)
    account = batches.Account(database, 5)
    run = batches.claim_run(database)
    run.steps(2)
    before = picture(database, READ_MODELS)
    MOVES[moved](database, account, run)
    answer = run.step()
    assert (answer["response"], answer.get("reason")) == ("invalidated", moved)
    assert batches.outputs(database) == 0
    assert picture(database, READ_MODELS) == before
    batches.drain(database)
    account.assert_converged()
