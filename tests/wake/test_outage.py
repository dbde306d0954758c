"""Redis goes away under load, and comes back with or without what it held: nobody has to help, nothing is lost."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest
from batches.scene import Account, set_settings
from celery import Celery
from support.app import AppAccount
from support.rig import CeleryProcess, Rig, rig, soon

CLAIM = "lift-guild-stats-refresh"
SECONDS = 6
"""From a Redis that answers to the publication of a save. The worker looks for it every 2 s at the latest, beat every
second; and where every message of the save was lost, each of the three stages waits for the next beat's."""


@pytest.fixture(scope="module", params=[True, False], ids=["with its data", "without its data"])
def full_rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A Valkey that keeps its data over a restart, and one that doesn't: entries and queues are gone."""
    with rig(append_only=request.param) as made:
        yield made


@pytest.fixture(scope="module")
def worker(full_rig: Rig) -> CeleryProcess:
    """One worker for all queues."""
    process = full_rig.worker("pipeline", "compute", "maintenance", processes=2)
    process.wait_for("listening for saves")
    return process


@pytest.fixture(scope="module")
def beat(full_rig: Rig, worker: CeleryProcess) -> CeleryProcess:
    return full_rig.beat()


@pytest.fixture
def sender(full_rig: Rig) -> Celery:
    return Celery("sender", broker=full_rig.valkey.broker_url, set_as_current=False)


def is_published(account: AppAccount) -> bool:
    requested, applied = account.state()
    return requested == applied > 0


def assert_back_within_seconds(rig: Rig, worker: CeleryProcess, beat: CeleryProcess) -> None:
    """A new save is published, beat fires and the worker takes what it sends; the processes are the same."""
    sent, taken = beat.count("Sending due task"), worker.count(r"stats\.\w+\[.*received")
    began, account = time.monotonic(), AppAccount(rig.database)
    account.save()

    def is_back() -> bool:
        return (
            is_published(account)
            and beat.count("Sending due task") > sent
            and worker.count(r"stats\.\w+\[.*received") > taken
        )

    assert soon(is_back, SECONDS), worker.tail() + beat.tail()
    assert time.monotonic() - began < SECONDS
    assert worker.is_running()
    assert beat.is_running()
    assert soon(lambda: rig.redis.exists(f"stats-refresh:beat:{CLAIM}") == 1, SECONDS)


def test_a_restart_under_load_is_over_in_seconds(
    full_rig: Rig, worker: CeleryProcess, beat: CeleryProcess, sender: Celery
) -> None:
    """With messages in the worker's hands, which is when Celery's own consumer would end."""
    people = [AppAccount(full_rig.database) for _ in range(4)]
    for _ in range(3):
        for _ in range(4):
            sender.send_task("stats.claim", queue="pipeline", countdown=30)
        for account in people:
            account.save()
        full_rig.valkey.stop()
        full_rig.valkey.start()
        assert_back_within_seconds(full_rig, worker, beat)
    assert soon(lambda: all(is_published(account) for account in people), 10)


def test_an_outage_of_ten_seconds_costs_the_saves_in_it_only_time(
    full_rig: Rig, worker: CeleryProcess, beat: CeleryProcess
) -> None:
    """Longer than beat's lock lives. Saves don't need Redis; all that was saved is published afterwards."""
    people = [AppAccount(full_rig.database) for _ in range(4)]
    saved = []

    def save_until(end: float) -> None:
        while time.monotonic() < end:
            for account in people:
                account.save()
                saved.append(account)

    full_rig.valkey.stop()
    saving = threading.Thread(target=save_until, args=(time.monotonic() + 10,))
    saving.start()
    saving.join()
    full_rig.valkey.start()

    assert_back_within_seconds(full_rig, worker, beat)
    assert soon(lambda: all(is_published(account) for account in people), 10)
    assert len(saved) >= 4
    for account in people:
        requested, applied = account.state()
        assert applied == requested == saved.count(account)


EXERCISES = 60
NOTE_STEPS = """
    create table public.noted_steps (id bigint generated always as identity, run_id uuid, stage text, next_offset int);
    create function public.note_step() returns trigger language plpgsql security definer as $$
    begin
        insert into public.noted_steps (run_id, stage, next_offset)
        values (new.id, new.payload #>> '{_batch,stage}', (new.payload #>> '{_batch,next_offset}')::int);
        return null;
    end $$;
    create trigger note_step after update on public.user_stats_projection_runs for each row
    when (old.payload -> '_batch' is distinct from new.payload -> '_batch') execute function public.note_step();
"""
FORGET_STEPS = """
    drop trigger note_step on public.user_stats_projection_runs;
    drop function public.note_step();
    drop table public.noted_steps;
"""


@pytest.fixture
def small_batches(full_rig: Rig) -> Iterator[None]:
    """One exercise a step; the database notes each step that committed."""
    set_settings(full_rig.database, batch_size=1)
    full_rig.database.admin(NOTE_STEPS)
    yield
    full_rig.database.admin(FORGET_STEPS)
    set_settings(full_rig.database, batch_size=100)


@pytest.mark.usefixtures("small_batches")
def test_a_batch_chain_in_flight_goes_on_and_does_not_fork(
    full_rig: Rig, worker: CeleryProcess, beat: CeleryProcess
) -> None:
    """Redis goes away twice between its steps: with the chain's message in a queue, in the worker's hand, or unsent."""
    account = Account(full_rig.database, EXERCISES)
    for part in (1, 2):
        assert soon(lambda part=part: len(steps(full_rig)) > part * EXERCISES / 3, 30), worker.tail()
        full_rig.valkey.stop()
        assert len(steps(full_rig)) <= EXERCISES, "the chain was over before Redis went away"
        full_rig.valkey.start()
    assert soon(account.is_fresh, 30), worker.tail()

    # The same run all along, prepared once, each exercise once.
    runs = full_rig.database.admin(
        "select id, phase from public.user_stats_projection_runs where user_id = :user", user=account.user_id
    )
    assert [phase for _, phase in runs] == ["completed"]
    offsets = [offset for run, _, offset in steps(full_rig) if run == runs[0][0]]
    assert offsets[: EXERCISES + 1] == list(range(EXERCISES + 1))
    assert full_rig.database.admin("select distinct run_id from public.noted_steps") == [(runs[0][0],)]
    # A second chain would try each step again. What beats and redelivered copies try is a few.
    worked = computes(worker, account, "batch_pending|computed")
    assert worked == EXERCISES + 2
    assert computes(worker, account, "idle") <= EXERCISES / 4
    account.assert_converged()


def steps(rig: Rig) -> list[tuple]:
    return rig.database.admin("select run_id, stage, next_offset from public.noted_steps order by id")


def computes(worker: CeleryProcess, account: Account, responses: str) -> int:
    """Return how many computes of the account ended with one of the responses, by the worker's log."""
    pattern = rf"stats\.compute\[.*succeeded.*'response': '({responses})', 'user': '{re.escape(str(account.user_id))}'"
    return worker.count(pattern)
