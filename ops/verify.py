"""`stats-refresh verify`: what is published, against a rebuild from the source rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from rich.console import Console
from rich.progress import track
from sqlalchemy import text

from core.errors import OperatorError
from ops.printing import Column, Table, say
from ops.service_calls import as_service

_ACCOUNTS = text("select a.user_id from public.stats_accounts_v1(:user, :sample) a (user_id)")
_INTEGRITY = text("select public.validate_user_exercise_stats_integrity(:user)")
_STANDING = text("select public.stats_account_standing_v1(:user)")
_ATTEMPTS = 5
"""An account that is published again and again meanwhile is compared at most so often."""

Reason = Literal["in flight", "pending", "exhausted", "policy", "no job", "busy"]
_WHAT_TO_DO: Mapping[Reason, str] = {
    "in flight": "a run is at work; verify again once it has ended",
    "pending": (
        "the job waits to be claimed; `stats-refresh status` says what holds it up,"
        " verify again once it is published"
    ),
    "exhausted": (
        "the job has used up its attempts; `stats-refresh jobs list --status failed` says why,"
        " `stats-refresh jobs resume {job}` tries again"
    ),
    "policy": "the changed policy has not come this far; verify again when `stats-refresh status` shows no walk",
    "no job": "newer writes wait and no job stands for them; public.refresh_stats_now_v1(user_id) asks for one",
    "busy": f"something was published during each of {_ATTEMPTS} comparisons; verify again",
}
"""Why an account can't be compared, in words, and what to do about it."""


@dataclass(frozen=True)
class Finding:
    """One kind of difference of an account."""

    user_id: UUID
    what: str
    detail: str


@dataclass(frozen=True)
class LeftOut:
    """Why an account was not compared; `exhausted_job` is the one to resume where its jobs are exhausted."""

    reason: Reason
    exhausted_job: UUID | None = None

    def __str__(self) -> str:
        return _WHAT_TO_DO[self.reason].format(job=self.exhausted_job or "JOB_ID")


@dataclass(frozen=True)
class Verified:
    """What the comparison of one account says; with `left_out` there was none, so nothing is known of it."""

    user_id: UUID
    findings: Sequence[Finding] = ()
    left_out: LeftOut | None = None


def verify(database_url: str, user_id: UUID | None, sample: int | None) -> bool:
    """Compare one account, `sample` random ones or all; print what differs and tell whether nothing did.

    Raises OperatorError for an account that has no rows, and with the exit code 2 where none could be compared.
    """
    if user_id is not None and sample is not None:
        raise OperatorError("name an account or the size of a sample, not both")
    with as_service(database_url) as connection:
        rows = connection.execute(_ACCOUNTS, {"user": user_id, "sample": sample})
        users = [row.user_id for row in rows]
    if user_id is not None and not users:
        raise OperatorError(f"there is no account {user_id}")
    console = Console(stderr=True)
    # Into a pipe the bar would leave an empty line.
    bar = track(users, "comparing", transient=True, console=console, disable=not console.is_terminal)
    verified = [verify_account(database_url, user) for user in bar]
    findings = [finding for one in verified for finding in one.findings]
    left_out = [one.left_out for one in verified if one.left_out is not None]
    if user_id is not None and left_out:
        raise OperatorError(f"account {user_id} was not compared: {left_out[0]}", exit_code=2)
    if findings:
        say(findings_table(findings))
    differing = len({finding.user_id for finding in findings})
    say(f"{len(verified) - len(left_out)} accounts compared, {differing} differ, {len(left_out)} left out")
    for reason, count in Counter(one.reason for one in left_out).most_common():
        say(f"  {count} left out: {LeftOut(reason)}")
    if verified and len(left_out) == len(verified):
        raise OperatorError("no account could be compared; the reasons are above", exit_code=2)
    return not findings


def verify_account(database_url: str, user_id: UUID) -> Verified:
    """Compare one account with a rebuild, in a transaction of its own."""
    for _ in range(_ATTEMPTS):
        with as_service(database_url) as connection:
            integrity: dict[str, Any] = connection.execute(_INTEGRITY, {"user": user_id}).scalar_one()
            if integrity["moved"]:
                continue
            # Read after the comparison: it tells whether a save or a publication came meanwhile.
            standing: dict[str, Any] = connection.execute(_STANDING, {"user": user_id}).scalar_one()
            if integrity["stale"]:
                if standing["waits_for"] is None:
                    continue
                return Verified(user_id, left_out=_left_out(standing))
            findings = tuple(_findings(user_id, integrity, standing))
            if findings and not _is_unchanged(integrity, standing):
                continue
            return Verified(user_id, findings)
    return Verified(user_id, left_out=LeftOut("busy"))


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return the differences as a table."""
    return Table(
        (Column("account"), Column("what"), Column("detail", prose=40)),
        [(str(finding.user_id), finding.what, finding.detail) for finding in findings],
    )


def _left_out(standing: dict[str, Any]) -> LeftOut:
    job = standing["exhausted_job_id"]
    return LeftOut(standing["waits_for"], None if job is None else UUID(job))


def _findings(user_id: UUID, integrity: dict[str, Any], standing: dict[str, Any]) -> Iterator[Finding]:
    for read_model, count in sorted(integrity["counts"].items()):
        missing, wrong, surplus = count["i"], count["u"], count["d"]
        if missing or wrong or surplus:
            yield Finding(user_id, read_model, f"{missing} rows missing, {wrong} wrong, {surplus} too many")
    if orphans := standing["orphan_snapshots"]:
        days = ", ".join(f"{day['as_of_date']} ({day['rows']} rows)" for day in orphans)
        yield Finding(user_id, "orphan snapshots", days)
    if window := standing["missed_window"]:
        reason = "published by a clock that ran ahead" if window["is_ahead"] else "its rollover is late"
        days = f"{window['first']} to {window['last']}, without today ({window['today']}): {reason}"
        yield Finding(
            user_id, "snapshot window", f"{days}; `stats-refresh status` says what holds the rollover up"
        )


def _is_unchanged(integrity: dict[str, Any], standing: dict[str, Any]) -> bool:
    """Tell whether neither a save nor a publication came since the comparison: then what it found counts."""
    compared = (integrity["requested_version"], integrity["generation"])
    return (standing["requested_version"], standing["applied_version"]) == compared
