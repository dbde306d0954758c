"""An input that moves between two batches of a run ends the attempt, by its name, and nothing of it is published."""

from __future__ import annotations

import pytest
from batches import scene as batches

from .cases import MOVES
from .scene import READ_MODELS, picture


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
