"""An input that moves between two batches of a run ends the attempt, by its name, and nothing of it is published."""

from __future__ import annotations

import pytest
from batches import scene as batches
from support.races import wait_until_blocked

from .cases import MOVES
from .scene import READ_MODELS, gate, outcome, picture, session, start_compute


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


def test_a_save_while_the_list_is_frozen_is_noticed_by_the_next_step(database):
    batches.set_settings(database, batch_size=2)
    account = batches.Account(database, 5)
    run = batches.claim_run(database)
    with session(database, "compute") as worker:
        with gate(database, "stats_private.stats_batch_exercises") as keeper:
            preparing = start_compute(worker, run.claimed)
            wait_until_blocked(database, worker, by=keeper)
            account.edit(account.exercise_ids[0], "2026-03-08", 200)
        assert outcome(preparing).get("response") == "batch_pending"
        worker.commit()
    answer = run.step()
    assert (answer["response"], answer.get("reason")) == ("invalidated", "source")
    batches.drain(database)
    account.assert_converged()
