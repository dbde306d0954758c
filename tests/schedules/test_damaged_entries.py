"""Entries that Redis holds and that can't be right: a real beat outlives them, commands say what to do."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from redbeat.schedulers import get_redis
from support.rig import CeleryProcess, Rig, soon

from core.errors import OperatorError
from schedules.entry import FixedRateEntry
from schedules.install import install_missing
from schedules.operations import list_entries, set_enabled
from schedules.settings import schedule_app

CLAIM = "lift-guild-stats-refresh"
DAMAGE = {
    "no JSON": "{",
    "no entry": "[]",
    "no schedule": json.dumps({"name": CLAIM, "task": "stats.claim", "schedule": "1s"}),
    "a field too many": json.dumps({"name": CLAIM, "task": "stats.claim", "cadence": 1}),
}


@pytest.fixture(scope="module")
def beat(beat_rig: Rig) -> CeleryProcess:
    return beat_rig.beat()


def key(rig: Rig) -> str:
    return FixedRateEntry.named(rig.app, CLAIM).key


def fires_within(rig: Rig, seconds: float) -> bool:
    """Wait until the entry is there, and fired."""

    def runs() -> int:
        try:
            return rig.runs(CLAIM)
        except KeyError:
            return 0

    return soon(lambda: runs() >= 1, seconds)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_definition_that_can_not_be_read_is_replaced(
    beat_rig: Rig, beat: CeleryProcess, damage: str
) -> None:
    entry = key(beat_rig)
    with beat_rig.redis.pipeline() as pipe:
        pipe.hdel(entry, "meta")
        pipe.hset(entry, "definition", damage)
        pipe.execute()
    assert fires_within(beat_rig, 10)
    assert beat.is_running()


def test_a_clock_that_was_set_back_silences_no_entry(beat_rig: Rig, beat: CeleryProcess) -> None:
    """The last run is an hour ahead, as another host's beat or the clock of before has written it."""
    entry = FixedRateEntry.named(beat_rig.app, CLAIM)
    entry._next_instance(last_run_at=datetime.now(UTC) + timedelta(hours=1))
    runs = beat_rig.runs(CLAIM)
    assert soon(lambda: beat_rig.runs(CLAIM) > runs, 10)
    beat.wait_for(f"Redis had lost or misplaced {CLAIM}: put back")


def test_commands_say_what_to_do_about_an_entry_that_can_not_be_read(beat_rig: Rig) -> None:
    # A schedule of its own, which no beat looks after.
    app = schedule_app(beat_rig.valkey.redis_url.replace("db=0", "db=5"))
    install_missing(app)
    get_redis(app).hset(FixedRateEntry.generate_key(app, CLAIM), "definition", "{")
    assert next(listed for listed in list_entries(app) if listed.name == CLAIM).cadence is None
    with pytest.raises(OperatorError, match="run stats-refresh schedule install"):
        set_enabled(app, CLAIM, False)
    assert install_missing(app) == [CLAIM]
    assert set_enabled(app, CLAIM, False).enabled is False
