"""What publish refuses: a base that moved, outputs that are not what compute counted."""

from __future__ import annotations

import pytest
from support.races import wait_until_blocked

from .scene import (
    HEADERS,
    OUTPUTS,
    READ_MODELS,
    admin_session,
    assert_converges,
    gate,
    outcome,
    picture,
    run_row,
    session,
    start_publish,
)


@pytest.fixture
def computed(app_account, stages):
    """A run of one published generation's successor, with i, u and d rows in its outputs."""
    doomed = app_account.save(app_account.block("Bench", (60, 5)), session_date="2026-03-05")
    app_account.save(app_account.block("Squat", (100, 5)), session_date="2026-03-01")
    stages.drain()
    app_account.save(app_account.block("Squat", (110, 5)), session_date="2026-03-01")
    app_account.delete(doomed["session_id"])
    run = stages.claim()
    stages.compute(run)
    return run


def assert_rejected(database, account, run, answer, reason, before):
    assert (answer.get("response"), answer.get("reason")) == ("rejected", reason)
    assert picture(database, READ_MODELS) == before, "a rejected run changes no read model"
    assert picture(database, OUTPUTS) == {table: [] for table in OUTPUTS}
    assert run_row(database, run, "phase", "error") == ("failed", reason)
    assert account.jobs("status", "attempts", "retry_not_before")[-1] == ("pending", 0, None)


@pytest.mark.parametrize("move", ["applied_version - 1", "applied_version + 1"])
def test_a_base_that_moved_rejects(database, app_account, stages, computed, move):
    before = picture(database, READ_MODELS)
    database.admin(f"update public.user_stats_refresh_state set applied_version = {move}")
    answer = stages.publish(computed)
    assert_rejected(database, app_account, computed, answer, "base_moved", before)
    database.admin("update public.user_stats_refresh_state set applied_version = 2")
    assert_converges(stages, app_account)


def test_a_base_that_moves_past_the_write_lock_publishes_nothing(database, app_account, stages, computed):
    """A repair script holds the state row, not the lock that publish asks the base under."""
    before = picture(database, READ_MODELS)
    with admin_session(database, "repair") as repair, session(database, "publisher") as publisher:
        repair.run("update public.user_stats_refresh_state set applied_version = applied_version - 1")
        publishing = start_publish(publisher, computed)
        wait_until_blocked(database, publisher, by=repair)
        repair.commit()
        answer = outcome(publishing)
        publisher.commit()
    assert answer.get("response") == "failed"
    assert picture(database, READ_MODELS) == before


@pytest.mark.parametrize("table", OUTPUTS)
@pytest.mark.parametrize(
    "tamper",
    [
        "delete from {table} where ctid = (select ctid from {table} limit 1)",
        "update {table} set op = case op when 'i' then 'u' else 'i' end"
        " where ctid = (select ctid from {table} limit 1)",
        "update {table} set lease_token = gen_random_uuid() where ctid = (select ctid from {table} limit 1)",
        "update {table} set op = op where ctid = (select ctid from {table} limit 1)",
    ],
    ids=["a row gone", "another operation", "another token", "a row rewritten"],
)
def test_tampered_outputs_reject(database, app_account, stages, computed, table, tamper):
    before = picture(database, READ_MODELS)
    database.admin(tamper.format(table=table))
    answer = stages.publish(computed)
    assert_rejected(database, app_account, computed, answer, "manifest", before)
    assert_converges(stages, app_account)


def test_a_row_too_many_rejects(database, app_account, stages, computed):
    before = picture(database, READ_MODELS)
    database.admin(
        "insert into stats_private.stats_output_records (run_id, lease_token, exercise_id, kind, day, op)"
        " select run_id, lease_token, 'nothing', 'weight', '2026-01-01', 'd'"
        " from stats_private.stats_output_records limit 1"
    )
    answer = stages.publish(computed)
    assert_rejected(database, app_account, computed, answer, "manifest", before)


def test_what_an_old_token_left_is_nobodys(database, app_account, stages, computed):
    database.admin(
        "insert into stats_private.stats_output_records (run_id, lease_token, exercise_id, kind, day, op)"
        " select run_id, gen_random_uuid(), exercise_id, kind, day, 'd'"
        " from stats_private.stats_output_records"
    )
    assert stages.publish(computed)["response"] == "published"
    assert picture(database, OUTPUTS) == {table: [] for table in OUTPUTS}, "and goes with the run"
    assert_converges(stages, app_account)


def test_a_reader_sees_all_of_a_publication_or_nothing(database, app_account, stages, computed):
    before = picture(database)
    with gate(database, HEADERS) as keeper, session(database, "publisher") as publisher:
        publishing = start_publish(publisher, computed)
        wait_until_blocked(database, publisher, by=keeper)
        assert picture(database) == before
        keeper.rollback()
        assert outcome(publishing)["response"] == "published"
        assert picture(database) == before
        publisher.commit()
    assert_converges(stages, app_account)
