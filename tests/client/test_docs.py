"""What docs/client.md and docs/example_app.py show runs as it stands there."""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.clients import address, today, until_true
from support.rig import ROOT
from support.serving import DAY, SECRET, Edge

import edge.client
from core.processes import Process, Program
from edge.client import StatsError
from edge.service.tokens import sign

KEY = str(uuid.uuid4())
PAGE = (ROOT / "docs" / "client.md").read_text()


def test_the_first_save(here: Edge) -> None:
    [block] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "http://127.0.0.1:8090" in block
    user_id, said = uuid.uuid4(), StringIO()
    names = {"user_id": user_id, "token": sign(SECRET, user_id)}
    publishing = Thread(target=publish_when_saved, args=(here, user_id))
    publishing.start()
    with redirect_stdout(said):
        exec(
            compile(block.replace("http://127.0.0.1:8090", address(here.serving)), "client.md", "exec"), names
        )
    publishing.join(20)
    assert said.getvalue() == "100.0\n"


def publish_when_saved(here: Edge, user_id: uuid.UUID) -> None:
    asked = "select count(*) from public.user_stats_refresh_state where user_id = :user_id"
    assert until_true(lambda: here.database.admin(asked, user_id=user_id) == [(1,)])
    here.publish()


def test_every_exception_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE))
    raised = {
        name
        for name in edge.client.__all__
        if isinstance(kind := getattr(edge.client, name), type) and issubclass(kind, StatsError)
    }
    assert raised - named == {"StatsError", "Refused"}


class App:
    """The example as a process of its own."""

    def __init__(self, here: Edge) -> None:
        ready = re.compile(r"Uvicorn running on http://127\.0\.0\.1:(\d+)")
        self.lines: list[str] = []
        command = (sys.executable, "-m", "uvicorn", "--app-dir", "docs", "--port", "0", "example_app:app")
        settings = {"STATS_URL": address(here.serving), "STATS_REFRESH_JWT_SECRET": SECRET}
        program = Program(
            "example",
            lambda: command,
            ready,
            30,
            os.environ | settings | {"PYTHONPATH": str(ROOT)},
            Path(ROOT),
        )
        self.process = Process(program, self.lines.append)
        assert until_true(lambda: bool(ready.search(self.log))), self.log
        self.port = int(ready.search(self.log)[1])

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def ask(self, method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        try:
            headers = {
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                "Idempotency-Key": KEY,
            }
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def app(here: Edge) -> Iterator[App]:
    made = App(here)
    try:
        yield made
    finally:
        made.process.kill()


def test_the_example_app(here: Edge, app: App) -> None:
    account = here.account()
    exercise = account.squat()
    workout = {"day": DAY, "exercises": [{"exercise_id": exercise, "sets": [{"weight_kg": 120, "reps": 3}]}]}
    status, receipt = app.ask("POST", "/workouts", account.token, workout)
    assert (status, receipt["stats_requested_version"]) == (200, 1)
    assert app.ask("POST", "/workouts", account.token, workout) == (200, {**receipt, "replayed": True})
    here.publish()
    status, screens = app.ask(
        "GET", f"/screens?generation=1&day={today()}&exercise_id={exercise}", account.token
    )
    assert status == 200, screens
    assert screens["pr"]["exercises"][0]["best_weight_kg"] == 120
    assert screens["detail"]["days"][0]["day"] == DAY
    workout["day"] = "2026-02-01"
    status, refused = app.ask("POST", "/workouts", account.token, workout)
    assert (status, "mutation_id" in refused["detail"]) == (422, True)
    assert app.ask("POST", "/workouts", account.token, {"day": "never"})[0] == 422
    assert app.ask("GET", f"/screens?generation=0&day={today()}", account.token)[0] == 422
    forged = sign("another secret, which is long enough, too", account.user_id)
    assert app.ask("GET", f"/screens?generation=1&day={today()}", forged)[0] == 401
