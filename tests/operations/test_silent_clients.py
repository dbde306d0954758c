"""A worker that falls silent, or dies, in the middle of a stage keeps no locks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from support.rig import soon

from tasks.pipeline import CLAIM, PUBLISH
from tasks.transaction import account, service, transaction

PATIENCE = text("set local lock_timeout = '10s'")
ARM = text("select public.stats_projection_statement_budget_v1(:stage)")


@pytest.fixture(autouse=True)
def _budgets(database):
    database.as_service().value(
        "select public.update_stats_projection_settings_v1("
        ' \'{"claim_budget_ms": 1500, "publish_budget_ms": 1500}\')'
    )


def test_a_save_does_not_wait_for_a_publication_whose_worker_says_no_more(database, app_account, stages):
    app_account.save()
    run = stages.claim()
    stages.compute(run)
    payload = app_account.payload()
    lease = {"run_id": run["run_id"], "lease_token": run["lease_token"]}

    def fall_silent() -> None:
        with transaction(database.engine, service()) as connection:
            connection.execute(ARM, {"stage": "publish"})
            assert connection.execute(PUBLISH, lease).scalar_one()["response"] == "published"
            save = text("select public.save_session_v5(cast(:payload as jsonb))")
            with transaction(database.engine, account(app_account.user_id)) as other:
                other.execute(PATIENCE)
                other.execute(save, {"payload": json.dumps(payload)})

    with pytest.raises(DBAPIError, match="connection"):
        fall_silent()
    assert app_account.state() == (2, 0)
    stages.publish(run)
    stages.drain()
    assert app_account.state() == (2, 2)


def test_claims_do_not_wait_for_one_whose_worker_says_no_more(database, app_account):
    app_account.save()

    def fall_silent() -> None:
        with transaction(database.engine, service()) as connection:
            connection.execute(ARM, {"stage": "claim"})
            assert connection.execute(CLAIM, {"lock_owner": "frozen"}).scalar_one()["response"] == "claimed"
            with transaction(database.engine, service()) as other:
                other.execute(PATIENCE)
                assert other.execute(CLAIM, {"lock_owner": "other"}).scalar_one()["response"] == "claimed"

    with pytest.raises(DBAPIError, match="connection"):
        fall_silent()


KILLED_IN_A_STAGE = """
import sys
from sqlalchemy import create_engine, text
from tasks.transaction import run_stage
engine = create_engine(sys.argv[1], connect_args={"application_name": "killed"})
print("connected", flush=True)
run_stage(engine, "compute", text("select pg_catalog.pg_sleep(60)"), {}, print)
"""


def test_the_statement_of_a_killed_worker_ends_wherever_the_server_does_not_look_by_itself(database):
    name = database.url.rpartition("/")[2].partition("?")[0]
    database.admin(f"alter database {name} set client_connection_check_interval = 0")
    arguments = [sys.executable, "-c", KILLED_IN_A_STAGE, database.url]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as worker:

        def statements() -> int:
            [[count]] = database.admin(
                "select count(*) from pg_stat_activity"
                " where application_name = 'killed' and query like '%pg_sleep%'"
            )
            return int(count)

        assert soon(lambda: statements() == 1, 20)
        worker.send_signal(signal.SIGKILL)
        assert soon(lambda: statements() == 0, 20)
