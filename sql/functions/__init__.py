"""The current text of every function, trigger, policy and grant, one short file a subject."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from psycopg2 import errors
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from sql.script import run_script

LAYERS = (
    "identity",
    "locks",
    "numbers",
    "arguments",
    "queue",
    "runs",
    "projection",
    "pipeline",
    "maintenance",
    "doors",
    "operations",
    "writes",
    "imports",
    "readers",
    "access",
)
"""The folders from the bottom up, which is the order in which they are applied.

Each is a layer: its functions call those of their own folder and of folders above it in this list, which a test checks
(tests/layout/test_sql_layers.py). docs/architecture.md says what each one holds. Grants come last, when everything
that they name exists.
"""

_APPLIED = "stats_private.applied_sql_files"
_GRANTS = "access/grants.sql"
_POLICIES = "access/policies.sql"
OWNER_POLICIES = "access/owner_policies.sql"


@dataclass(frozen=True)
class SqlFile:
    """One file under sql/functions: its path below that folder, its text and the text's hash."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def sql_files() -> Iterator[SqlFile]:
    """Yield every file in the order of application."""
    root = Path(__file__).parent
    for layer in LAYERS:
        for path in sorted((root / layer).glob("*.sql")):
            yield SqlFile(f"{layer}/{path.name}", path.read_text(encoding="utf-8"))


def apply_functions(connection: Connection, *, schema_changed: bool = False) -> list[str]:
    """Apply every file whose text differs from what this database has; return their names.

    Grants, and the policies that let the owner see its own rows, are put right in any case: a new table or function
    needs them too, and a restore may have left them out. Other policies lock the tables that saves write, so they
    follow their own text and new tables alone. Functions that no file creates any more are dropped.
    """
    connection.execute(
        text(
            f"create table if not exists {_APPLIED}"
            " (name text primary key, sha256 text not null, applied_at timestamptz not null)"
        )
    )
    have = {row.name: row.sha256 for row in connection.execute(text(f"select name, sha256 from {_APPLIED}"))}
    files = list(sql_files())
    due = {file.name for file in files if have.get(file.name) != file.sha256}
    if due or schema_changed:
        due.add(_GRANTS)
    if schema_changed:
        due |= {_POLICIES, OWNER_POLICIES}
    changed = _with_other_signatures(files, due)
    # Bodies may name functions of a later file.
    connection.execute(text("set local check_function_bodies = off"))
    for file in changed:
        if file.name.startswith("access/"):
            continue
        _apply(connection, file)
    _drop_left_over_functions(connection, files, changed)
    # A file that went and comes back with the text that it had must be applied again.
    connection.execute(
        text(f"delete from {_APPLIED} where name <> all (:names)"), {"names": [file.name for file in files]}
    )
    for file in files:
        if file in changed and file.name.startswith("access/"):
            _apply(connection, file)
        elif file.name in (_GRANTS, OWNER_POLICIES):
            run_script(connection, file.text)
    return [file.name for file in changed]


def _with_other_signatures(files: list[SqlFile], due: set[str]) -> list[SqlFile]:
    """Return the files that are `due` and those that create other signatures of the same functions.

    Of a function that is created anew, signatures that were not are dropped.
    """
    changed = [file for file in files if file.name in due]
    while True:
        names = set(created_names(changed))
        more = [file for file in files if file in changed or names & set(created_names([file]))]
        if more == changed:
            return changed
        changed = more


def _apply(connection: Connection, file: SqlFile) -> None:
    """Apply `file` and note that it was.

    CREATE OR REPLACE keeps a function's identity, which a call that is under way may hold. It refuses a function that
    returns something else than it did, or names its arguments otherwise; only then the file's functions are dropped.
    """
    try:
        with connection.begin_nested():
            run_script(connection, file.text)
    except ProgrammingError as error:
        if not isinstance(error.orig, errors.InvalidFunctionDefinition):
            raise
        _drop_private_functions(connection, file)
        run_script(connection, file.text)
    connection.execute(
        text(
            f"insert into {_APPLIED} values (:name, :sha256, now())"
            " on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at"
        ),
        {"name": file.name, "sha256": file.sha256},
    )


def _drop_private_functions(connection: Connection, file: SqlFile) -> None:
    """Drop the private functions that `file` creates, except for those that a trigger or a policy needs."""
    _drop(
        connection,
        """
            select p.oid::pg_catalog.regprocedure::text
            from pg_catalog.pg_proc p
            where p.pronamespace = 'stats_private'::regnamespace
                and 'stats_private.' || p.proname = any (:created)
                and not exists (
                    select from pg_catalog.pg_depend d
                    where d.refclassid = 'pg_catalog.pg_proc'::regclass and d.refobjid = p.oid)
        """,
        created=created_names([file]),
    )


def _drop_left_over_functions(connection: Connection, files: list[SqlFile], changed: list[SqlFile]) -> None:
    """Drop our functions that no file names, and other signatures of those that were just created."""
    _drop(
        connection,
        """
            select p.oid::pg_catalog.regprocedure::text
            from pg_catalog.pg_proc p
            cross join lateral (select p.pronamespace::pg_catalog.regnamespace || '.' || p.proname as name) n
            where p.pronamespace in ('public'::regnamespace, 'stats_private'::regnamespace)
                and p.proowner = (select r.oid from pg_catalog.pg_roles r where r.rolname = current_user)
                and (
                    n.name <> all (:all_names)
                    -- Its name was created in this transaction, this signature was not: it is older.
                    or (n.name = any (:created) and pg_catalog.age(p.xmin) > 0)
                )
        """,
        all_names=created_names(files),
        created=created_names(changed),
    )


def _drop(connection: Connection, signatures: str, **names: list[str]) -> None:
    for signature in connection.scalars(text(signatures), names).all():
        connection.execute(text(f"drop function {signature}"))


def created_names(files: list[SqlFile]) -> list[str]:
    """Return the names, with their schemas, of the functions that `files` create."""
    return [name for file in files for name in re.findall(r"create or replace function ([\w.]+)", file.text)]
