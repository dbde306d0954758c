"""Every stage runs under its own statement and lock budget from the settings row."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tasks.app import app
from tasks.transaction import run_stage

SEEN = text("select jsonb_build_array(current_setting('statement_timeout'), current_setting('lock_timeout'))")


@pytest.fixture(autouse=True)
def _budgets(database):
    database.as_service().value(
        "select public.update_stats_projection_settings_v1("
        ' \'{"claim_budget_ms": 1100, "compute_budget_ms": 12200, "publish_budget_ms": 4400}\')'
    )


@pytest.mark.parametrize(
    ("stage", "seen"),
    [("claim", ["1100ms", "550ms"]), ("compute", ["12200ms", "6100ms"]), ("publish", ["4400ms", "2200ms"])],
)
def test_a_stage_sees_its_budgets(database, stage, seen):
    assert run_stage(database.engine, stage, SEEN, {}, lambda answer: None) == seen


def test_a_stage_costs_one_round_trip_between_its_begin_and_its_call(database):
    sent = []
    event.listen(database.engine, "before_cursor_execute", lambda *arguments: sent.append(arguments[2]))
    run_stage(database.engine, "claim", SEEN, {}, lambda answer: None)
    assert len(sent) == 2
    assert sent[1] == str(SEEN)


def test_a_login_that_inherits_nothing_arms_the_budget_as_the_role_it_takes_on(database):
    """As Supabase's authenticator: it may call nothing before it has taken on a role."""
    login = f"no_heir_{database.url.rpartition('/')[2].partition('?')[0]}"
    database.admin(f"create role {login} noinherit in role service_role")
    engine = create_engine(database.admin_url, poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def log_in(connection, _):
        connection.cursor().execute(f"set session authorization {login}")
        connection.commit()

    seen = text("select jsonb_build_array(session_user, current_user, current_setting('statement_timeout'))")
    try:
        assert run_stage(engine, "claim", seen, {}, lambda answer: None) == [login, "service_role", "1100ms"]
    finally:
        database.admin(f"drop role {login}")


def test_a_budget_ends_with_its_transaction(database):
    run_stage(database.engine, "claim", SEEN, {}, lambda answer: None)
    with database.engine.connect() as connection:
        assert connection.scalar(SEEN) == ["0", "0"]


def test_a_changed_budget_holds_at_the_next_call(database):
    database.as_service().value(
        "select public.update_stats_projection_settings_v1('{\"claim_budget_ms\": 1}')"
    )
    assert run_stage(database.engine, "claim", SEEN, {}, lambda answer: None) == ["1ms", "1ms"]


def test_the_maintenance_budget_is_armed_by_the_same_function(database):
    with database.admin_engine.begin() as connection:
        connection.execute(text("select public.stats_projection_statement_budget_v1('maintenance')"))
        assert connection.scalar(SEEN) == ["3s", "1500ms"]


def test_a_stage_that_runs_over_is_cut_off_and_recorded(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    database.admin(
        "create function stats_private.hold_up() returns trigger language plpgsql as $$"
        " begin perform pg_sleep(30); return new; end $$"
    )
    database.admin(
        "create trigger hold_up before insert on stats_private.stats_output_daily_rollups"
        " for each row execute function stats_private.hold_up()"
    )
    database.as_service().value(
        "select public.update_stats_projection_settings_v1('{\"compute_budget_ms\": 300}')"
    )
    compute = text("select public.stats_projection_compute_v1(cast(:run as uuid), cast(:token as uuid))")
    lease = {"run": run["run_id"], "token": run["lease_token"]}
    answer = run_stage(database.engine, "compute", compute, lease, lambda answer: None)
    assert (answer["response"], answer["sqlstate"]) == ("failed", "57014")
    assert answer["error"] == "canceling statement due to statement timeout"


@pytest.mark.parametrize("stage", ["claim", "compute", "maintenance"])
def test_no_budget_outlasts_the_task(database, stage):
    """A stage that runs over has to record it before Celery's soft limit ends the task, and rolls it back."""
    greatest = app.conf.task_soft_time_limit * 1000 - 10_000
    database.admin(f"update public.stats_projection_worker_settings set {stage}_budget_ms = {greatest}")
    with pytest.raises(DBAPIError) as error:
        database.admin(
            f"update public.stats_projection_worker_settings set {stage}_budget_ms = {greatest + 1}"
        )
    assert error.value.orig.pgcode == "23514"


@pytest.mark.parametrize("stage", ["lunch", None, ""])
def test_what_is_no_stage_is_refused(database, stage):
    with pytest.raises(DBAPIError) as error:
        database.as_service()("select public.stats_projection_statement_budget_v1(:stage)", stage=stage)
    assert error.value.orig.pgcode == "22023"
