"""Row security switched on where we have none, as advisors of hosted platforms urge: commands tell the truth, or that
they can't."""

from __future__ import annotations

import json
import re

import pytest
from maintenance.damage import alter
from maintenance.scene import published_accounts
from sqlalchemy import text

from sql.functions import OWNER_POLICIES, sql_files
from sql.migrate import migrate

READERS = (
    ("status",),
    ("status", "--json"),
    ("history",),
    ("jobs", "list"),
    ("jobs", "list", "--status", "failed"),
    ("settings", "show"),
    ("verify",),
    ("verify", "--sample", "1"),
)
TABLES = """
select format('%I.%I', n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname in ('public', 'stats_private') order by 1
"""


def switch_on(database, *, forced: bool) -> None:
    """Switch row security on for every table."""
    for [table] in database.admin(TABLES):
        database.admin(f"alter table {table} enable row level security")
        if forced:
            database.admin(f"alter table {table} force row level security")


@pytest.fixture
def accounts(database):
    """Two accounts: one is published and damaged, the other is published and has saved again."""
    damaged, waiting = published_accounts(database, 2)
    alter(database, "public.user_exercise_records", damaged)
    waiting.save()
    database.as_service()(
        "select public.record_stats_cron_run_v1('lift-guild-stats-refresh', 'task', 'worker@here', 'succeeded',"
        ' cast(\'{"response": "idle"}\' as jsonb), null, clock_timestamp())'
    )
    return damaged, waiting


@pytest.mark.parametrize("forced", [False, True], ids=["enabled", "forced"])
def test_every_command_shows_what_is_there(database, accounts, stats_refresh, forced):
    damaged, waiting = accounts
    switch_on(database, forced=forced)

    status = json.loads(stats_refresh("status", "--json")[1])
    assert (status["accounts"]["all"], status["accounts"]["stale"], status["jobs"]["pending"]) == (2, 1, 1)
    code, out, _ = stats_refresh("jobs", "list")
    assert code == 0
    assert str(waiting.user_id) in out
    assert "worker@here" in stats_refresh("history")[1]
    code, out, _ = stats_refresh("settings", "show")
    assert code == 0
    assert re.search(r"batch_size +100", out)
    code, out, _ = stats_refresh("verify", "--user", str(damaged.user_id))
    assert code == 1
    assert "1 wrong" in out
    assert stats_refresh("verify", "--user", str(waiting.user_id))[0] == 2
    assert stats_refresh("pause", "all")[0] == 0
    assert stats_refresh("resume", "all")[0] == 0


def test_the_work_goes_on_where_it_is_forced(database, accounts, stages):
    """Saves, stages and readers are the owner's functions, which a forced row security binds too."""
    _, waiting = accounts
    switch_on(database, forced=True)
    receipt = waiting.save()
    assert [answer["response"] for answer in stages.drain()] == ["published"]
    board = waiting.call("select public.get_pr_overview((now() at time zone 'UTC')::date)")
    assert board["generation"] == receipt["statsRequestedVersion"]
    assert board["exercises"]
    assert database.as_service().value("select count(*) from public.user_exercise_stats_refresh_jobs") >= 2
    assert migrate(database.admin_engine).functions == []


def test_an_earlier_release_is_migrated_where_it_is_forced(database, accounts):
    """It has no policies yet, so its owner does not see the schema step, and would begin with the first one."""
    switch_on(database, forced=True)
    for [statement] in database.admin(
        "select format('drop policy %I on %s', polname, polrelid::regclass) from pg_policy"
        " where polname in ('owner_sees_all', 'service_reads_all')"
    ):
        database.admin(statement)
    database.admin("delete from stats_private.applied_sql_files where name = :name", name=OWNER_POLICIES)
    assert OWNER_POLICIES in migrate(database.admin_engine).functions
    assert (
        database.as_service().value("select public.stats_projection_worker_status_v1() #> '{accounts,all}'")
        == 2
    )


@pytest.mark.parametrize("command", [*READERS, ("verify", "--user")], ids=" ".join)
@pytest.mark.parametrize(
    "hidden",
    [
        "drop policy owner_sees_all on public.user_stats_refresh_state",
        "create policy mine on public.user_stats_refresh_state as restrictive using (false)",
    ],
    ids=["policy dropped", "restrictive policy"],
)
def test_what_is_hidden_all_the_same_is_named_and_is_no_success(
    database, accounts, stats_refresh, command, hidden
):
    damaged, _ = accounts
    switch_on(database, forced=True)
    database.admin(hidden)
    if command[-1] == "--user":
        command = (*command, str(damaged.user_id))
    code, out, err = stats_refresh(*command)
    assert (code, out) == (1, "")
    assert err.startswith(
        "stats-refresh: row security hides rows of public.user_stats_refresh_state from stats_refresh_owner"
    )
    assert err.count("\n") == 1
    assert "run stats-refresh migrate" in err


def test_migrate_shows_again_what_was_hidden(database, accounts, stats_refresh):
    switch_on(database, forced=True)
    database.admin("drop policy owner_sees_all on public.user_stats_refresh_state")
    assert stats_refresh("status")[0] == 1
    migrate(database.admin_engine)
    assert stats_refresh("status")[0] == 0


def test_every_table_has_the_policies_and_adding_them_again_locks_nothing(database):
    missing = database.admin(
        "select c.oid::regclass::text from pg_class c"
        " where c.relkind = 'r' and c.relowner = 'stats_refresh_owner'::regrole and not exists ("
        " select from pg_policy p where p.polrelid = c.oid and p.polname = 'owner_sees_all')"
    )
    assert missing == []
    [policies] = [file.text for file in sql_files() if file.name == OWNER_POLICIES]
    with database.admin_engine.begin() as busy, database.admin_engine.begin() as connection:
        for [table] in database.admin(TABLES):
            busy.execute(text(f"select exists (select from {table})"))
        connection.execute(text("set local lock_timeout = '1s'"))
        connection.execute(text("set local role stats_refresh_owner"))
        connection.exec_driver_sql(policies, execution_options={"no_parameters": True})
