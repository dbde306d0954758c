"""The service as a process of its own on a real Postgres, and a small client that hides nothing of an answer."""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from conftest import Database
from sqlalchemy import NullPool, create_engine

from core.processes import Process, Program, wait_until
from edge.service.server import READY
from edge.service.tokens import sign
from embedded.postgres import FAST, PostgresServer
from ops.stack import create_worker_role
from sql.migrate import migrate
from support.app import AppAccount, Stages
from support.rig import ROOT
from support.servers import LOGIN

SECRET = "a secret of the tests, which is long enough"
SERVICE_TOKEN = "the bearer of services in the tests, long enough"
DAY = "2026-03-10"


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Serving:
    """One process of the service."""

    def __init__(self, url: str, **settings: str) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("STATS_REFRESH_")}
        ours = {"database_url": url, "http_port": "0", "jwt_secret": SECRET, "service_token": SERVICE_TOKEN}
        named = {f"STATS_REFRESH_{k.upper()}": v for k, v in (ours | settings).items() if v}
        self.lines: list[str] = []
        self._news = threading.Condition()
        command = (sys.executable, "-m", "edge.service")
        program = Program(
            "edge",
            lambda: command,
            re.compile(READY),
            30,
            inherited | named | {"PYTHONUNBUFFERED": "1"},
            ROOT,
            stop_timeout=30,
        )
        self.process = Process(program, self._take)
        assert self.said(READY), self.log
        self.port = int(re.search(rf"{READY} http://[\d.]+:(\d+)", self.log)[1])

    def _take(self, line: str) -> None:
        with self._news:
            self.lines.append(line)
            self._news.notify_all()

    def said(self, pattern: str, times: int = 1, within: float = 30) -> bool:
        """Wait until the log has `pattern` so often."""
        with self._news:
            return self._news.wait_for(lambda: len(re.findall(pattern, self.log)) >= times, within)

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        body: Any = None,
        timeout: float = 40,
        **headers: str,
    ) -> Reply:
        """Send one request on a connection of its own; a `body` that is no bytes goes as JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Reply(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()

    def end(self) -> bool:
        return self.process.end()

    def kill(self) -> None:
        self.process.kill()


class WebAccount(AppAccount):
    """An account whose calls go through the service."""

    def on(self, serving: Serving) -> WebAccount:
        self.serving = serving
        self.token = sign(SECRET, self.user_id)
        return self

    def ask(self, method: str, path: str, **more: Any) -> Reply:
        if method in ("POST", "PUT", "DELETE"):
            more.setdefault("Idempotency_Key", str(uuid.uuid4()))
        return self.serving.ask(method, path, token=self.token, **more)

    def session(self, *sets: tuple[float, int]) -> dict[str, Any]:
        made = [{"weight_kg": kg, "reps": reps} for kg, reps in sets or [(100, 5)]]
        return {"session_date": DAY, "exercises": [{"exercise_id": self.squat(), "sets": made}]}

    def squat(self) -> str:
        if "Squat" not in self.exercises:
            reply = self.ask("POST", "/v1/exercises", body={"name": "Squat", "tracking": "weight_reps"})
            assert reply.status == 200, reply.body
            self.exercises["Squat"] = reply.json["exercise_id"]
        return self.exercises["Squat"]


@dataclass
class Edge:
    """The service and the database under it."""

    serving: Serving
    database: Database
    server: PostgresServer

    def account(self) -> WebAccount:
        return WebAccount(self.database).on(self.serving)

    def publish(self) -> None:
        """Do what workers do, and tell of it as a publication does."""
        for ended in Stages(self.database).drain():
            if ended["response"] == "published":
                self.tell(ended["user_id"], ended["generation"])

    def tell(self, user_id: str | UUID, generation: int) -> None:
        said = json.dumps({"user_id": str(user_id), "generation": generation})
        self.database.admin("select pg_catalog.pg_notify('stats_refresh_published', :said)", said=said)


@contextmanager
def edge(**settings: str) -> Iterator[Edge]:
    """Yield a service on a migrated Postgres of its own."""
    with PostgresServer(settings=FAST) as server:
        migrate(create_engine(server.url(), poolclass=NullPool))
        create_worker_role(server.url())
        database = Database(server.url(user=LOGIN), server.url())
        serving = Serving(database.url, **settings)
        try:
            assert wait_until(lambda: b'"proven"' in serving.ask("GET", "/readyz").body, 20)
            yield Edge(serving, database, server)
        finally:
            serving.kill()
            database.engine.dispose()
