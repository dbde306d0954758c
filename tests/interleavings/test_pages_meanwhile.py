"""A maintenance page waits for nobody: neither for the worker on the same page nor for an account's writer."""

from __future__ import annotations

import pytest
from maintenance.scene import REPAIR, ROLLOVER, WALK, let_days_pass, write_lock

from .scene import admin_session, outcome, session, wait_until_blocked_or_done


def answer_at_once(database, page, statement):
    """Start the page and return its answer, which it has to give while the others hold what they hold."""
    answer = page.start(statement, limit=5)
    wait_until_blocked_or_done(database, page, answer)
    assert answer.done(), "the page waited"
    return outcome(answer)


@pytest.mark.parametrize("statement", [REPAIR, WALK], ids=["repair", "walk"])
def test_a_page_that_another_worker_runs_is_left_to_it(database, statement):
    with session(database, "first") as first, session(database, "second") as second:
        first.run(statement, limit=5)
        assert answer_at_once(database, second, statement) == {"response": "idle", "has_more": False}


def test_a_page_passes_by_an_account_that_somebody_writes_to(database, app_account, stages):
    app_account.save()
    stages.drain()
    let_days_pass(database, 1, [app_account])
    with admin_session(database, "writer") as writer, session(database, "page") as page:
        write_lock(writer, app_account)
        answer = answer_at_once(database, page, ROLLOVER)
        assert (answer.get("requested"), answer.get("skipped")) == (0, 1)
        page.commit()
    assert app_account.state() == (1, 1)


def test_two_pages_of_the_rollover_take_different_accounts(database, app_account, stages):
    app_account.save()
    stages.drain()
    let_days_pass(database, 1, [app_account])
    with session(database, "first") as first, session(database, "second") as second:
        assert first.run(ROLLOVER, limit=5)["requested"] == 1
        assert answer_at_once(database, second, ROLLOVER).get("response") == "idle"
        first.commit()
    assert app_account.state() == (2, 1)
