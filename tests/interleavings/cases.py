"""Every answer of the three stages, with the situation that brings it about."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batches import scene as batches
from support.app import AppAccount, Json, Stages

from sql.functions import sql_files
from tasks.transaction import Stage

from .scene import HEADERS, OUTPUT, change_settings, end_waits, expire_lease, on_insert, undo_on_insert

if TYPE_CHECKING:
    from conftest import Database

Prepare = Callable[["Database", AppAccount, Stages], Json | None]


@dataclass(frozen=True)
class Case:
    """One answer: the stage that gives it, what it says, and what the tasks send next."""

    stage: Stage
    response: str
    prepare: Prepare
    """Arranges the situation; returns the run that the message names, None for a beat's."""
    keys: frozenset[str]
    sends: tuple[str, ...] = ()
    reason: str | None = None
    calls: int = 1
    """How often the transaction calls the stage; a task calls it once."""

    @property
    def writes(self) -> bool:
        return self.response not in ("idle", "lease_lost", "at_capacity", "paused")

    def sql(self, run: Json | None) -> str:
        """Return the call as an SQL scheduler writes it."""
        arguments = f"'{run['run_id']}', '{run['lease_token']}'" if run else ""
        return f"select public.stats_projection_{self.stage}_v1({arguments or self._no_run})"

    @property
    def _no_run(self) -> str:
        return "'sql'" if self.stage == "claim" else ""


def prepare(case: Case, database: Database, account: AppAccount, stages: Stages) -> Json | None:
    return case.prepare(database, account, stages)


def _saved(database: Database, account: AppAccount, stages: Stages) -> None:
    account.save()


def _two_saved(database: Database, account: AppAccount, stages: Stages) -> None:
    account.save()
    AppAccount(database).save()


def _nothing(database: Database, account: AppAccount, stages: Stages) -> None:
    pass


def _full(database: Database, account: AppAccount, stages: Stages) -> None:
    change_settings(database, active_lease_cap=1)
    _two_saved(database, account, stages)
    stages.claim()


def _claimed(database: Database, account: AppAccount, stages: Stages) -> Json:
    account.save()
    return stages.claim()


def _computed(database: Database, account: AppAccount, stages: Stages) -> Json:
    run = _claimed(database, account, stages)
    assert stages.compute(run)["response"] == "computed"
    return run


def _published(database: Database, account: AppAccount, stages: Stages) -> Json:
    run = _computed(database, account, stages)
    assert stages.publish(run)["response"] == "published"
    return run


def _sabotaged(arrange: Prepare, table: str) -> Prepare:
    def arrange_and_sabotage(database: Database, account: AppAccount, stages: Stages) -> Json | None:
        run = arrange(database, account, stages)
        on_insert(database, table, "raise exception 'sabotage';")
        return run

    return arrange_and_sabotage


def _by_a_beat(arrange: Prepare) -> Prepare:
    def arrange_only(database: Database, account: AppAccount, stages: Stages) -> None:
        arrange(database, account, stages)

    return arrange_only


def _wrong_token(arrange: Prepare) -> Prepare:
    def arrange_and_forge(database: Database, account: AppAccount, stages: Stages) -> Json:
        run = arrange(database, account, stages)
        assert run
        return {**run, "lease_token": str(uuid.uuid4())}

    return arrange_and_forge


def _expired(arrange: Prepare) -> Prepare:
    def arrange_and_wait(database: Database, account: AppAccount, stages: Stages) -> Json:
        run = arrange(database, account, stages)
        assert run
        expire_lease(database, run)
        return run

    return arrange_and_wait


def _base_moved(database: Database, account: AppAccount, stages: Stages) -> Json:
    _published(database, account, stages)
    run = _computed(database, account, stages)
    database.admin("update public.user_stats_refresh_state set applied_version = 0")
    return run


def _deleted(database: Database, account: AppAccount, stages: Stages) -> Json:
    receipt = account.save()
    run = stages.claim()
    stages.compute(run)
    account.delete(receipt["session_id"])
    return run


def _tampered(database: Database, account: AppAccount, stages: Stages) -> Json:
    run = _computed(database, account, stages)
    database.admin(f"delete from {OUTPUT}")
    return run


def _paused(stage: Stage, arrange: Prepare) -> Prepare:
    def arrange_and_pause(database: Database, account: AppAccount, stages: Stages) -> Json | None:
        run = arrange(database, account, stages)
        batches.set_settings(database, paused_stages=[stage])
        return run

    return arrange_and_pause


def _policy(database: Database, account: batches.Account, run: batches.Run) -> None:
    database.as_service()("select public.update_stats_projection_policy_v1('epley')")


def _source(database: Database, account: batches.Account, run: batches.Run) -> None:
    account.edit(account.exercise_ids[4], "2026-03-08", 200)


