"""The one error that a person who typed a command gets to read."""

from __future__ import annotations


class OperatorError(Exception):
    """A problem with one clear line that says what is wrong and what to do next.

    `stats-refresh` prints the line without a traceback and exits with `exit_code`.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StackFailed(OperatorError):
    """A stack that was set up rightly did not do its work: what its processes said last may tell why."""
