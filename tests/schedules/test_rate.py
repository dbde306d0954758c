"""Sixty runs a minute, for three minutes: beside a compute pool that idles, and beside one that is never free."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from support.app import AppAccount
from support.rig import Rig, rig, soon

from schedules.counters import counts
from schedules.entry import FixedRateEntry

CLAIM = "lift-guild-stats-refresh"
COMPUTE = "barbelic-stats-projection-compute"
PUBLISH = "barbelic-stats-projection-publish"
EACH_SECOND = (CLAIM, COMPUTE, PUBLISH)
SIXTY = dict.fromkeys(EACH_SECOND, 60)
MINUTES = 3

SLOW_COMPUTE = """
    create function public.compute_slowly() returns trigger language plpgsql as $$
    begin perform pg_catalog.pg_sleep(1.5); return new; end $$;
    create trigger compute_slowly before update on public.user_stats_projection_runs for each row
    when (new.phase = 'computed' and old.phase = 'claimed') execute function public.compute_slowly();
"""
USUAL_COMPUTE = """
    drop trigger compute_slowly on public.user_stats_projection_runs;
    drop function public.compute_slowly();
"""


@dataclass(frozen=True)
class Watched:
    """A beat with its workers, one of compute among them."""

    rig: Rig

    def counted(self, reason: str) -> dict[str, int]:
        found = counts(self.rig.redis)[reason]
        return {entry: found.get(entry, 0) for entry in EACH_SECOND}

    def fired(self) -> dict[str, int]:
        return {entry: self.rig.runs(entry) for entry in EACH_SECOND}

    def fired_until(self, boundary: datetime) -> dict[str, int]:
        """Return the runs of each entry that fell before `boundary`, a whole second.

        It is read while the beats go on: those after it are taken off again.
        """
        entries = {name: FixedRateEntry.named(self.rig.app, name) for name in EACH_SECOND}
        later = {
            name: (entry.last_run_at - boundary) // timedelta(seconds=1) + 1
            for name, entry in entries.items()
        }
        return {name: entry.total_run_count - max(0, later[name]) for name, entry in entries.items()}

    def accounted_for(self) -> dict[str, int]:
        """Return the beats of each entry that have their row of history, overlaps among them, or were dropped."""
        rows = self.history("true")
        dropped = self.counted("dropped")
        return {entry: rows.get(entry, 0) + dropped[entry] for entry in EACH_SECOND}

    def said_by_workers(self) -> list[str]:
        return [line for process in self.rig.processes if process.name != "beat" for line in process.lines]

    def history(self, condition: str, **parameters: object) -> Mapping[str, int]:
        assert self.rig.database is not None
        return dict(
            self.rig.database.admin(
                f"select job_name, count(*) from public.cron_run_history where {condition} group by job_name",
                **parameters,
            )
        )


@pytest.fixture
def watched() -> Iterator[Watched]:
    with _watched() as made:
        yield made


@pytest.fixture
def watched_busy() -> Iterator[Watched]:
    with _watched() as made:
        yield made


@contextmanager
def _watched() -> Iterator[Watched]:
    with rig() as made:
        made.worker("pipeline", "maintenance", processes=2)
        made.worker("compute")
        made.beat()
        yield Watched(made)


@contextmanager
def busy(pool: Watched) -> Iterator[None]:
    """Keep the compute pool at work: computes of 1.5 s, for accounts that never stop saving."""
    database = pool.rig.database
    assert database is not None
    done = threading.Event()

    def save(account: AppAccount) -> None:
        while not done.is_set():
            account.save()
            done.wait(0.2)

    database.admin(SLOW_COMPUTE)
    people = [threading.Thread(target=save, args=(AppAccount(database),)) for _ in range(3)]
    for person in people:
        person.start()
    try:
        yield
    finally:
        done.set()
        for person in people:
            person.join()
        database.admin(USUAL_COMPUTE)


def until(moment: datetime) -> None:
    """Wait until the last beat before `moment` is out."""
    assert soon(lambda: datetime.now(UTC) >= moment, 70)


def test_sixty_runs_in_each_of_three_minutes_for_each_one_second_entry(
    watched: Watched, watched_busy: Watched
) -> None:
    """Both at once: the three minutes are spent waiting."""
    pools = (watched, watched_busy)
    for pool in pools:
        assert soon(lambda pool=pool: min(pool.fired().values()) > 2, 10)
    with busy(watched_busy):
        began = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
        until(began)
        skipped, lines = [pool.counted("missed") for pool in pools], len(watched.said_by_workers())
        before = [pool.fired_until(began) for pool in pools]
        for minute in range(1, MINUTES + 1):
            ended = began + timedelta(minutes=minute)
            until(ended)
            after = [pool.fired_until(ended) for pool in pools]
            for were, are in zip(before, after, strict=True):
                assert {entry: are[entry] - were[entry] for entry in EACH_SECOND} == SIXTY, minute
            before = after
        assert [pool.counted("missed") for pool in pools] == skipped, "a slot was missed"

    assert_all_ran(watched, began)
    # 540 runs without work and not a line of them; the pages of the minutes have theirs.
    assert len(watched.said_by_workers()) - lines <= 3 * (MINUTES + 1), watched.said_by_workers()[lines:]
    for pool in pools:
        assert_nothing_is_unaccounted_for(pool)
    dropped = watched_busy.counted("dropped")
    assert dropped[COMPUTE] > 0, "the pool was not busy"
    assert (dropped[CLAIM], dropped[PUBLISH]) == (0, 0), "a busy compute pool cost the other stages beats"


def assert_all_ran(idle: Watched, began: datetime) -> None:
    """With a free process each beat is a run of its own second."""
    for minute in range(MINUTES):
        started = idle.history(
            "started_at >= :began and started_at < :ended",
            began=began + timedelta(minutes=minute),
            ended=began + timedelta(minutes=minute + 1),
        )
        assert {entry: started.get(entry) for entry in EACH_SECOND} == SIXTY, minute


def assert_nothing_is_unaccounted_for(pool: Watched) -> None:
    """Whatever a pool did with a beat: it ran, it stepped aside, or it was dropped."""
    assert soon(lambda: pool.accounted_for() == pool.fired(), 20), (pool.accounted_for(), pool.fired())
    overlaps = pool.history("status = 'succeeded' and response ->> 'response' = 'overlap'")
    assert pool.counted("overlapped") == {entry: overlaps.get(entry, 0) for entry in EACH_SECOND}
