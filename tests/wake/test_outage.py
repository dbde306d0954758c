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
    return full_rig.sender()


def is_published(account: AppAccount) -> bool:
    requested, applied = account.state()
    return requested == applied > 0


EXERCISES = 180
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


def assert_back_within_seconds(rig: Rig, worker: CeleryProcess, beat: CeleryProcess) -> None:
    """A new save is published, beat fires and the worker takes what it sends; the processes are the same."""
    sent, taken = beat.count("Sending due task"), beat_fired_runs(rig)
    began, account = time.monotonic(), AppAccount(rig.database)
    account.save()

    def is_back() -> bool:
        return (
            is_published(account) and beat.count("Sending due task") > sent and beat_fired_runs(rig) > taken
        )

    assert soon(is_back, SECONDS), worker.tail() + beat.tail()
    assert time.monotonic() - began < SECONDS
    assert worker.is_running()
    assert beat.is_running()
    assert soon(lambda: rig.redis.exists(f"stats-refresh:beat:{CLAIM}") == 1, SECONDS)


def waits_for_redis(worker: CeleryProcess) -> list[float]:
    """Return the seconds that the worker's consumer let pass between its tries, by its log."""
    said = r"Trying again in ([\d.]+) seconds... \(\d+/None\)"
    return [float(match[1]) for line in list(worker.lines) if (match := re.search(said, line))]


def beat_fired_runs(rig: Rig) -> int:
    [[rows]] = rig.database.admin("select count(*) from public.cron_run_history")
    return rows


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


@pytest.mark.usefixtures("small_batches")
def test_an_outage_of_ten_seconds_costs_only_time(
    full_rig: Rig, worker: CeleryProcess, beat: CeleryProcess
) -> None:
    """Longer than beat's lock lives, with a chain of batches in flight. Saves don't need Redis and go on."""
    chain, people, saved = Account(full_rig.database, EXERCISES), [], []
    for _ in range(4):
        people.append(AppAccount(full_rig.database))
        people[-1].exercise()

    def save_until(end: float) -> None:
        while time.monotonic() < end:
            for account in people:
                account.save()
                saved.append(account)

    wait_for_steps(full_rig, worker, EXERCISES / 3)
    full_rig.valkey.stop()
    assert not chain.is_fresh(), "the chain was over before Redis went away"
    saving = threading.Thread(target=save_until, args=(time.monotonic() + 10,))
    saving.start()
    saving.join()
    assert not chain.is_fresh()
    full_rig.valkey.start()

    assert_back_within_seconds(full_rig, worker, beat)
    assert max(waits_for_redis(worker)) <= 2, "an outage twice as long would cost more than seconds"
    assert soon(lambda: all(is_published(account) for account in people), 10)
    assert len(saved) >= 4
    for account in people:
        requested, applied = account.state()
        assert applied == requested == saved.count(account)
    assert_one_chain(full_rig, worker, chain)
    assert_each_run_published_once(full_rig, worker)


@pytest.mark.usefixtures("small_batches")
def test_a_batch_chain_in_flight_goes_on_and_does_not_fork(
    full_rig: Rig, worker: CeleryProcess, beat: CeleryProcess
) -> None:
    """Redis goes away twice between its steps: with the chain's message in a queue, in the worker's hand, or unsent."""
    chain = Account(full_rig.database, EXERCISES)
    for part in (1, 2):
        wait_for_steps(full_rig, worker, part * EXERCISES / 3)
        full_rig.valkey.stop()
        assert len(steps(full_rig)) <= EXERCISES, "the chain was over before Redis went away"
        full_rig.valkey.start()
    assert_one_chain(full_rig, worker, chain)
    assert_each_run_published_once(full_rig, worker)


def assert_one_chain(rig: Rig, worker: CeleryProcess, account: Account) -> None:
    """The account gets fresh by the same run all along, prepared once, with each of its exercises once."""
    assert soon(account.is_fresh, 30), worker.tail()
    runs = rig.database.admin(
        "select id, phase from public.user_stats_projection_runs where user_id = :user", user=account.user_id
    )
    assert [phase for _, phase in runs] == ["completed"]
    offsets = [offset for run, _, offset in steps(rig) if run == runs[0][0]]
    assert offsets[: EXERCISES + 1] == list(range(EXERCISES + 1))
    assert rig.database.admin("select distinct run_id from public.noted_steps") == [(runs[0][0],)]
    # A second chain would try each step again.
    user = re.escape(str(account.user_id))
    worked = rf"stats\.compute\[.*succeeded.*'response': '(batch_pending|computed)', 'user': '{user}'"
    assert soon(lambda: worker.count(worked) == EXERCISES + 2, 5)
    assert worker.count(DOUBLED) <= EXERCISES / 4
    account.assert_converged()


DOUBLED = r"stats\.compute\[.*succeeded.*'response': 'idle'"
"""A compute whose message named a run that another one had taken further: what a beat sends leaves no line."""


def assert_each_run_published_once(rig: Rig, worker: CeleryProcess) -> None:
    def published_and_completed() -> bool:
        [[completed]] = rig.database.admin(
            "select count(*) from public.user_stats_projection_runs where phase = 'completed'"
        )
        return worker.count(r"stats\.publish\[.*succeeded.*'response': 'published'") == completed

    assert soon(published_and_completed, 5)


def wait_for_steps(rig: Rig, worker: CeleryProcess, number: float) -> None:
    assert soon(lambda: len(steps(rig)) > number, 30), worker.tail()


def steps(rig: Rig) -> list[tuple]:
    return rig.database.admin("select run_id, stage, next_offset from public.noted_steps order by id")
