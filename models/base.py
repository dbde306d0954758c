"""What all tables share: the metadata, the SQL type behind each Python type, and columns that recur.

The Alembic steps make the tables; the models describe them, and a test holds the two together. Every table
names its schema, so nothing depends on a search path.

Unless a column says otherwise, weights are kilograms, distances metres, timestamps UTC, and a `date` is the
account's local day as the client sent it. `Mapped[ByteText]` compares byte by byte, as keys do.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar
from uuid import UUID

from sqlalchemy import BigInteger, MetaData, Numeric, SmallInteger, Text, Uuid, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.types import UserDefinedType

PRIVATE = "stats_private"
"""The schema that no API role can use."""


class InternalChar(UserDefinedType[str]):
    """PostgreSQL's one-byte ``"char"``, which SQLAlchemy has no type for."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return '"char"'


class Base(DeclarativeBase):
    """The root of every model."""

    metadata = MetaData(
        schema="public",
        naming_convention={"pk": "%(table_name)s_pkey", "fk": "%(table_name)s_%(column_0_name)s_fkey"},
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text(),
        UUID: Uuid(),
        datetime: TIMESTAMP(timezone=True),
        list[str]: ARRAY(Text()),
        dict[str, Any]: JSONB(),
    }


metadata = Base.metadata

ByteText = Annotated[str, mapped_column(Text(collation="C"))]
ByteTexts = Annotated[list[str], mapped_column(ARRAY(Text(collation="C")))]
SmallInt = Annotated[int, mapped_column(SmallInteger)]
BigInt = Annotated[int, mapped_column(BigInteger)]

Kilograms = Annotated[Decimal, mapped_column(Numeric(8, 2))]
"""A weight as it was lifted."""
OneRepMax = Annotated[Decimal, mapped_column(Numeric(10, 2))]
"""A one-repetition maximum in kilograms. An estimate can exceed what `Kilograms` holds."""
Milliseconds = Annotated[Decimal, mapped_column(Numeric(12, 3))]

NewId = Annotated[UUID, mapped_column(primary_key=True, server_default=text("gen_random_uuid()"))]
"""A primary key that the database draws at random."""
WrittenAt = Annotated[datetime, mapped_column(server_default=func.now())]
"""When the row was written: by default the start of the transaction."""
