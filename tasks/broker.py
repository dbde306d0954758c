"""One Redis URL for everybody: redis-py and RedBeat read one form, Celery's transport another."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit


def broker_url(redis_url: str) -> str:
    """Return `redis_url`, written for redis-py, in the form that Celery's Redis transport understands.

    They differ in two places. A unix socket is ``unix:///path?db=1`` for redis-py and
    ``redis+socket:///path?virtual_host=1`` for Celery; and redis-py takes the database from ``?db=`` too,
    while Celery only looks at the path and would quietly use database 0.
    """
    parts = urlsplit(redis_url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    database = query.pop("db", None)
    if parts.scheme == "unix":
        query["virtual_host"] = database or "0"
        return _url("redis+socket", parts.netloc, parts.path, query)
    return _url(parts.scheme, parts.netloc, parts.path if database is None else f"/{database}", query)


def _url(scheme: str, netloc: str, path: str, query: dict[str, str]) -> str:
    # By hand: urlunsplit drops the empty host of a socket's URL, and with it the two slashes Celery looks
    # for.
    return f"{scheme}://{netloc}{path}" + (f"?{urlencode(query)}" if query else "")
