"""`stats-refresh verify`: what is published, against a rebuild from the source rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from rich.console import Console
from rich.progress import track
from sqlalchemy import Connection, text

from ops.errors import OperatorError
from ops.printing import Column, Table, say
from ops.service_calls import as_service

ACCOUNT_TABLES = (
    "user_stats_refresh_state",
    "workout_sessions",
    "user_manual_pr_records",
    "user_exercise_daily_rollups",
    "user_exercise_records",
    "user_exercise_rep_maxes",
    "user_training_period_stats",
    "user_calendar_day_summaries",
    "user_pr_overview_snapshot_headers",
    "user_pr_exercise_summary_snapshots",
)
"""Where an account may have rows; what is published outlives the rest only where something went wrong.

stats_private.rep_max_steps is a read model too, but service_role may not read it, and it is written only beside the
rep maxes. Of an account that is found its rows are compared.
"""
_ACCOUNTS = text(f"""
    select a.user_id
    from ({" union ".join(f"select t.user_id from public.{table} t" for table in ACCOUNT_TABLES)}) a
    where cast(:user as uuid) is null or a.user_id = :user
    order by case when cast(:sample as integer) is null then a.user_id::text else md5(random()::text) end
    limit :sample
""")
_INTEGRITY = text("select public.validate_user_exercise_stats_integrity(:user)")
_ORPHANS = text("""
    select x.as_of_date, count(*)
    from (
        select h.as_of_date from public.user_pr_overview_snapshot_headers h
        where h.user_id = :user and not exists (
            select from public.user_stats_refresh_state s
            where s.user_id = :user and h.as_of_date between s.published_anchor - 1 and s.published_anchor + 1)
        union all
        select x.as_of_date from public.user_pr_exercise_summary_snapshots x
        where x.user_id = :user and not exists (
            select from public.user_pr_overview_snapshot_headers h
            where h.user_id = :user and h.as_of_date = x.as_of_date)
    ) x
    group by 1
    order by 1
""")
# A claim takes pending and exhausted jobs together, so an account waits for an operator only where all are exhausted.
_WHY_STALE = text("""
    select
        case
            when s.applied_version = s.requested_version and s.applied_policy_version = p.policy_version then null
            when 'processing' = any (j.statuses) then 'in flight'
            when 'pending' = any (j.statuses) then 'pending'
            when 'failed' = any (j.statuses) then 'exhausted'
            when s.applied_version = s.requested_version then 'policy'
            else 'no job'
        end as reason,
        j.failed_id
    from public.user_stats_refresh_state s
    cross join public.stats_projection_policy p
    cross join lateral (
        select
            array_agg(o.status) as statuses,
            (array_agg(o.id order by o.requested_version) filter (where o.status = 'failed'))[1] as failed_id
        from public.user_exercise_stats_refresh_jobs o
        where o.user_id = s.user_id and o.status in ('pending', 'processing', 'failed')
    ) j
    where s.user_id = :user
""")
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
            if integrity["stale"]:
                left_out = _why_stale(connection, user_id)
                if left_out is None:
                    continue
                return Verified(user_id, left_out=left_out)
            findings = tuple(_findings(connection, user_id, integrity))
            if findings and not _is_unchanged(connection, user_id, integrity):
                continue
            return Verified(user_id, findings)
    return Verified(user_id, left_out=LeftOut("busy"))


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return the differences as a table."""
    return Table(
        (Column("account"), Column("what"), Column("detail", prose=40)),
        [(str(finding.user_id), finding.what, finding.detail) for finding in findings],
    )


def _why_stale(connection: Connection, user_id: UUID) -> LeftOut | None:
    """Return what a stale account waits for; None where it is stale no more."""
    row = connection.execute(_WHY_STALE, {"user": user_id}).one_or_none()
    if row is None or row.reason is None:
        return None
    return LeftOut(row.reason, row.failed_id if row.reason == "exhausted" else None)


def _findings(connection: Connection, user_id: UUID, integrity: dict[str, Any]) -> Iterator[Finding]:
    for read_model, count in sorted(integrity["counts"].items()):
        missing, wrong, surplus = count["i"], count["u"], count["d"]
        if missing or wrong or surplus:
            yield Finding(user_id, read_model, f"{missing} rows missing, {wrong} wrong, {surplus} too many")
    orphans = connection.execute(_ORPHANS, {"user": user_id}).all()
    if orphans:
        days = ", ".join(f"{row.as_of_date} ({row.count} rows)" for row in orphans)
        yield Finding(user_id, "orphan snapshots", days)


def _is_unchanged(connection: Connection, user_id: UUID, integrity: dict[str, Any]) -> bool:
    """Tell whether neither a save nor a publication came since the comparison: then what it found counts."""
    again = connection.execute(
        text(
            "select s.requested_version, s.applied_version from public.user_stats_refresh_state s"
            " where s.user_id = :user"
        ),
        {"user": user_id},
    ).one_or_none()
    versions = (integrity["requested_version"], integrity["generation"])
    return (tuple(again) if again else (0, 0)) == versions
