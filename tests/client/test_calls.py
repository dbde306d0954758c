"""Each call of the client against the real service: its answer as a dataclass, its refusals as exceptions."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import subprocess
import sys
import types
import typing
import uuid
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from pydantic import BaseModel
from support.clients import DAY, client_of, new_account, session, squat, today
from support.rig import ROOT
from support.serving import SECRET, Edge

from edge.client import (
    AsyncClient,
    Conflict,
    ContractError,
    Invalid,
    NotPublished,
    NotThere,
    Unanswered,
    Unauthorized,
    answers,
    documents,
)
from edge.client.decoding import NAME, decoded
from edge.client.documents import encoded
from edge.service import readers, shapes
from edge.service.tokens import sign

_ALONE = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        ours = ("core", "tasks", "models", "sql", "schedules", "embedded", "importers", "ops", "bench")
        if root in ours + ("fastapi", "pydantic", "sqlalchemy", "starlette", "celery", "redis", "psycopg2"):
            raise ImportError(f"{name} is not to be had")
        if name.startswith("edge.service"):
            raise ImportError(f"{name} is not to be had")

sys.meta_path.insert(0, Nothing())
import edge.client
print(sorted(m for m in sys.modules if m.startswith("edge")))
"""


def test_it_is_imported_where_nothing_else_of_the_project_can_be() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _ALONE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "'edge.client.asynchronous'" in ran.stdout


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            name
            for name, kind in vars(answers).items()
            if dataclasses.is_dataclass(kind) and hasattr(shapes, name)
        }
    ),
)
def test_an_answer_has_what_the_services_shape_has(name: str) -> None:
    assert our_fields(getattr(answers, name)) == their_fields(getattr(shapes, name))


def test_a_refresh_has_what_a_drain_looks_at() -> None:
    theirs = their_fields(shapes.RefreshReport)
    assert our_fields(answers.Refresh).items() <= theirs.items()


def our_fields(kind: type) -> dict[str, object]:
    hints = typing.get_type_hints(kind)
    return {
        field.metadata.get(NAME, field.name): plain(hints[field.name]) for field in dataclasses.fields(kind)
    }


def their_fields(kind: type[BaseModel]) -> dict[str, object]:
    hints = typing.get_type_hints(kind)
    return {field.alias or name: plain(hints[name]) for name, field in kind.model_fields.items()}


def test_documents_have_what_the_services_shapes_have() -> None:
    for ours, theirs in (
        (documents.Session, shapes.SessionEdit),
        (documents.Block, shapes.Block),
        (documents.Set, shapes.Set),
    ):
        assert ours.__required_keys__ | ours.__optional_keys__ == theirs.model_fields.keys()
        required = {name for name, field in theirs.model_fields.items() if field.is_required()}
        assert ours.__required_keys__ == required
    tracking = shapes.Exercise.model_fields["tracking"].annotation
    assert typing.get_args(documents.Tracking) == typing.get_args(tracking)
    grain = inspect.signature(readers.volume_overview, eval_str=True).parameters["grain"].annotation
    assert typing.get_args(documents.Grain) == typing.get_args(grain)


