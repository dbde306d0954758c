"""A RedBeat entry on a fixed rate, whose edits and ticks never undo each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, cast

from celery import Celery
from celery.schedules import schedstate, schedule
from redbeat.decoder import RedBeatJSONEncoder
from redbeat.schedulers import RedBeatSchedulerEntry, ensure_conf, get_redis
from redis import WatchError
from redis.client import Pipeline

from core.redis_keys import is_wrong_type
from schedules.cadence import SHORTEST
from schedules.counters import count
from schedules.entries import PHASES

_EDITED = "edited"
"""A field of the entry's hash, until its next run: the slots before an edit, such as a pause, were not missed."""


class FixedRateEntry(RedBeatSchedulerEntry):  # type: ignore[misc]
    """Interval entries keep to the grid last_run_at + n x every, each at its phase of the second; slots that were
    missed are skipped and counted.

    A tick writes last run and due time, an edit writes definition and due time; both do so only on the entry as
    they read it. With RedBeat's own writes a tick in flight would put back the due time of the old cadence.
    """

    @classmethod
    def named(cls, app: Celery, name: str) -> Self:
        """Return the entry as Redis has it; KeyError where it has none."""
        ensure_conf(app)
        entry: Self = cls.from_key(cls.generate_key(app, name), app=app)
        return entry

    @classmethod
    def from_key(cls, key: str, app: Celery) -> Self:
        """Return the entry that Redis has under `key`; KeyError where it has none that can be read."""
        entry = cls.from_keys([key], app)[key]
        if entry is None:
            raise KeyError(key)
        return entry

    @classmethod
    def from_keys(cls, keys: Sequence[str], app: Celery) -> dict[str, Self | None]:
        """Return what Redis has under each of `keys`, in one round trip; None where that is no entry."""
        ensure_conf(app)
        with get_redis(app).pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.hmget(key, "definition", "meta")
            found = pipe.execute(raise_on_error=False)
        return {key: cls._of_reply(key, reply, app) for key, reply in zip(keys, found, strict=True)}

    @classmethod
    def _of_reply(cls, key: str, reply: object, app: Celery) -> Self | None:
        if isinstance(reply, Exception):
            if not is_wrong_type(reply):
                raise reply
            return None
        definition, meta = cast(list[str | None], reply)
        entry = cls.decoded(definition, meta, app)
        # Under another key than its own it would be due for ever: each run writes the next due time to its own.
        return entry if entry is not None and entry.key == key else None

    @classmethod
    def decoded(cls, definition: str | None, meta: str | None, app: Celery) -> Self | None:
        """Return the entry as the two fields of its hash describe it; None where they describe none."""
        try:
            state = cls.decode_meta(meta)
            entry = cls(app=app, **{**cls.decode_definition(definition), **state})
            # Celery's entry takes now for an entry that has never run.
            entry.last_run_at = state["last_run_at"]
            # What beat will ask next.
            _ = entry.score, entry.is_due()
        except Exception:
            # Somebody else may have written anything, which fails in as many ways.
            return None
        return None if entry._is_too_often else entry

    @property
    def _is_too_often(self) -> bool:
        return isinstance(self.schedule, schedule) and self.schedule.run_every < SHORTEST

    @property
    def is_ahead(self) -> bool:
        """True where the last run is still to come: the clock was set back, or another host's beat has a later one."""
        return self.last_run_at is not None and self.last_run_at > self._default_now() + timedelta(seconds=1)

    @property
    def due_at(self) -> datetime | None:
        """When the entry is due next, now where it is overdue; None where it never is again.

        RedBeat counts the wait from the last run, which is right only at the moment of that run.
        """
        if self.last_run_at is None:
            now: datetime = self._default_now()
            return now
        wait: timedelta | None = self.schedule.remaining_estimate(self.last_run_at)
        # The clock is read after the wait: a little late is the right second, a little early the one before.
        return None if wait is None else self._default_now() + max(wait, timedelta(0))

    def _slot(self) -> tuple[datetime, float, int] | None:
        """Return the newest grid point, the seconds to the next one, and how many were missed between.

        None where the entry is not an overdue interval.
        """
        if type(self.schedule) is not schedule or self.last_run_at is None:
            return None
        every, last = self.schedule.run_every, self.last_run_at
        if every.total_seconds().is_integer():
            # Early in its second, so that a run that starts a little late still falls into it.
            phase = PHASES.get(self.name, timedelta(0))
            last = (last - phase).replace(microsecond=0) + phase
        late = self._default_now() - last
        slots = late // every
        if slots < 1:
            return None
        return last + slots * every, (every - late % every).total_seconds(), slots - 1

    def is_due(self) -> schedstate:
        state = super().is_due()
        slot = self._slot() if state[0] and self.enabled else None
        return schedstate(True, slot[1]) if slot else state

    def _next_instance(
        self, last_run_at: datetime | None = None, only_update_last_run_at: bool = False
    ) -> Self:
        slot = self._slot() if last_run_at is None else None
        ran_at = slot[0] if slot else last_run_at or self._default_now()
        run_count = self.total_run_count + (not only_update_last_run_at)
        missed = slot[2] if slot else 0
        if missed and get_redis(self.app).hexists(self.key, _EDITED):
            missed = 0

        def write(current: Self, pipe: Pipeline) -> None:
            current.last_run_at, current.total_run_count = ran_at, run_count
            pipe.hset(self.key, "meta", current._meta_json())
            current._write_due_time(pipe)
            pipe.hdel(self.key, _EDITED)

        try:
            written = self._rewrite(write)
        except KeyError:
            # Lost since it was read, with all of Redis perhaps: this run goes out, the reconciler puts it back.
            return type(self)(**dict(self, last_run_at=ran_at, total_run_count=run_count))
        if missed:
            count(get_redis(self.app), "missed", self.name, missed)
        return written

    # The base class binds these names to its own method.
    __next__ = next = _next_instance

    def edit(self, change: Callable[[Self], None]) -> Self:
        """Apply `change` to the entry as Redis has it now, and store its definition and due time."""

        def write(current: Self, pipe: Pipeline) -> None:
            change(current)
            pipe.hset(self.key, mapping={"definition": current._definition_json(), _EDITED: "1"})
            current._write_due_time(pipe)

        return self._rewrite(write)

    def restore_due_time(self) -> None:
        """Store the due time that follows from the entry as Redis has it now; one that is ahead ran now instead."""

        def write(current: Self, pipe: Pipeline) -> None:
            if current.is_ahead:
                current.last_run_at = self._default_now()
                pipe.hset(self.key, "meta", current._meta_json())
            current._write_due_time(pipe)

        self._rewrite(write)

    def _rewrite(self, write: Callable[[Self, Pipeline], None]) -> Self:
        with get_redis(self.app).pipeline() as pipe:
            while True:
                pipe.watch(self.key)
                current = type(self).from_key(self.key, app=self.app)
                pipe.multi()
                write(current, pipe)
                try:
                    pipe.execute()
                except WatchError:
                    continue
                return current

    def _write_due_time(self, pipe: Pipeline) -> None:
        pipe.zadd(self.app.redbeat_conf.schedule_key, {self.key: self.score})

    def _definition_json(self) -> str:
        names = ("name", "task", "args", "kwargs", "options", "schedule", "enabled")
        return _json({name: getattr(self, name) for name in names})

    def _meta_json(self) -> str:
        return _json({"last_run_at": self.last_run_at, "total_run_count": self.total_run_count})


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, cls=RedBeatJSONEncoder)
