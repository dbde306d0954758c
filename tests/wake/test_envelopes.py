"""Which messages are taken: all that this release sends, and none that asks for anything else."""

from __future__ import annotations

import inspect
import re

import pytest
from support.rig import rig
from wake.envelopes import FOREIGN, MARK, envelope, item

from core.redis_keys import PREFIX
from tasks.app import app
from tasks.envelopes import ARGUMENTS, refusal

LEASE = {
    "run_id": "6F9619FF-8B86-D011-B42D-00CF4FC964FF",
    "lease_token": "0b9a3d2e-6f0c-4a51-9a3e-2f1f6d0c7e11",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_message_that_is_not_ours_is_refused_by_a_reason_that_shows_nothing_of_it(name: str) -> None:
    message, reason = FOREIGN[name]
    said = refusal("pipeline", message)
    assert said is not None
    assert re.search(reason, said), said
    assert MARK not in said
    assert len(said) < 200


def test_every_task_is_known_by_its_own_arguments() -> None:
    app.loader.import_default_modules()
    tasks = {name: task for name, task in app.tasks.items() if name.startswith("stats.")}
    assert {name: set(model.model_fields) for name, model in ARGUMENTS.items()} == {
        name: set(inspect.signature(task.run).parameters) for name, task in tasks.items()
    }


def test_what_this_release_sends_is_taken() -> None:
    with rig(postgres=False) as made:
        sender = made.sender()
        sender.send_task("stats.claim", queue="pipeline", countdown=30)
        sender.send_task("stats.claim", queue="pipeline", expires=5, headers={"stats_entry": "claim"})
        sender.send_task("stats.compute", queue="pipeline", kwargs={**LEASE, "expected_offset": 7})
        sender.send_task("stats.publish", queue="pipeline", kwargs=LEASE, time_limit=60, soft_time_limit=50)
        sender.send_task("stats.rollover", queue="pipeline", kwargs={"link": "0" * 32}, priority=9)
        items = [
            found for key in made.redis.keys(f"{PREFIX}pipeline*") for found in made.redis.lrange(key, 0, -1)
        ]
        assert len(items) == 5
        assert [refusal("pipeline", found) for found in items] == [None] * 5


@pytest.mark.parametrize(
    ("queue", "body", "reason"),
    [
        ("celery.pidbox", 5, "must be an object"),
        ("celery.pidbox", {"method": "ping", "destination": 5}, "destination: Input should be a valid list"),
        ("celery.pidbox", {"method": "ping", "reply_to": "me"}, "reply_to: must be an object"),
        ("celery.pidbox", {"method": "ping", "destination": ["a@b"], "arguments": {}}, None),
        ("x.reply.celery.pidbox", [1], "its body is no object"),
        ("x.reply.celery.pidbox", {"a@b": {"ok": "pong"}}, None),
        ("celeryev", 5, "must be an object"),
        (
            "celeryev",
            [{"type": "task-sent", "hostname": "a", "timestamp": 1.5, "clock": 1}],
            "uuid: Field required",
        ),
        ("celeryev.x", [{"type": "worker-online", "hostname": "a", "timestamp": 1, "clock": 1}], None),
    ],
)
def test_remote_control_and_events_are_looked_at_too(queue: str, body: object, reason: str | None) -> None:
    message = envelope(body)
    message["headers"] = {"clock": 7}
    said = refusal(queue, item(message))
    assert said is None if reason is None else said is not None and reason in said
    message["headers"] = {"clock": MARK}
    assert refusal(queue, item(message)) == "headers.clock: Input should be a valid integer"
