"""This process's connection to Postgres."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Engine, create_engine, make_url

from core.config import config

TCP = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    # Milliseconds: what is sent and not confirmed ends the connection, which keepalives alone don't.
    "tcp_user_timeout": 20_000,
}
"""libpq's parameters for connections that last: a server that is gone without a word is noticed within seconds."""


@cache
def engine() -> Engine:
    """Return this process's engine, made at its first use.

    A pool child runs one task at a time, so one connection is all it needs. It must be made in the child: a
    connection that two processes share mixes up their answers.
    """
    url = config().database_url
    if url is None:
        raise RuntimeError("STATS_REFRESH_DATABASE_URL is not set: a worker needs a database")
    ours = {**TCP, "application_name": "stats-refresh"}
    # What the URL says goes over it; the arguments would go over the URL.
    arguments = {name: value for name, value in ours.items() if name not in make_url(url).query}
    return create_engine(url, pool_size=1, max_overflow=0, connect_args=arguments)
