"""The function files as the server sees them: every body compiles, nothing is left over, everything has its owner."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from sql.functions import sql_files
from sql.migrate import migrate
from sql.roles import OWNER
from sql.script import run_script


def test_every_body_is_valid_once_all_exist(database):
    """Creation skips the check, because bodies name functions of later files."""
    with database.admin_engine.begin() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        for file in sql_files():
            run_script(connection, file.text)


def functions_named(database, name: str) -> list[str]:
    return [
        signature
        for (signature,) in database.admin(
            "select p.oid::regprocedure::text from pg_catalog.pg_proc p"
            " where p.pronamespace in ('public'::regnamespace, 'stats_private'::regnamespace) and p.proname = :name",
            name=name,
        )
    ]


def test_what_the_files_no_longer_create_is_dropped(database):
    """A function that was renamed or removed, and an older signature of one that changed."""
    with database.admin_engine.begin() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        connection.execute(text("create function public.retired_v1() returns int language sql as 'select 1'"))
        connection.execute(
            text("create function stats_private.e1rm(text) returns int language sql as 'select 1'")
        )
        connection.execute(
            text("update stats_private.applied_sql_files set sha256 = '' where name = 'numbers/e1rm.sql'")
        )
    database.admin("create function public.somebody_elses() returns int language sql as 'select 1'")
    assert migrate(database.admin_engine).functions == ["numbers/e1rm.sql", "access/grants.sql"]
    assert functions_named(database, "retired_v1") == []
    assert len(functions_named(database, "e1rm")) == 1
    assert len(functions_named(database, "somebody_elses")) == 1


def test_a_file_that_is_gone_is_forgotten(database):
    """It may come back with the text that it had, as one that moves to another folder and back."""
    database.admin(
        "insert into stats_private.applied_sql_files values ('numbers/gone.sql', 'as it was', now())"
    )
    database.admin("update stats_private.applied_sql_files set sha256 = '' where name = 'numbers/e1rm.sql'")
    migrate(database.admin_engine)
    applied = {name for (name,) in database.admin("select name from stats_private.applied_sql_files")}
    assert applied == {file.name for file in sql_files()}


def test_the_owner_owns_everything_and_cannot_log_in(database):
    others = database.admin(
        "select c.oid::regclass::text from pg_catalog.pg_class c"
        " where c.relnamespace in ('public'::regnamespace, 'stats_private'::regnamespace)"
        " and c.relowner::regrole::text <> :owner"
        " union all select p.oid::regprocedure::text from pg_catalog.pg_proc p"
        " where p.pronamespace in ('public'::regnamespace, 'stats_private'::regnamespace)"
        " and p.proowner::regrole::text <> :owner",
        owner=OWNER,
    )
    assert others == []
    assert database.admin(
        "select rolcanlogin, rolsuper from pg_catalog.pg_roles where rolname = :r", r=OWNER
    ) == [(False, False)]


def test_what_steers_the_planner_switches_jit_off(database):
    """Up to PostgreSQL 17 what is off adds 1e10 to a cost, far above jit_above_cost: each call would compile anew."""
    steering = database.admin(
        "select p.proname, 'jit=off' = any (p.proconfig) from pg_catalog.pg_proc p"
        " where exists (select from unnest(p.proconfig) c where c like 'enable%=off')"
    )
    assert {name for name, _ in steering} >= {"project", "project_account", "stats_projection_claim_v1"}
    assert [name for name, is_off in steering if not is_off] == []


@pytest.mark.parametrize(
    ("function", "prefix", "written"),
    [
        ("delete_outputs", "stats_", "from stats_private.stats_{} "),
        ("outputs_of", "stats_", "from stats_private.stats_{} "),
        ("list_differences", "stats_output_", "from stats_private.stats_output_{} "),
        ("publish_run", "stats_output_", "stats_private.publish_{}("),
    ],
)
def test_no_private_output_is_forgotten(database, function, prefix, written):
    """Of the private tables with a run, by which the purge finds them; a forgotten one would weaken the manifest."""
    tables = database.admin(
        """
        select c.relname from pg_catalog.pg_class c
        join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = 'run_id'
        where c.relnamespace = 'stats_private'::regnamespace and c.relkind = 'r'
            and pg_catalog.starts_with(c.relname, :prefix)
        """,
        prefix=prefix,
    )
    assert len(tables) >= 7
    [[body]] = database.admin("select prosrc from pg_catalog.pg_proc where proname = :name", name=function)
    assert [name for [name] in tables if written.format(name.removeprefix(prefix)) not in body] == []
