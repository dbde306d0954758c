"""`python -m tests.support.reachable URL`: exit 0 where a superuser gets into a PostgreSQL of 15 or later there."""

from __future__ import annotations

import sys

from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from core.config import database_url
from embedded.postgres import OLDEST_VERSION


def is_reachable(url: str) -> bool:
    """Tell whether the server answers, is new enough and lets us create databases and roles."""
    engine = create_engine(database_url(url), poolclass=NullPool, connect_args={"connect_timeout": 3})
    try:
        with engine.connect() as connection:
            version = int(connection.scalar(text("show server_version_num")) or 0) // 10_000
            is_superuser = connection.scalar(text("show is_superuser")) == "on"
    except OperationalError:
        return False
    return version >= OLDEST_VERSION and is_superuser


if __name__ == "__main__":
    sys.exit(not is_reachable(sys.argv[1]))
