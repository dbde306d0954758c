"""A client that keeps its account locked, with real workers: what was computed is published when it lets go."""

from __future__ import annotations

from interleavings.scene import OUTPUT, admin_session, change_settings, gate, wait_until_waiting
from maintenance.scene import write_lock
from reckoning.compare import assert_account_equals_reckoning
from support.app import AppAccount
from support.rig import Rig, soon

ATTEMPTS = 2


def test_a_writer_that_holds_its_account_for_long_and_rolls_back_costs_nothing(full_rig: Rig) -> None:
    """Through more publications than the job has attempts, and no beat: each wait's own message brings it back."""
    database = full_rig.database
    assert database is not None
    change_settings(database, publish_budget_ms=400, max_attempts=ATTEMPTS)
    worker = full_rig.worker("pipeline", "compute", processes=2)
    held, other = AppAccount(database), AppAccount(database)
    with admin_session(database, "client") as client:
        with gate(database, OUTPUT) as keeper:
            held.save()
            wait_until_waiting(database, 1)
            write_lock(client, held)
            keeper.rollback()
        assert soon(lambda: waits(full_rig) > ATTEMPTS), worker.tail()
        assert held.jobs("status", "attempts") == [("processing", 1)]
        other.save()
        assert soon(lambda: other.state() == (1, 1)), "others are published meanwhile"
        client.rollback()
    assert soon(lambda: held.state() == (1, 1)), worker.tail()
    assert held.jobs("status", "attempts") == [("completed", 1)]
    assert worker.count("raised") == 0, worker.tail()
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, held.user_id)


def waits(full_rig: Rig) -> int:
    """Return how often the one run that others hold up has waited."""
    assert full_rig.database is not None
    [[waited]] = full_rig.database.admin(
        "select coalesce(max(busy_waits), 0) from public.user_stats_projection_runs where phase = 'computed'"
    )
    return int(waited)
