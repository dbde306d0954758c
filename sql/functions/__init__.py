"""The current text of every function, trigger, policy and grant, one short file a subject."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text

from sql.script import run_script

SUBJECTS = ("identity", "locks", "numbers", "queue", "writes", "pipeline", "maintenance", "readers", "access")
"""The folders in the order in which they are applied: grants come last, when everything they name exists."""

_APPLIED = "stats_private.applied_sql_files"


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
    for subject in SUBJECTS:
        for path in sorted((root / subject).glob("*.sql")):
            yield SqlFile(f"{subject}/{path.name}", path.read_text(encoding="utf-8"))


def apply_functions(connection: Connection) -> list[str]:
    """Apply every file whose text differs from what this database has; return their names."""
    connection.execute(
        text(
            f"create table if not exists {_APPLIED}"
            " (name text primary key, sha256 text not null, applied_at timestamptz not null)"
        )
    )
    have = {row.name: row.sha256 for row in connection.execute(text(f"select name, sha256 from {_APPLIED}"))}
    # Bodies may name functions of a later file.
    connection.execute(text("set local check_function_bodies = off"))
    changed = [file for file in sql_files() if have.get(file.name) != file.sha256]
    for file in changed:
        run_script(connection, file.text)
        connection.execute(
            text(
                f"insert into {_APPLIED} values (:name, :sha256, now())"
                " on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at"
            ),
            {"name": file.name, "sha256": file.sha256},
        )
    return [file.name for file in changed]
