"""A midnight with 100,000 due accounts on a whole stack: whoever saves is published within a second."""

from __future__ import annotations

import time

from maintenance.scene import make_due_accounts
from support.app import AppAccount
from support.rig import Rig, rig, soon

from ops.stack import WORKERS

DUE, SAVES = 100_000, 12


def test_a_save_is_published_within_a_second_while_the_workers_roll_over() -> None:
    with rig() as stack:
        assert stack.database is not None
        for queue, processes in WORKERS.items():
            stack.worker(queue, processes=processes)
        stack.beat()
        person = AppAccount(stack.database)
        person.exercise()
        make_due_accounts(stack.database, DUE)
        sender = stack.sender()
        sender.send_task("stats.rollover", queue="maintenance")

        waits = [seconds_to_publication(stack, person, n) for n in range(SAVES)]

    # One may fall on a moment when other processes have the machine; usual are 30 to 120 ms.
    assert sorted(waits)[-2] < 1, f"published after {waits} s"


def seconds_to_publication(stack: Rig, person: AppAccount, number: int) -> float:
    """Save when some more accounts have rolled over; return how long after its commit it is published."""
    assert soon(lambda: rolled_over(stack) > 10 * number, 60), "the rollover stands still"
    generation = person.save()["statsRequestedVersion"]
    saved_at = time.monotonic()
    assert soon(lambda: person.state()[1] >= generation, 20)
    return time.monotonic() - saved_at


def rolled_over(stack: Rig) -> int:
    assert stack.database is not None
    [[accounts]] = stack.database.admin(
        "select count(*) from public.user_pr_overview_rollover_state where due_at > now()"
    )
    return int(accounts)
