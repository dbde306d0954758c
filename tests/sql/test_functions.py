"""The function files as the server sees them: every body compiles, nothing is left over, everything has its owner."""

from __future__ import annotations

from sqlalchemy import text

from sql.functions import sql_files
from sql.roles import OWNER
from sql.script import run_script


def test_every_body_is_valid_once_all_exist(database):
    """Creation skips the check, because bodies name functions of later files."""
    with database.admin_engine.begin() as connection:
        connection.execute(text(f"set local role {OWNER}"))
        for file in sql_files():
            run_script(connection, file.text)


def test_every_function_of_the_database_is_in_a_file(database):
    """A function that was renamed or removed in the files must not live on."""
    created = "\n".join(file.text for file in sql_files())
    names = database.admin(
        "select p.pronamespace::regnamespace::text || '.' || p.proname from pg_catalog.pg_proc p"
        " where p.pronamespace in ('public'::regnamespace, 'stats_private'::regnamespace)"
    )
    assert names
    assert [name for (name,) in names if f"function {name}(" not in created] == []


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
    assert database.admin("select rolcanlogin, rolsuper from pg_catalog.pg_roles where rolname = :r", r=OWNER) == [
        (False, False)
    ]
