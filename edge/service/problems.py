"""Errors as the caller reads them: RFC 9457 problem details, and what each SQLSTATE is in HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
TITLES: Mapping[int, str] = {
    400: "The request can't be read",
    401: "No valid token",
    403: "Not allowed",
    404: "Not there",
    405: "No such method here",
    408: "The body came too slowly",
    409: "Not in this state",
    413: "The body is too large",
    422: "A value breaks a rule",
    500: "A defect of the service",
    503: "Not available now",
}
_AGAIN_SOON = {"Retry-After": "1"}

_BUSY_STATES = ("55P03", "57014", "40P01", "25006")
"""A lock or the time was not to be had, a deadlock was broken, or the server is a standby for now."""
_SERVER_AWAY = ("08", "53", "57P", "58", "28", "3D", "XX")
_OTHER_RELEASE = ("42883", "42P01", "42703", "3F000", "42704")


class Problem(Exception):
    """An answer that is an error. `detail` is for a person, and never holds a secret or a statement."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        sqlstate: str | None = None,
        hint: str | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})
        self.sqlstate, self.hint, self.reason = sqlstate, hint, reason

    def response(self, request_id: str) -> Response:
        """Return the answer as application/problem+json."""
        fields = {
            "type": "about:blank",
            "title": TITLES.get(self.status, "The request failed"),
            "status": self.status,
            "detail": self.detail,
            "sqlstate": self.sqlstate,
            "hint": self.hint,
            "reason": self.reason,
            "request_id": request_id,
        }
        content = json.dumps({name: value for name, value in fields.items() if value is not None})
        return Response(content, self.status, self.headers, MEDIA_TYPE)


def unavailable(detail: str, *, sqlstate: str | None = None, seconds: int = 1) -> Problem:
    """Return a 503 that says when to come again."""
    return Problem(503, detail, sqlstate=sqlstate, headers={"Retry-After": str(seconds)})


def unauthorized(detail: str) -> Problem:
    """Return a 401 with the challenge that the standard asks for."""
    return Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


def of_database(error: SQLAlchemyError) -> Problem:
    """Return the answer for an error of the database or of the way to it."""
    if isinstance(error, PoolTimeout):
        return unavailable("All connections to the database are in use.")
    state = getattr(getattr(error, "orig", None), "pgcode", None)
    if not isinstance(error, DBAPIError) or state is None:
        if isinstance(error, OperationalError | InterfaceError) or getattr(
            error, "connection_invalidated", False
        ):
            return unavailable("The database does not answer.")
        return Problem(500, "The service failed; its log has the request id.")
    if state in _OTHER_RELEASE:
        return unavailable("The database is not at this release.", sqlstate=state, seconds=60)
    if state in _BUSY_STATES:
        return unavailable("The database could not do this now; nothing was written.", sqlstate=state)
    if state.startswith(_SERVER_AWAY):
        # It may have gone while it committed.
        return unavailable(
            "The database went away: send the same request again, with the same Idempotency-Key.",
            sqlstate=state,
        )
    return _refusal(error, state)


def _refusal(error: DBAPIError, state: str) -> Problem:
    """Return what the database refuses, in our functions' words, which hold nothing secret."""
    diagnosis = error.orig.diag  # type: ignore[union-attr]
    detail, hint = str(diagnosis.message_primary), diagnosis.message_hint
    if state.startswith(("22", "23", "54")):
        return Problem(422, detail, sqlstate=state, hint=hint)
    if state == "42501":
        return Problem(403, detail, sqlstate=state, hint=hint)
    if state == "P0002":
        return Problem(404, detail, sqlstate=state, hint=hint)
    if state == "40001":
        return Problem(409, detail, sqlstate=state, hint=hint)
    if state == "55000":
        reason = diagnosis.message_detail
        headers = _AGAIN_SOON if reason in ("building", "behind") else None
        return Problem(409, detail, sqlstate=state, hint=hint, reason=reason, headers=headers)
    return Problem(500, "The service failed; its log has the request id.", sqlstate=state)
