"""What a call of the client raises."""

from __future__ import annotations

from uuid import UUID


class StatsError(Exception):
    """All errors of the client. `mutation_id` is that of the write that failed, to send it again with."""

    mutation_id: UUID | None = None


class ContractError(StatsError):
    """A caller or the service breaks the contract: asking again would not help."""


class ClientClosed(StatsError):
    """The client was closed before the answer came; a write may have been stored."""


class Unanswered(StatsError):
    """No answer came, after all attempts. A write may have been stored: send it again with its `mutation_id`."""


class Refused(StatsError):
    """The service answered with a problem."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        sqlstate: str | None = None,
        hint: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status}: {detail}" + (f" ({hint})" if hint else ""))
        self.status, self.detail, self.sqlstate, self.hint = status, detail, sqlstate, hint
        self.reason, self.request_id, self.retry_after = reason, request_id, retry_after


class Invalid(Refused):
    """A value breaks a rule; `detail` begins with its path."""


class Unauthorized(Refused):
    """No valid token, or one that does not allow this."""


class NotThere(Refused):
    """The session, record or exercise is not there."""


class Conflict(Refused):
    """The session was changed since `expected_updated_at`."""


class NotPublished(Refused):
    """There is no snapshot of that day. `reason`: building and behind pass, not_in_window does not."""

    @property
    def passes(self) -> bool:
        """Whether the same request is answered later."""
        return self.reason != "not_in_window"


class Unavailable(Refused):
    """The service, its database or a proxy can't answer now, after all attempts."""


class DeploymentFailure(Refused):
    """A route or an SQL function is missing: service and database are not at this client's release."""


_MISSING = ("42883", "42P01", "42703", "3F000", "42704")
"""A function, table, column, schema or type that is not there."""
_AWAY = (429, 502, 503, 504)
_KINDS: dict[int, type[Refused]] = {
    400: Invalid, 401: Unauthorized, 403: Unauthorized, 404: NotThere, 409: Conflict, 413: Invalid, 422: Invalid,
}  # fmt: skip


def kind_of(status: int, sqlstate: str | None) -> type[Refused]:
    """Return the class of an answer that is a problem."""
    if sqlstate is not None and (sqlstate in _MISSING or sqlstate.startswith("PGRST")):
        return DeploymentFailure
    if status in (404, 405) and sqlstate is None:
        return DeploymentFailure
    if status in _AWAY:
        return Unavailable
    if sqlstate == "55000":
        return NotPublished
    return _KINDS.get(status, Refused)


def is_lasting(error: BaseException) -> bool:
    """Tell whether the same question would be refused again, whoever of the account asks it."""
    if not isinstance(error, Refused) or isinstance(error, Unauthorized | Unavailable):
        return False
    if getattr(error, "passes", False):
        return False
    return 400 <= error.status < 500 and error.status not in (408, 429)
