"""The Python client of the HTTP service, for asyncio (AsyncClient) and for threads (Client). Needs httpx2 alone."""

from edge.client.answers import (
    Archived,
    CalendarDay,
    CalendarMonth,
    Drain,
    ExerciseDay,
    Freshness,
    HomeOverview,
    Period,
    PrDetail,
    PrOverview,
    PrSummary,
    Receipt,
    Reconciled,
    Record,
    Refresh,
    RepMax,
    StoredExercise,
    VolumeOverview,
)
from edge.client.asynchronous import AsyncAccount, AsyncClient
from edge.client.documents import Block, Grain, Session, Set, Tracking
from edge.client.errors import (
    ClientClosed,
    Conflict,
    ContractError,
    DeploymentFailure,
    Invalid,
    NotPublished,
    NotThere,
    Refused,
    StatsError,
    Unanswered,
    Unauthorized,
    Unavailable,
)
from edge.client.synchronous import Account, Client

__all__ = [
    "Account", "Archived", "AsyncAccount", "AsyncClient", "Block", "CalendarDay", "CalendarMonth", "Client",
    "ClientClosed", "Conflict", "ContractError", "DeploymentFailure", "Drain", "ExerciseDay", "Freshness", "Grain",
    "HomeOverview", "Invalid", "NotPublished", "NotThere", "Period", "PrDetail", "PrOverview", "PrSummary", "Receipt",
    "Reconciled", "Record", "Refresh", "Refused", "RepMax", "Session", "Set", "StatsError",
    "StoredExercise", "Tracking", "Unanswered", "Unauthorized", "Unavailable", "VolumeOverview",
]  # fmt: skip
