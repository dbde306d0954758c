"""This process's connection to Postgres."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Engine, create_engine

from tasks.config import config


@cache
def engine() -> Engine:
    """Return this process's engine, made at its first use.

    A pool child runs one task at a time, so one connection is all it needs. It must be made in the child: a
    connection that two processes share mixes up their answers.
    """
    url = config().database_url
    if url is None:
        raise RuntimeError("STATS_REFRESH_DATABASE_URL is not set: a worker needs a database")
    return create_engine(url, pool_size=1, max_overflow=0, connect_args={"application_name": "stats-refresh"})