def plain(kind: object) -> object:
    """Return a type with days and moments as the texts that they are in JSON, and objects by their names."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return frozenset(plain(argument) for argument in arguments)
    if origin in (tuple, list):
        return ("array", plain(arguments[0]))
    if origin is typing.Literal or kind in (date, datetime):
        return "str"
    return kind.__name__ if isinstance(kind, type) else kind


def test_the_main_path(here: Edge) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            account = new_account(client)
            exercise = await squat(account)
            receipt = await account.save(session(exercise))
            assert (receipt.operation, receipt.stats_requested_version, receipt.replayed) == (
                "session_created",
                1,
                False,
            )
            fresh = await account.freshness()
            assert (fresh.requested_version, fresh.applied_version, fresh.stale) == (1, 0, True)
            waiting = asyncio.create_task(account.pr_overview(today(), min_generation=1, wait=20))
            await asyncio.to_thread(here.publish)
            board = await waiting
            assert (board.generation, board.stale, board.user_id) == (1, False, account.user_id)
            [summary] = board.exercises
            assert (summary.best_weight_kg, summary.best_weight_on) == (100.0, DAY)
            home = await account.home_overview(today())
            assert isinstance(home.generated_at, datetime)
            volume = await account.volume_overview(DAY, "week")
            assert [(p.period_start, p.volume_kg) for p in volume.periods] == [(date(2026, 3, 9), 500.0)]
            detail = await account.pr_detail(exercise, DAY)
            assert [day.day for day in detail.days] == [DAY]
            assert {record.kind for record in detail.records} >= {"weight", "e1rm"}
            month = await account.calendar_month(DAY)
            assert [day.day for day in month.days] == [DAY]

    asyncio.run(run())


def test_edits_records_and_deletions(here: Edge) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            account = new_account(client)
            exercise = await squat(account)
            saved = await account.save(
                {
                    **session(exercise),
                    "title": "Beine\N{LEG}",
                    "started_at": datetime.fromisoformat("2026-03-10T18:30:00+01:00"),
                }
            )
            edit = {**session(exercise, Decimal("102.5"), 3), "expected_updated_at": saved.updated_at}
            edited = await account.save(edit, session_id=saved.session_id)
            assert (edited.session_id, edited.stats_requested_version) == (saved.session_id, 2)
            with pytest.raises(Conflict) as conflict:
                await account.save(edit, session_id=saved.session_id)
            assert (conflict.value.status, conflict.value.sqlstate) == (409, "40001")
            assert isinstance(conflict.value.mutation_id, uuid.UUID)
            stated = await account.state_record(exercise, 140.5, DAY)
            assert stated.manual_pr_id is not None
            onboarding = await account.state_record(exercise, 150, DAY, is_onboarding=True)
            assert onboarding.manual_pr_id != stated.manual_pr_id
            here.publish()
            board = await account.pr_overview(today())
            assert (board.exercises[0].best_weight_kg, board.exercises[0].one_rm_source) == (102.5, "manual")
            deleted = await account.delete_record(stated.manual_pr_id)
            assert deleted.stats_requested_version > onboarding.stats_requested_version
            with pytest.raises(NotThere):
                await account.delete_record(stated.manual_pr_id)
            key = uuid.uuid4()
            gone = await account.delete(saved.session_id, mutation_id=key)
            assert (await account.delete(saved.session_id, mutation_id=key)) == dataclasses.replace(
                gone, replayed=True
            )
            with pytest.raises(NotThere):
                await account.delete(saved.session_id)

    asyncio.run(run())


def test_exercises(here: Edge) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            account = new_account(client)
            made = await account.add_exercise("Squat", "weight_reps")
            assert (made.created, made.is_global, made.stats_requested_version) == (True, False, None)
            changed = await account.change_exercise(made.exercise_id, "Squats", "reps_only")
            assert (changed.created, changed.name, changed.stats_requested_version) == (False, "Squats", 1)
            archived = await account.archive_exercise(made.exercise_id)
            assert archived == await account.archive_exercise(made.exercise_id)
            with pytest.raises(Invalid):
                await account.save(session(made.exercise_id))

    asyncio.run(run())


@pytest.mark.parametrize("name", ["a/b ?#%é", "..", ".", "%2e%2e", "a//b/"])
def test_an_id_is_one_part_of_the_path(here: Edge, name: str) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            account = new_account(client)
            await account.save(session(await squat(account)))
            here.publish()
            detail = await account.pr_detail(name, DAY)
            assert (detail.exercise_id, detail.days) == (name, ())

    asyncio.run(run())


def test_refusals(here: Edge) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            account = new_account(client)
            exercise = await squat(account)
            with pytest.raises(NotPublished) as building:
                await account.pr_overview(today())
            assert (building.value.reason, building.value.passes) == ("building", True)
            with pytest.raises(Invalid) as invalid:
                await account.save({**session(exercise), "session_date": "2026-02-30"})
            assert "session_date" in invalid.value.detail
            assert invalid.value.request_id
            await account.save(session(exercise))
            here.publish()
            with pytest.raises(NotPublished) as outside:
                await account.pr_overview(date(2001, 1, 1))
            assert (outside.value.reason, outside.value.passes) == ("not_in_window", False)
            with pytest.raises(Unauthorized):
                await client.account(account.user_id, "none").freshness()
            with pytest.raises(ValueError, match="JSON"):
                await account.save(session(exercise, float("nan")))
            with pytest.raises(ValueError, match="badly formed"):
                client.account("me", "token")

    asyncio.run(run())


def test_a_token_of_another_account_is_found_out(here: Edge) -> None:
    async def run() -> None:
        async with client_of(here.serving) as client:
            owner, other = new_account(client), uuid.uuid4()
            await owner.save(session(await squat(owner)))
            here.publish()
            with pytest.raises(ContractError, match="not of the account"):
                await client.account(other, sign(SECRET, UUID(owner.user_id))).calendar_month(DAY)

    asyncio.run(run())


def test_an_answer_that_is_none_names_its_first_wrong_field() -> None:
    receipt = {"mutation_id": "m", "operation": "o", "statsRequestedVersion": 3, "replayed": False}
    assert decoded(answers.Receipt, {**receipt, "more": 1}).stats_requested_version == 3
    for broken, message in [
        ([], r"\$: should be an object"),
        ({**receipt, "statsRequestedVersion": 0}, "positive"),
        ({**receipt, "statsRequestedVersion": True}, r"\$.statsRequestedVersion: should be an integer"),
        ({**receipt, "updated_at": "soon"}, r"\$.updated_at: should be a moment"),
        ({**receipt, "replayed": 1}, "should be true or false"),
        ({"operation": "o"}, r"\$.mutation_id: is missing"),
    ]:
        with pytest.raises(ContractError, match=message):
            decoded(answers.Receipt, broken)
    day = {"day": "2026-03-10", "sessions": 1, "titles": ["Legs", None]}
    with pytest.raises(ContractError, match=r"\$\.titles\[\]: should be a text"):
        decoded(answers.CalendarDay, day)


def test_documents_as_json() -> None:
    document = {"a": date(2026, 3, 10), "b": Decimal("102.5"), "c": uuid.UUID(int=1)}
    assert encoded(document) == b'{"a":"2026-03-10","b":102.5,"c":"00000000-0000-0000-0000-000000000001"}'
    with pytest.raises(TypeError):
        encoded({"a": object()})


def test_an_address_that_is_no_service() -> None:
    async def run() -> None:
        async with AsyncClient("http://127.0.0.1:1", attempts=1) as client:
            with pytest.raises(Unanswered, match="no answer to GET /v1/freshness"):
                await new_account(client).freshness()

    asyncio.run(run())