def _midnight(database: Database, account: batches.Account, run: batches.Run) -> None:
    run.change("payload = jsonb_set(payload, '{_batch,anchor}', '\"2026-01-01\"')")


def _base(database: Database, account: batches.Account, run: batches.Run) -> None:
    database.admin("update public.user_stats_refresh_state set applied_version = requested_version")


def _outputs(database: Database, account: batches.Account, run: batches.Run) -> None:
    database.admin(f"update {OUTPUT} set reps = reps + 1")


MOVES = {"policy": _policy, "source": _source, "anchor": _midnight, "base": _base, "outputs": _outputs}
"""What may move between two batches of a run, by the reason that its next step gives."""


def _batched(
    steps: int, then: Callable[[Database, batches.Account, batches.Run], None] | None = None
) -> Prepare:
    """Arrange a run over five exercises in batches of two, that many steps done; `then` happens to it."""

    def arrange(database: Database, account: AppAccount, stages: Stages) -> Json:
        batches.set_settings(database, batch_size=2)
        large = batches.Account(database, 5, user_id=account.user_id)
        run = batches.claim_run(database)
        for _ in range(steps):
            assert run.step()["response"] == "batch_pending"
        if then is not None:
            then(database, large, run)
        return run.claimed

    return arrange


TIMEOUT = "canceling statement due to statement timeout"


def _overrun(database: Database, account: batches.Account, run: batches.Run) -> None:
    on_insert(database, OUTPUT, f"raise exception using errcode = '57014', message = '{TIMEOUT}';")


def _held(arrange: Prepare, table: str) -> Prepare:
    """Let the stage meet what it meets at a lock that somebody keeps."""

    def arrange_and_hold(database: Database, account: AppAccount, stages: Stages) -> Json | None:
        run = arrange(database, account, stages)
        on_insert(database, table, "raise exception using errcode = '55P03', message = 'somebody has it';")
        return run

    return arrange_and_hold


def _waited(database: Database, account: AppAccount, stages: Stages) -> None:
    _let_it_wait(database, stages.compute, _held(_claimed, OUTPUT)(database, account, stages), OUTPUT)


def _computed_and_waited(database: Database, account: AppAccount, stages: Stages) -> None:
    _let_it_wait(database, stages.publish, _held(_computed, HEADERS)(database, account, stages), HEADERS)


def _let_it_wait(database: Database, stage: Callable[..., Json], run: Json | None, table: str) -> None:
    assert stage(run)["response"] == "busy"
    undo_on_insert(database, table)
    end_waits(database)


_CLAIMED = frozenset({"response", "run_id", "lease_token", "user_id", "phase", "has_more", "has_capacity"})
_COMPUTED = frozenset({"response", "run_id", "lease_token", "user_id"})
_PUBLISHED = frozenset({"response", "run_id", "user_id", "generation", "rows"})
_REJECTED = frozenset({"response", "reason", "run_id", "user_id"})
_FAILED = frozenset({"response", "run_id", "user_id", "sqlstate", "error", "attempts", "exhausted"})
_BARE = frozenset({"response"})
_BATCH = _COMPUTED | {"stage", "next_offset", "total_exercises"}
_RETRY = _BATCH | {"retry_not_before", "sqlstate", "error"}
_BUSY = frozenset({"response", "run_id", "user_id", "retry_not_before", "sqlstate", "error"})
_CLAIM, _COMPUTE, _PUBLISH = "stats.claim", "stats.compute", "stats.publish"

