"""`stats-refresh verify`: what is published, against a rebuild from the source rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.progress import track
from sqlalchemy import Connection, text

from ops.errors import OperatorError
from ops.printing import Column, Table, say
from ops.service_calls import as_service

_TABLES = (
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
"""Where an account may have rows; what is published outlives the rest only where something went wrong."""
_ACCOUNTS = text(f"""
    select a.user_id
    from ({" union ".join(f"select t.user_id from public.{table} t" for table in _TABLES)}) a
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
_ATTEMPTS = 5
"""An account that is published again and again meanwhile is compared at most so often."""


@dataclass(frozen=True)
class Finding:
    """One kind of difference of an account."""

    user_id: UUID
    what: str
    detail: str


@dataclass(frozen=True)
class Verified:
    """What the comparison of one account says; `waits`: it has a generation to come, so it was not compared."""

    user_id: UUID
    waits: bool
    findings: Sequence[Finding]


def verify(database_url: str, user_id: UUID | None, sample: int | None) -> bool:
    """Compare one account, `sample` random ones or all; print what differs and tell whether nothing did.

    Raises OperatorError for an account that has no rows.
    """
    if user_id is not None and sample is not None:
        raise OperatorError("name an account or the size of a sample, not both")
    with as_service(database_url) as connection:
        rows = connection.execute(_ACCOUNTS, {"user": user_id, "sample": sample})
        users = [row.user_id for row in rows]
    if user_id is not None and not users:
        raise OperatorError(f"there is no account {user_id}")
    verified = [
        verify_account(database_url, user)
        for user in track(users, "comparing", transient=True, console=Console(stderr=True))
    ]
    findings = [finding for one in verified for finding in one.findings]
    if findings:
        say(findings_table(findings))
    waiting = sum(one.waits for one in verified)
    differing = len({finding.user_id for finding in findings})
    say(
        f"{len(verified) - waiting} accounts compared, {differing} differ,"
        f" {waiting} wait for a run and were not compared"
    )
    return not findings


def verify_account(database_url: str, user_id: UUID) -> Verified:
    """Compare one account with a rebuild, in a transaction of its own."""
    for _ in range(_ATTEMPTS):
        with as_service(database_url) as connection:
            integrity: dict[str, Any] = connection.execute(_INTEGRITY, {"user": user_id}).scalar_one()
            if integrity["moved"]:
                continue
            findings = () if integrity["stale"] else tuple(_findings(connection, user_id, integrity))
            if findings and not _is_still(connection, user_id, integrity):
                continue
            return Verified(user_id, integrity["stale"], findings)
    return Verified(user_id, True, ())


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return the differences as a table."""
    return Table(
        (Column("account"), Column("what"), Column("detail", prose=40)),
        [(str(finding.user_id), finding.what, finding.detail) for finding in findings],
    )


def _findings(connection: Connection, user_id: UUID, integrity: dict[str, Any]) -> Iterator[Finding]:
    for read_model, count in sorted(integrity["counts"].items()):
        missing, wrong, surplus = count["i"], count["u"], count["d"]
        if missing or wrong or surplus:
            yield Finding(user_id, read_model, f"{missing} rows missing, {wrong} wrong, {surplus} too many")
    orphans = connection.execute(_ORPHANS, {"user": user_id}).all()
    if orphans:
        days = ", ".join(f"{row.as_of_date} ({row.count} rows)" for row in orphans)
        yield Finding(user_id, "orphan snapshots", days)


def _is_still(connection: Connection, user_id: UUID, integrity: dict[str, Any]) -> bool:
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
