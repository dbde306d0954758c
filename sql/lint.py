"""SQL checks: every function file parses, begins with its header, and names what it must.

`python -m sql.lint` prints a line for each finding and exits with 1 where there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pglast import parse_plpgsql, parse_sql
from pglast.parser import ParseError

from sql.functions import SqlFile, sql_files

_LONGEST_LINE = 125
_HEADER_FIELDS = ("Promises", "Locks", "Writes")
_MIGRATIONS = Path(__file__).parent / "migrations" / "versions"
_SQUAWK_EXCLUDED = (
    # One transaction frame around all steps (sql/migrate.py) sets the timeouts and begins the transaction.
    "require-timeout-settings",
    "prefer-robust-stmts",
    # Ids of people's choice and protocol limits, not storage advice.
    "prefer-text-field",
    "prefer-bigint-over-int",
    "prefer-bigint-over-smallint",
    "prefer-identity",
    # The one-byte type "char", which squawk takes for character.
    "ban-char-field",
    # A step makes its tables and their indexes together; one on a table with rows says so and how.
    "require-concurrent-index-creation",
)


def findings() -> Iterator[str]:
    """Yield every finding in the function files."""
    for file in sql_files():
        yield from (f"sql/functions/{file.name}: {problem}" for problem in _problems(file))


def _problems(file: SqlFile) -> Iterator[str]:
    header = _header(file.text)
    for field in _HEADER_FIELDS:
        if f"-- {field}:" not in header:
            yield f"the header has no line `-- {field}:`"
    for number, line in enumerate(file.text.splitlines(), start=1):
        if len(line) > _LONGEST_LINE:
            yield f"line {number} has {len(line)} characters, more than {_LONGEST_LINE}"
        if line != line.rstrip() or "\t" in line:
            yield f"line {number} ends in blanks or holds a tab"
    try:
        parse_sql(file.text)
        for function in _plpgsql_functions(file.text):
            # The parser knows no schemas but public and pg_catalog for the types of variables.
            parse_plpgsql(function.replace("stats_private.", "public."))
    except ParseError as error:
        yield f"does not parse: {error}"
    for function in _functions(file.text):
        if "security definer" in function and "set search_path = pg_catalog, pg_temp" not in function:
            yield f"{_name(function)} is SECURITY DEFINER without its own search_path"


def _header(text: str) -> str:
    return "\n".join(line for line in text.split("\ncreate ", 1)[0].splitlines() if line.startswith("--"))


def _functions(text: str) -> list[str]:
    """Return each `create or replace function` statement, to its final semicolon."""
    return re.findall(r"create or replace function .*?\$\$;", text, flags=re.DOTALL)


def _plpgsql_functions(text: str) -> list[str]:
    return [function for function in _functions(text) if "language plpgsql" in function]


def _name(function: str) -> str:
    found = re.match(r"create or replace function ([\w.]+)", function)
    return found[1] if found else "a function"


def lint_migrations() -> int:
    """Run squawk over the migration steps; return its exit code."""
    steps = sorted(str(path) for path in _MIGRATIONS.glob("*.sql"))
    squawk = Path(sys.executable).with_name("squawk")
    excluded = [f"--exclude={rule}" for rule in _SQUAWK_EXCLUDED]
    command: list[str | Path] = [squawk, "--pg-version=15.0", "--assume-in-transaction", *excluded, *steps]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Print the findings; return the exit code."""
    found = list(findings())
    for finding in found:
        print(finding)  # noqa: T201 - this is a command
    return max(bool(found), lint_migrations())


if __name__ == "__main__":
    sys.exit(main())
