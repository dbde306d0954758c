"""How Celery and RedBeat reach Redis by the one URL that is configured: its form for each, and its password apart.

Workers answer `inspect conf` and `inspect stats` to whoever asks, and Flower shows that: what stands in Celery's
settings is public, so the password stays out of them. A connection asks for it when it is made.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from redis import CredentialProvider
from redis.connection import parse_url

from core.config import REDIS_SCHEMES, config
from core.redis_keys import PREFIX

TRANSPORT_OPTIONS: dict[str, Any] = {
    # Queues and channels of another Celery app on the same Redis have names such as "celery", or even ours.
    "global_keyprefix": PREFIX,
    # A message that its worker did not live to answer is lost, and the next beat does its work. kombu's list of
    # messages in hand would only deliver it once more, a minute later, and is one more thing to be damaged.
    "ack_emulation": False,
    # A Redis that went silent without closing its connections is noticed, too.
    "socket_connect_timeout": 5,
    "socket_timeout": 30,
    "socket_keepalive": True,
}
"""Of whoever sends our messages or takes them."""


class UrlCredentials(CredentialProvider):
    """The user and the password of a Redis URL, for connections whose own URL has none; shown by nothing."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        found = parse_url(self._url)
        password = str(found.get("password") or "")
        return (str(found["username"]), password) if found.get("username") else (password,)


class ConfiguredCredentials(UrlCredentials):
    """Those of STATS_REFRESH_REDIS_URL, for a transport that knows this class by its name in the URL."""

    def __init__(self) -> None:
        super().__init__(config().redis_url or "")


def has_password(redis_url: str) -> bool:
    """Tell whether `redis_url` has a user or a password."""
    if urlsplit(redis_url).scheme not in REDIS_SCHEMES:
        return False
    found = parse_url(redis_url)
    return bool(found.get("username") or found.get("password"))


def without_password(redis_url: str) -> str:
    """Return `redis_url` without its user and password, wherever in it they stand."""
    parts = urlsplit(redis_url)
    query = [pair for pair in parse_qsl(parts.query, True) if pair[0] not in ("username", "password")]
    return _url(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, dict(query))


def public_broker_url(redis_url: str) -> str:
    """Return the broker's URL without its password; connections get that from ConfiguredCredentials."""
    url = broker_url(without_password(redis_url))
    if not has_password(redis_url):
        return url
    name = f"{__name__}.{ConfiguredCredentials.__name__}"
    return f"{url}{'&' if urlsplit(url).query else '?'}credential_provider={name}"


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
