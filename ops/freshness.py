"""How fresh an account is: what was requested, what is applied, and how long the last save took to be published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Engine, text

from tasks.transaction import service, transaction

_FRESHNESS = text("""
    select s.requested_version, s.applied_version, last_save.committed_at, publication.committed_at
    from public.user_stats_refresh_state s
    cross join lateral (
        select max(pg_catalog.pg_xact_commit_timestamp(r.xmin)) as committed_at
        from public.stats_mutation_receipts r
        where r.user_id = s.user_id and r.requested_version = (
            select max(n.requested_version) from public.stats_mutation_receipts n where n.user_id = s.user_id)
    ) last_save
    cross join lateral (select pg_catalog.pg_xact_commit_timestamp(s.xmin) as committed_at) publication
    where s.user_id = :user_id and pg_catalog.current_setting('track_commit_timestamp') = 'on'
    union all
    select s.requested_version, s.applied_version, null, null
    from public.user_stats_refresh_state s
    where s.user_id = :user_id and pg_catalog.current_setting('track_commit_timestamp') <> 'on'
""")


@dataclass(frozen=True)
class Freshness:
    """One account's generations. `save_to_published`: from the last save's commit to its publication's commit, by
    the database's clock; None while the save is unpublished or the server keeps no commit times."""

    requested: int
    applied: int
    save_to_published: timedelta | None

    @property
    def is_fresh(self) -> bool:
        return self.requested == self.applied


def freshness(engine: Engine, user_id: UUID) -> Freshness:
    """Return how fresh the account is; an account that never saved has requested and applied 0."""
    with transaction(engine, service()) as connection:
        row = connection.execute(_FRESHNESS, {"user_id": user_id}).one_or_none()
    if row is None:
        return Freshness(0, 0, None)
    requested, applied, saved_at, published_at = row
    published = requested == applied and saved_at is not None and published_at is not None
    return Freshness(requested, applied, published_at - saved_at if published else None)
