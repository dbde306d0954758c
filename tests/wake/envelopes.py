"""Messages as Celery puts them into Redis, and what a stranger may make of them."""

from __future__ import annotations

import base64
import json
from typing import Any

MARK = "hunter2"
"""Stands in every stranger's message: no log may show it."""


def envelope(
    body: object = None, *, headers: dict[str, Any] | None = None, **fields: object
) -> dict[str, Any]:
    """Return a valid message for stats.claim; `headers` and `fields` go over it, `body` in place of its body."""
    task_id = "0b9a3d2e-6f0c-4a51-9a3e-2f1f6d0c7e11"
    return {
        "body": encoded([[], {}, {"callbacks": None}] if body is None else body),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": "stats.claim", "id": task_id, "origin": MARK, **(headers or {})},
        "properties": {
            "correlation_id": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "pipeline"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": task_id,
        },
        **fields,
    }


def encoded(body: object) -> str:
    return base64.b64encode(body if isinstance(body, bytes) else json.dumps(body).encode()).decode()


def item(message: object) -> bytes:
    return json.dumps(message).encode()


def asks(task: str, **arguments: object) -> bytes:
    return item(envelope([[], arguments, {}], headers={"task": task}))


def without(name: str) -> bytes:
    message = envelope()
    del message[name]
    return item(message)


def properties(**fields: object) -> bytes:
    message = envelope()
    return item({**message, "properties": {**message["properties"], **fields}})


_DEEP = b"[" * 20_000 + b"]" * 20_000

FOREIGN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the message is not JSON"),
    "no JSON": (f"{MARK} {{".encode(), "the message is not JSON"),
    "broken bytes": (b"\xff\xfe" + MARK.encode(), "the message is not JSON"),
    "a number": (b"5", "the message: must be an object"),
    "a list": (item([MARK]), "the message: must be an object"),
    "nested without end": (_DEEP, r"it can't be read \(RecursionError\)"),
    "a long one": (item(envelope(headers={"x": MARK * 20_000})), "it is too long"),
    "no headers": (without("headers"), "headers: Field required"),
    "no properties": (without("properties"), "properties: Field required"),
    "no delivery tag": (
        properties(delivery_tag=None),
        "properties.delivery_tag: Input should be a valid string",
    ),
    "an encoding of its own": (
        properties(body_encoding="rot13"),
        "properties.body_encoding: Input should be 'base64'",
    ),
    "a body of 5": (item(envelope(b"5")), r"its body is no \[\[\], {arguments}, {options}\]"),
    "a body of a list": (item(envelope([MARK])), r"its body is no \[\[\]"),
    "a body of raw bytes": (item(envelope(b"\x80\x04" + MARK.encode())), "its body is not JSON"),
    "a body that is no base64": (item(envelope(body=None) | {"body": f"{MARK}!"}), "its body is not base64"),
    "a body that is no text": (
        item(envelope() | {"body": {"__type__": "uuid", "__value__": MARK}}),
        "it can't be read",
    ),
    "pickle": (
        item(envelope(b"cos\nsystem\n.", **{"content-type": "application/x-python-serialize"})),
        "content-type: Input should be 'application/json'",
    ),
    "another encoding": (
        item(envelope(**{"content-encoding": "utf-16"})),
        "content-encoding: Input should be 'utf-8'",
    ),
    "packed": (item(envelope(headers={"compression": "bzip2"})), "headers.compression: Input should be None"),
    "a task of somebody else": (asks(f"{MARK}.mail"), "it asks for a task that is not there"),
    "a task that is no text": (
        item(envelope(headers={"task": 5})),
        "headers.task: Input should be a valid string",
    ),
    "no id": (item(envelope(headers={"id": None})), "headers.id: Input should be a valid string"),
    "time limits of text": (
        item(envelope(headers={"timelimit": [MARK, "1"]})),
        "headers.timelimit.0: Input should be",
    ),
    "a time limit past ours": (
        item(envelope(headers={"timelimit": [9e9, None]})),
        "headers.timelimit.0: Input should",
    ),
    "a time of garbage": (item(envelope(headers={"eta": f"{MARK}+00:00"})), "headers.eta: must be a time"),
    "a time without a zone": (
        item(envelope(headers={"eta": "2026-01-01"})),
        "headers.eta: must have a time zone",
    ),
    "a time to come": (
        item(envelope(headers={"eta": "9000-01-01T00:00:00Z"})),
        "headers.eta: is more than an hour",
    ),
    "an end of garbage": (
        item(envelope(headers={"expires": [5]})),
        "headers.expires: Input should be a valid string",
    ),
    "headers of a number": (item(envelope(headers={"headers": 5})), "headers.headers: Input should be"),
    "callbacks": (item(envelope([[], {}, {"callbacks": [MARK]}])), "callbacks: Input should be None"),
    "callbacks in the headers": (
        item(envelope(headers={"chord": MARK})),
        "headers.chord: Input should be None",
    ),
    "an argument that is not there": (
        asks("stats.claim", priority=MARK),
        "priority: Extra inputs are not permitted",
    ),
    "a run that is no uuid": (asks("stats.compute", run_id=MARK), "run_id: must be a UUID"),
    "an offset past an integer": (
        asks("stats.compute", expected_offset=2**40),
        "expected_offset: Input should be",
    ),
    "a link of an object": (asks("stats.rollover", link={"a": MARK}), "link: Input should be a valid string"),
    "arguments by place": (item(envelope([[MARK], {}, {}])), r"its body is no \[\[\]"),
}
"""By name: what stands in the queue, and the reason that is given for its end, as a pattern."""
