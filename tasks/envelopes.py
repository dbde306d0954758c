"""Which messages are taken from Redis: looked at before anything is built from them.

Whoever can write to Redis can put anything there. What passes here can't end a worker, and asks only for a task of
ours with arguments that it has.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from kombu.utils.json import loads
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from schedules.entries import ENTRY_HEADER

TASK_TIME_LIMIT = 120
"""Celery's hard limit for a task, in seconds; a message may ask for less."""
_LONGEST_TASK_MESSAGE = 64 * 1024
_LONGEST_MESSAGE = 16 * 1024 * 1024
"""Answers to `inspect` grow with what is asked."""
_LONGEST_WAIT = timedelta(hours=1)
"""A worker holds a message with a time until then; ours wait less than a minute."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class _Fields(BaseModel):
    # What is not named here is left to Celery: a later release of it may send more.
    model_config = ConfigDict(strict=True, extra="ignore")


class _Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


def _uuid(value: str) -> str:
    if _UUID.fullmatch(value) is None:
        raise ValueError("must be a UUID")
    return value


def _time(value: str) -> str:
    _ = _moment(value)
    return value


def _near(value: str) -> str:
    if _moment(value) > datetime.now(UTC) + _LONGEST_WAIT:
        raise ValueError("is more than an hour away")
    return value


def _moment(value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        # Its own words repeat what they could not read.
        raise ValueError("must be a time") from error
    if moment.tzinfo is None:
        raise ValueError("must have a time zone")
    return moment


_Uuid = Annotated[str, AfterValidator(_uuid)]
_Time = Annotated[str, AfterValidator(_time)]
_Seconds = Annotated[float, Field(gt=0, le=TASK_TIME_LIMIT)]


class _NoArguments(_Arguments):
    pass


class _Publish(_Arguments):
    run_id: _Uuid | None = None
    lease_token: _Uuid | None = None


class _Compute(_Publish):
    expected_offset: Annotated[int, Field(ge=0, lt=2**31)] | None = None


class _Page(_Arguments):
    link: Annotated[str, Field(max_length=64)] | None = None


ARGUMENTS: Mapping[str, type[BaseModel]] = {
    "stats.claim": _NoArguments,
    "stats.compute": _Compute,
    "stats.publish": _Publish,
    "stats.purge_history": _Page,
    "stats.rollover": _Page,
    "stats.repair": _Page,
    "stats.catalog": _Page,
}
"""The keyword arguments of each task; a test holds them to the tasks themselves."""


class _Embedded(_Fields):
    """What Celery would do after a task, which no message of ours asks for."""

    callbacks: None = None
    errbacks: None = None
    chain: None = None
    chord: None = None


class _NoCompression(_Fields):
    # A few bytes can unpack to gigabytes, before anybody looks at them.
    compression: None = None


class _TaskHeaders(_NoCompression, _Embedded):
    task: str
    id: Annotated[str, Field(min_length=1, max_length=255)]
    eta: Annotated[str, AfterValidator(_near)] | None = None
    expires: _Time | None = None
    timelimit: Annotated[list[_Seconds | None], Field(min_length=2, max_length=2)] | None = None
    shadow: str | None = None
    group: str | None = None
    root_id: str | None = None
    parent_id: str | None = None
    retries: int | None = None
    ignore_result: bool | None = None
    replaced_task_nesting: int | None = None
    stamped_headers: list[str] | None = None
    stamps: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    stats_entry: Annotated[str | None, Field(alias=ENTRY_HEADER)] = None
    argsrepr: str | None = None
    kwargsrepr: str | None = None


class _MailHeaders(_NoCompression):
    """Of remote control and of events."""

    clock: int | None = None
    expires: float | None = None
    ticket: str | None = None


class _Delivery(_Fields):
    exchange: str
    routing_key: str


class _Properties(_Fields):
    delivery_tag: Annotated[str, Field(min_length=1)]
    delivery_info: _Delivery
    body_encoding: Literal["base64"]
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None


class _Envelope(_Fields):
    body: str
    content_type: Annotated[Literal["application/json"], Field(alias="content-type")]
    content_encoding: Annotated[Literal["utf-8"], Field(alias="content-encoding")]
    properties: _Properties


class _TaskEnvelope(_Envelope):
    headers: _TaskHeaders


class _MailEnvelope(_Envelope):
    headers: _MailHeaders


class _Command(_Fields):
    method: str
    arguments: dict[str, Any] | None = None
    destination: list[str] | None = None
    pattern: str | None = None
    matcher: str | None = None
    ticket: str | None = None
    reply_to: _Delivery | None = None


class _Event(_Fields):
    type: str
    hostname: str
    timestamp: float
    clock: int
    utcoffset: float | None = None
    pid: int | None = None


class _TaskEvent(_Event):
    uuid: str
    name: str | None = None
    runtime: float | None = None


class _Refused(Exception):
    """Says what is wrong, and nothing of what the message holds."""


def kind(queue: str) -> str:
    """Return what `queue`, or the exchange of that name, is for: a queue of tasks is called by its name."""
    if queue.endswith("reply.celery.pidbox"):
        return "replies"
    if queue.endswith("celery.pidbox"):
        return "control"
    return "events" if queue.startswith("celeryev") else queue


def refusal(queue: str, item: bytes | str) -> str | None:
    """Return why the message `item` of `queue` is not taken; None: it is. Never a part of what it holds."""
    checks = {"control": _check_command, "replies": _check_reply, "events": _check_events}
    check = checks.get(kind(queue), _check_task)
    try:
        if len(item) > (_LONGEST_TASK_MESSAGE if check is _check_task else _LONGEST_MESSAGE):
            return "it is too long"
        # By kombu's own reader, which makes more of some objects than plain JSON has: what it finds later is this.
        check(_read(item, "the message"))
    except _Refused as problem:
        return str(problem)
    except ValidationError as error:
        return _first_problem(error)
    except Exception as error:
        # The readers, too, fail on what they never met: nesting without end, numbers without end.
        return f"it can't be read ({type(error).__name__})"
    return None


def _check_task(message: object) -> None:
    envelope = _TaskEnvelope.model_validate(message)
    arguments = ARGUMENTS.get(envelope.headers.task)
    if arguments is None:
        raise _Refused("it asks for a task that is not there")
    match _body(envelope):
        case [[], dict() as named, embedded]:
            arguments.model_validate(named)
            _Embedded.model_validate(embedded or {})
        case _:
            raise _Refused("its body is no [[], {arguments}, {options}]")


def _check_command(message: object) -> None:
    _Command.model_validate(_body(_MailEnvelope.model_validate(message)))


def _check_reply(message: object) -> None:
    if not isinstance(_body(_MailEnvelope.model_validate(message)), dict):
        raise _Refused("its body is no object")


def _check_events(message: object) -> None:
    body = _body(_MailEnvelope.model_validate(message))
    for event in body if isinstance(body, list) else [body]:
        named = _Event.model_validate(event)
        if named.type.startswith("task-"):
            _TaskEvent.model_validate(event)


def _body(envelope: _Envelope) -> object:
    try:
        body = base64.b64decode(envelope.body, validate=True)
    except ValueError as error:
        raise _Refused("its body is not base64") from error
    return _read(body, "its body")


def _read(text: bytes | str, what: str) -> object:
    try:
        found: object = loads(text)
    except ValueError as error:  # UnicodeDecodeError is one
        raise _Refused(f"{what} is not JSON") from error
    return found


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    # Names only: a place in what a stranger has sent may be of any length.
    place = ascii(".".join(str(part) for part in problem["loc"]))[1:-1][:100]
    said = "must be an object" if problem["type"] == "model_type" else problem["msg"]
    return f"{place or 'the message'}: {said.removeprefix('Value error, ')}"
