"""One URL for redis-py and for Celery."""

from __future__ import annotations

import pytest
import redis
from kombu import Connection

from core.broker import broker_url
from embedded.run_folder import RunFolder
from embedded.valkey import ValkeyServer


@pytest.mark.parametrize(
    ("redis_url", "expected"),
    [
        ("redis://127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
        ("redis://127.0.0.1:6379?db=2", "redis://127.0.0.1:6379/2"),
        ("rediss://user:pw@cache:6380/0", "rediss://user:pw@cache:6380/0"),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock?virtual_host=0"),
        ("unix:///run/valkey.sock?db=3", "redis+socket:///run/valkey.sock?virtual_host=3"),
        (
            "unix://user:p%40w@/run/a%20b.sock?db=1",
            "redis+socket://user:p%40w@/run/a%20b.sock?virtual_host=1",
        ),
    ],
)
def test_form_for_celery(redis_url: str, expected: str) -> None:
    assert broker_url(redis_url) == expected


@pytest.mark.parametrize("database", [0, 3])
def test_both_clients_reach_the_same_database(database: int) -> None:
    with ValkeyServer() as server:
        url = server.redis_url.replace("db=0", f"db={database}")
        with Connection(broker_url(url)) as celery, redis.Redis.from_url(url) as ours:
            celery.default_channel.client.set("who", "celery")
            assert ours.get("who") == b"celery"


def test_password_and_a_path_with_a_space(run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(run_folder.subfolder("a b", shared=True)))
    with ValkeyServer() as server:
        with redis.Redis.from_url(server.redis_url) as client:
            client.config_set("requirepass", "p@w")
        url = server.redis_url.replace("unix://", "unix://:p%40w@")
        with Connection(broker_url(url)) as celery, redis.Redis.from_url(url) as ours:
            assert celery.default_channel.client.ping()
            assert ours.ping()
