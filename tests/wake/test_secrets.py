"""What workers and Flower tell whoever asks: never the password of Redis or of the database."""

from __future__ import annotations

import base64
import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import make_url
from support.rig import ROOT, CeleryProcess, Rig, soon

from core.broker import UrlCredentials, broker_url, public_broker_url, without_password
from sql.roles import API_ROLES

SECRET = "hunter2@/:%"
QUOTED = "hunter2%40%2F%3A%25"
BARE = "hunter2"
"""What no answer may hold, however the rest is written."""


@dataclass(frozen=True)
class Flower:
    """Flower's pages, as its operator reads them."""

    port: int

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        login = base64.b64encode(b"operator:flower").decode()
        try:
            connection.request("GET", path, headers={"Authorization": f"Basic {login}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()


@pytest.fixture(scope="module")
def settings(full_rig: Rig) -> dict[str, str]:
    """URLs with passwords; Valkey asks for its one."""
    with Redis.from_url(full_rig.valkey.redis_url) as client:
        client.config_set("requirepass", SECRET)
    roles = ", ".join(API_ROLES)
    for login, password in (("telling_worker", SECRET), ("telling_listener", f"listen-{SECRET}")):
        full_rig.database.admin(f"create role {login} login password '{password}' in role {roles}")
    return {
        "redis_url": full_rig.valkey.redis_url.replace("unix://", f"unix://:{QUOTED}@"),
        "database_url": make_url(full_rig.database.url)
        .set(username="telling_worker", password=SECRET)
        .render_as_string(hide_password=False),
        "listen_database_url": make_url(full_rig.database.url)
        .set(username="telling_listener", password=f"listen-{SECRET}")
        .render_as_string(hide_password=False),
    }


@pytest.fixture(scope="module")
def worker(full_rig: Rig, settings: dict[str, str]) -> CeleryProcess:
    process = full_rig.worker("pipeline", "compute", **settings)
    process.wait_for("listening for saves")
    return process


@pytest.fixture(scope="module")
def flower(
    full_rig: Rig, worker: CeleryProcess, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Flower]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder: Path = tmp_path_factory.mktemp("flower")
    options = ["flower", f"--conf={ROOT / 'flower.conf'}", "--persistent=True", f"--db={folder / 'flower'}"]
    asks = {**settings, "flower_port": str(port), "flower_password": "flower"}
    process = full_rig.start("flower", options, r"Connected to|Visit me at", asks)
    found = Flower(port)
    assert soon(lambda: found.get("/healthcheck")[0] == 200), process.tail()
    yield found
    assert all(BARE not in line for line in process.lines)
    assert process.count("Unable to get queues") == 0


def test_remote_control_tells_no_password(
    full_rig: Rig, worker: CeleryProcess, settings: dict[str, str]
) -> None:
    sender = full_rig.sender()
    sender.conf.broker_url = broker_url(settings["redis_url"])
    inspect = sender.control.inspect(timeout=20, limit=1)
    # A worker that has just begun to listen for saves may not listen for commands yet.
    assert soon(inspect.ping)
    answers = [inspect.conf(with_defaults=True), inspect.stats(), inspect.report(), inspect.registered()]
    assert all(answers)
    assert BARE not in json.dumps(answers)
    assert "ConfiguredCredentials" in json.dumps(answers[1])


def test_beat_with_a_password_fires_and_tells_none(
    full_rig: Rig, worker: CeleryProcess, settings: dict[str, str]
) -> None:
    beat = full_rig.beat(**settings)
    beat.wait_for("Sending due task lift-guild-stats-refresh")
    for process in (beat, worker):
        assert all(BARE not in line for line in process.lines)
    beat.stop()


def test_flower_tells_no_password_and_reads_the_queues(flower: Flower) -> None:
    assert soon(lambda: "pipeline@test" in flower.get("/api/workers?refresh=1")[1])
    pages = [
        flower.get(path)
        for path in ("/workers", "/worker/pipeline@test", "/api/workers?refresh=1", "/broker")
    ]
    assert [status for status, _ in pages] == [200] * 4
    assert "redbeat_redis_url" in pages[1][1]
    for _, page in pages:
        assert BARE not in page
    status, lengths = flower.get("/api/queues/length")
    assert status == 200
    assert {queue["name"] for queue in json.loads(lengths)["active_queues"]} == {"pipeline", "compute"}


@pytest.mark.parametrize(
    ("url", "public", "credentials"),
    [
        (f"redis://:{QUOTED}@h:1/2", "redis://h:1/2", (SECRET,)),
        (f"rediss://me:{QUOTED}@h:1?db=2", "rediss://h:1/2", ("me", SECRET)),
        (f"redis://h?password={QUOTED}&db=3", "redis://h/3", (SECRET,)),
        (f"unix://me:{QUOTED}@/run/v.sock?db=1", "redis+socket:///run/v.sock?virtual_host=1", ("me", SECRET)),
    ],
)
def test_the_password_is_apart_from_the_url(url: str, public: str, credentials: tuple[str, ...]) -> None:
    found = public_broker_url(url)
    head, _, provider = found.rpartition("credential_provider=")
    assert (head.rstrip("?&"), provider) == (public, "core.broker.ConfiguredCredentials")
    assert UrlCredentials(url).get_credentials() == credentials
    assert BARE not in without_password(url)
    assert BARE not in repr(UrlCredentials(url))


def test_a_url_without_a_password_stays_as_it_is() -> None:
    assert public_broker_url("redis://h:1/2") == "redis://h:1/2"
    assert public_broker_url("memory://") == "memory://"
