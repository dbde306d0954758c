"""The arguments that several routes take, each with its rule, its words and its example."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated
from uuid import UUID

from fastapi import Header, Path, Query
from pydantic import BeforeValidator, WithJsonSchema

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def _day(value: object) -> object:
    # A date of pydantic's may be a number of seconds, too.
    if isinstance(value, str) and not _DAY.fullmatch(value):
        raise ValueError("must be a day as YYYY-MM-DD")
    return value


def _uuid(value: object) -> object:
    if isinstance(value, str) and not _UUID.fullmatch(value):
        raise ValueError("must be a uuid as 8-4-4-4-12 hexadecimal digits")
    return value


def _month(value: object) -> object:
    return _day(f"{value}-01" if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}", value) else value)


Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]
Id = Annotated[UUID, BeforeValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid"})]
Month = Annotated[
    date, BeforeValidator(_month), WithJsonSchema({"type": "string", "pattern": r"^\d{4}-(0[1-9]|1[0-2])$"})
]

AsOf = Annotated[
    Day,
    Query(
        alias="date",
        description="The day that the answer is about, as the account's app counts days.",
        examples=["2026-03-10"],
    ),
]
MonthOf = Annotated[
    Month, Query(alias="month", description="A month, or any day of it.", examples=["2026-03"])
]
MutationId = Annotated[
    Id,
    Header(
        alias="Idempotency-Key",
        description="A uuid of this write: a write sent again within 30 days is done once, and answers the same.",
        examples=["0d9cf1a0-58a5-4b52-a6a5-27e0d2f2a7c1"],
    ),
]
MinGeneration = Annotated[
    int | None,
    Query(
        ge=1,
        le=2**63 - 1,
        description="The generation that the answer should have at least: `statsRequestedVersion` of a receipt.",
        examples=[7],
    ),
]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=30,
        allow_inf_nan=False,
        description="Seconds to wait for `min_generation`. When they are over the present answer comes, marked stale.",
        examples=[10],
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(description="The ETag of an answer that the caller has: 304 where it still holds.")
]
SessionId = Annotated[Id, Path(description="The session, as its receipt named it.")]
ExerciseId = Annotated[
    str, Path(min_length=1, max_length=200, description="The exercise's id, percent-encoded.")
]
