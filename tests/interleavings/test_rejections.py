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
    drop_backoff,
    gate,
    on_insert,
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


def assert_rejected(database, account, run, answer, reason, before, *, attempts, seconds):
    """The scope waits again for so long, and has so many attempts behind it."""
    assert (answer.get("response"), answer.get("reason")) == ("rejected", reason)
    assert picture(database, READ_MODELS) == before, "a rejected run changes no read model"
    assert picture(database, OUTPUTS) == {table: [] for table in OUTPUTS}
    [(phase, error)] = [run_row(database, run, "phase", "error")]
    assert (phase, error.partition(":")[0]) == ("failed", reason)
    waits = "round(extract(epoch from retry_not_before - updated_at))::integer"
    assert account.jobs("status", "attempts", waits)[-1] == ("pending", attempts, seconds)
    drop_backoff(database)


@pytest.mark.parametrize("move", ["applied_version - 1", "applied_version + 1"])
def test_a_base_that_moved_rejects(database, app_account, stages, computed, move):
    before = picture(database, READ_MODELS)
    database.admin(f"update public.user_stats_refresh_state set applied_version = {move}")
    answer = stages.publish(computed)
    assert_rejected(database, app_account, computed, answer, "base_moved", before, attempts=0, seconds=1)
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
        "update {table} set op = op where ctid = (select ctid from {table} limit 1)",
    ],
    ids=["a row gone", "another operation", "a row rewritten"],
)
def test_tampered_outputs_reject(database, app_account, stages, computed, table, tamper):
    before = picture(database, READ_MODELS)
    database.admin(tamper.format(table=table))
    answer = stages.publish(computed)
    assert_rejected(database, app_account, computed, answer, "manifest", before, attempts=1, seconds=30)
    assert_converges(stages, app_account)


@pytest.mark.parametrize("table", OUTPUTS)
def test_a_row_moved_to_another_run_rejects(database, app_account, stages, computed, table):
    before = picture(database, READ_MODELS)
    database.admin(
        f"update {table} set run_id = gen_random_uuid() where ctid = (select ctid from {table} limit 1)"
    )
    answer = stages.publish(computed)
    database.as_service()("select public.purge_stats_history_v1()")
    assert_rejected(database, app_account, computed, answer, "manifest", before, attempts=1, seconds=30)
    assert_converges(stages, app_account)


def test_a_row_too_many_rejects(database, app_account, stages, computed):
    before = picture(database, READ_MODELS)
    database.admin(
        "insert into stats_private.stats_output_records (run_id, exercise_id, kind, day, op)"
        " select run_id, 'nothing', 'weight', '2026-01-01', 'd'"
        " from stats_private.stats_output_records limit 1"
    )
    answer = stages.publish(computed)
    assert_rejected(database, app_account, computed, answer, "manifest", before, attempts=1, seconds=30)


def test_what_another_run_left_is_nobodys(database, app_account, stages, computed):
    database.admin(
        "insert into stats_private.stats_output_records (run_id, exercise_id, kind, day, op)"
        " select gen_random_uuid(), exercise_id, kind, day, 'd'"
        " from stats_private.stats_output_records"
    )
    assert stages.publish(computed)["response"] == "published"
    database.as_service()("select public.purge_stats_history_v1()")
    assert picture(database, OUTPUTS) == {table: [] for table in OUTPUTS}, "and goes with the purge"
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


# ---------------------------------------------------------------- only what is seen to be so, and not for ever


def test_rejections_wait_longer_and_so_many_in_a_row_as_attempts_are_one(database, app_account, stages):
    ends = []
    for _ in range(3):
        doomed = app_account.save()
        drop_backoff(database)
        run = stages.claim()
        stages.compute(run)
        app_account.delete(doomed["session_id"])
        assert stages.publish(run)["reason"] == "canonical_deleted"
        ends += app_account.jobs(
            "attempts", "round(extract(epoch from retry_not_before - updated_at))::integer"
        )[:1]
    assert ends == [(0, 1), (0, 2), (1, 30)]
    assert_converges(stages, app_account)


def test_a_publication_ends_the_row_of_rejections(database, app_account, stages):
    for _ in range(3):
        doomed = app_account.save()
        run = stages.claim()
        stages.compute(run)
        app_account.delete(doomed["session_id"])
        assert stages.publish(run)["response"] == "rejected"
        assert_converges(stages, app_account)
    assert {attempts for (attempts,) in app_account.jobs("attempts")} == {1}
    assert {row for (row,) in app_account.jobs("metadata ->> 'rejections'")} == {None, "1"}


def test_a_key_of_the_app_that_is_violated_is_an_error_like_any_other(database, app_account, stages):
    """A trigger of the app's beside a read model writes to a table of the app's."""
    database.admin("create table public.app_parents (id integer primary key)")
    database.admin("create table public.app_children (parent integer references public.app_parents)")
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    on_insert(database, HEADERS, "insert into public.app_children values (1);")
    database.admin("grant insert on public.app_children to public")
    answer = stages.publish(run)
    assert (answer["response"], answer.get("sqlstate")) == ("failed", "23503")
    assert app_account.jobs("attempts") == [(1,)]


def test_a_key_of_ours_is_no_explanation_where_every_session_is_there(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    on_insert(
        database,
        HEADERS,
        "raise exception using errcode = '23503', message = 'sabotage',"
        " constraint = 'user_exercise_records_session_id_fkey';",
    )
    answer = stages.publish(run)
    assert (answer["response"], answer.get("sqlstate")) == ("failed", "23503")


def test_a_publication_leaves_the_apps_deferred_constraints_to_the_apps_commit(database, app_account, stages):
    database.admin("create table public.app_parents (id integer primary key)")
    database.admin(
        "create table public.app_children"
        " (parent integer references public.app_parents deferrable initially deferred)"
    )
    app_account.save()
    with admin_session(database, "app") as app:
        app.run("insert into public.app_children values (1)")
        app.run("select set_config('request.jwt.claims', '{\"role\": \"service_role\"}', true)")
        app.run("set local role service_role")
        answer = app.run("select public.refresh_stats_now_v1(:user)", user=app_account.user_id)
        app.run("reset role")
        assert answer["response"] == "published", answer
        app.run("insert into public.app_parents values (1)")
        app.commit()
    assert_converges(stages, app_account)


def test_the_links_that_are_forced_are_those_of_the_catalog(database):
    """Each deferred foreign key of ours to a session is forced before the commit, and known by its name."""
    links = database.admin(
        "select c.conrelid::regclass::text, c.conname from pg_catalog.pg_constraint c"
        " where c.confrelid = 'public.workout_sessions'::regclass and c.condeferrable"
    )
    assert {name for _, name in links} == set(
        database.admin("select stats_private.links_to_sessions()")[0][0]
    )
    [[body]] = database.admin("select prosrc from pg_catalog.pg_proc where proname = 'publish_run'")
    forced = body.partition("set constraints")[2].partition("immediate;")[0]
    assert sorted(name.strip() for name in forced.split(",")) == sorted(
        f"{'stats_private' if table.startswith('stats_private.') else 'public'}.{name}"
        for table, name in links
    )