CASES: dict[str, Case] = {
    "claimed": Case("claim", "claimed", _saved, _CLAIMED, (_COMPUTE,)),
    "claimed again after a wait": Case("claim", "claimed", _waited, _CLAIMED, (_COMPUTE,)),
    "computed, claimed again after a wait": Case(
        "claim", "claimed", _computed_and_waited, _CLAIMED, (_PUBLISH,)
    ),
    "claimed, another is due": Case("claim", "claimed", _two_saved, _CLAIMED, (_COMPUTE, _CLAIM)),
    "nothing is due": Case("claim", "idle", _nothing, _BARE),
    "at capacity": Case("claim", "at_capacity", _full, _BARE),
    "claims are paused": Case("claim", "paused", _paused("claim", _saved), _BARE),
    "computed": Case("compute", "computed", _claimed, _COMPUTED, (_PUBLISH,)),
    "computed by a beat": Case("compute", "computed", _by_a_beat(_claimed), _COMPUTED, (_PUBLISH,)),
    "failed in compute": Case("compute", "failed", _sabotaged(_claimed, OUTPUT), _FAILED, (_CLAIM,)),
    "nothing to compute": Case("compute", "idle", _by_a_beat(_saved), _BARE),
    "computed already": Case("compute", "idle", _computed, _BARE),
    "another token in compute": Case("compute", "lease_lost", _wrong_token(_claimed), _BARE),
    "expired in compute": Case("compute", "lease_lost", _expired(_claimed), _BARE),
    "computes are paused": Case("compute", "paused", _paused("compute", _claimed), _BARE),
    "batches prepared": Case("compute", "batch_pending", _batched(0), _BATCH, (_COMPUTE,)),
    "a batch computed": Case("compute", "batch_pending", _batched(1), _BATCH, (_COMPUTE,)),
    "the last batch finalized": Case("compute", "computed", _batched(4), _COMPUTED, (_PUBLISH,)),
    "a batch called twice in one transaction": Case(
        "compute", "batch_pending", _batched(1), _BATCH, (), "transaction_boundary_required", calls=2
    ),
    "a batch over its budget": Case(
        "compute", "retry_pending", _batched(1, _overrun), _RETRY, (_CLAIM, _CLAIM)
    ),
    "a batch that met a lock": Case("compute", "busy", _held(_batched(1), OUTPUT), _BUSY, (_CLAIM, _CLAIM)),
    "a compute that met a lock": Case("compute", "busy", _held(_claimed, OUTPUT), _BUSY, (_CLAIM, _CLAIM)),
    **{
        f"invalidated: {reason}": Case(
            "compute",
            "invalidated",
            _batched(2, move),
            _REJECTED,
            # The account's own writes wait for nothing.
            (_CLAIM,) if reason == "source" else (_CLAIM, _CLAIM),
            reason,
        )
        for reason, move in MOVES.items()
    },
    "published": Case("publish", "published", _computed, _PUBLISHED, (_CLAIM,)),
    "published by a beat": Case("publish", "published", _by_a_beat(_computed), _PUBLISHED, (_CLAIM,)),
    "rejected: base moved": Case(
        "publish", "rejected", _base_moved, _REJECTED, (_CLAIM, _CLAIM), "base_moved"
    ),
    "rejected: session deleted": Case(
        "publish", "rejected", _deleted, _REJECTED, (_CLAIM, _CLAIM), "canonical_deleted"
    ),
    "rejected: manifest": Case("publish", "rejected", _tampered, _REJECTED, (_CLAIM, _CLAIM), "manifest"),
    "a publication that met a lock": Case(
        "publish", "busy", _held(_computed, HEADERS), _BUSY, (_CLAIM, _CLAIM)
    ),
    "failed in publish": Case("publish", "failed", _sabotaged(_computed, HEADERS), _FAILED, (_CLAIM,)),
    "nothing to publish": Case("publish", "idle", _by_a_beat(_claimed), _BARE),
    "published already": Case("publish", "idle", _published, _BARE),
    "another token in publish": Case("publish", "lease_lost", _wrong_token(_computed), _BARE),
    "expired in publish": Case("publish", "lease_lost", _expired(_computed), _BARE),
    "publications are paused": Case("publish", "paused", _paused("publish", _computed), _BARE),
}
TASK_CASES = [name for name, case in CASES.items() if case.calls == 1]

_FILES = {file.name: file.text for file in sql_files()}


def contract() -> set[tuple[Stage, str]]:
    """Return every (stage, response) that the headers of the stages' functions promise."""
    stages: tuple[Stage, ...] = ("claim", "compute", "publish")
    promised: set[tuple[Stage, str]] = set()
    for stage in stages:
        header = _FILES[f"pipeline/{stage}.sql"].partition("create or replace")[0]
        [listed] = re.findall(r"{response: ([\w |]+)", header)
        promised |= {(stage, response.strip()) for response in listed.split("|")}
    return promised


def reasons() -> set[tuple[str, str]]:
    """Return every (response, reason) that the functions' text gives."""
    [rejections] = re.findall(r"Rejected \(([\w, ]+)\)", _FILES["pipeline/publish.sql"])
    invalidations = _FILES["runs/invalidation.sql"].partition("$$;")[0]
    moved = re.findall(r" then '(\w+)'$", invalidations, flags=re.MULTILINE)
    refusals = re.findall(r'"reason": "(\w+)"', _FILES["pipeline/compute.sql"])
    return {
        *(("rejected", reason) for reason in rejections.split(", ")),
        *(("invalidated", reason) for reason in moved),
        *(("batch_pending", reason) for reason in refusals),
    }


def responses_written() -> set[str]:
    """Return every response that stands in the text of the stages and of what they call."""
    text = "".join(
        text
        for name, text in _FILES.items()
        if name.startswith(("pipeline/", "runs/")) and name != "pipeline/refresh_at_once.sql"
    )
    return set(re.findall(r"'response', '(\w+)'", text))
