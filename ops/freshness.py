"""How fresh an account is: what was requested, what is applied, and how long the last save took to be published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, text

from tasks.transaction import service, transaction

_FRESHNESS = text("select public.stats_account_freshness_v1(:user_id)")


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
        row: dict[str, Any] = connection.execute(_FRESHNESS, {"user_id": user_id}).scalar_one()
    requested, applied = row["requested_version"], row["applied_version"]
    if requested != applied or row["saved_at"] is None or row["published_at"] is None:
        return Freshness(requested, applied, None)
    published = datetime.fromisoformat(row["published_at"]) - datetime.fromisoformat(row["saved_at"])
    return Freshness(requested, applied, published)
