"""What an operator reads of an error of the database: one line that says what it is and what to do."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from core.errors import OperatorError

_NOT_LET_IN = ("no password supplied", "password authentication failed", "Permission denied")
"""What libpq says, without a SQLSTATE, where the server is there and this user or login is not welcome."""
_CONNECTION_FAILED = ("08", "28", "3D", "57P")
"""Classes of SQLSTATE: connection, authorisation, no such database, server going down."""
_NOT_OF_THIS_RELEASE = ("42883", "42P01", "42703", "3F000")
"""No such function, table, column or schema."""
_NO_MEMBER = "permission denied to set role"
_NO_SUCH_ROLE = ('invalid value for parameter "role"', 'role "service_role" does not exist')
_REFUSALS = ("22023", "42501", "55000", "P0002", "22P02")
"""SQLSTATEs of answers: a value, a right, a state or a row that is not there, or no value at all."""


def operator_error(error: DBAPIError) -> OperatorError | None:
    """Return the error for a person; None where the server said nothing: then it is a defect of the caller's."""
    line = first_line(error)
    state = getattr(error.orig, "pgcode", None)
    if state is None and not isinstance(error, OperationalError | InterfaceError):
        return None
    if state is None and any(words in line for words in _NOT_LET_IN):
        return OperatorError(
            f"Postgres does not let this login in ({line}): correct user and password in STATS_REFRESH_DATABASE_URL; "
            "an embedded stack is for the user who runs it"
        )
    if state is None or state.startswith(_CONNECTION_FAILED):
        return OperatorError(
            f"Postgres does not answer ({line}): start it or correct STATS_REFRESH_DATABASE_URL"
        )
    if of_another_release(error):
        return OperatorError(f"the database is not at this release ({line}): run stats-refresh migrate")
    if line.startswith(_NO_MEMBER):
        return OperatorError(
            f"{line}: grant service_role, authenticated, anon to the login in STATS_REFRESH_DATABASE_URL"
        )
    if state in _REFUSALS:
        return OperatorError(line)
    return OperatorError(f"Postgres refuses with SQLSTATE {state}: {line}")


def of_another_release(error: DBAPIError) -> bool:
    """Tell whether something is not there that `migrate` makes."""
    return getattr(error.orig, "pgcode", None) in _NOT_OF_THIS_RELEASE or first_line(error).startswith(
        _NO_SUCH_ROLE
    )


def first_line(error: DBAPIError) -> str:
    """Return the server's own line, without the statement and the link that SQLAlchemy adds."""
    return str(error.orig).strip().partition("\n")[0]
