"""What changes around a running stack: the clock, the database's defaults, a migration, a worker of another release."""

from __future__ import annotations

import signal

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from support.previous_release import no_history, previous_release
from support.rig import WORKER_READY

from faults.clock import find_library
from faults.plan import Kind, Lane, Outcome
from faults.scene import Scene
from faults.stack import LEASE_SECONDS, QUEUES, worker
from sql.migrate import migrate

_STEPS = {
    "a minute ahead": 60,
    "a minute back": -60,
    "3 days ahead": 3 * 86400,
    "6 months ahead": 183 * 86400,
}
_DEFAULTS = (
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_isolation = 'serializable'",
    "default_transaction_read_only = on",
    "transaction_timeout = '1s'",
    "lock_timeout = '50ms'",
    "statement_timeout = '300ms'",
    "idle_in_transaction_session_timeout = '100ms'",
    "TimeZone = 'Pacific/Kiritimati'",
    "DateStyle = 'SQL, DMY'",
    "search_path = ''",
)
_OLDEST_WITH_TRANSACTION_TIMEOUT = 17


def step_the_clock(scene: Scene) -> Outcome:
    """Set the clock wrong for a few seconds."""
    scene.watch.wait_for(scene.watch.has_work)
    name = scene.dice.choice(sorted(_STEPS))
    in_flight = scene.watch.has_work()
    scene.stack.clock.step(_STEPS[name])
    scene.last(scene.dice.uniform(2, 5))
    scene.stack.clock.step(0)
    # Until every process has looked at the clock again.
    scene.last(1.5)
    return Outcome(in_flight, name)


def change_a_default(scene: Scene) -> Outcome:
    """Change a default of the database or the workers' login for a few seconds; each connection meets it when new."""
    version = (scene.watch.rows("show server_version_num") or [("0",)])[0][0]
    known = [
        one
        for one in _DEFAULTS
        if "transaction_timeout" not in one.split("=")[0].removeprefix("idle_in_")
        or int(version) // 10_000 >= _OLDEST_WITH_TRANSACTION_TIMEOUT
    ]
    changed = scene.dice.choice(known)
    url = make_url(scene.stack.database.url)
    whom = scene.dice.choice([f'database "{url.database}"', f'role "{url.username}"'])
    in_flight = bool(scene.watch.wait_for_stage())
    try:
        if not _altered(scene, f"alter {whom} set {changed}"):
            return Outcome(False, f"{whom}: {changed}: Postgres is away")
        _meet_anew(scene)
        scene.last(scene.dice.uniform(2, 4))
    finally:
        reset = f"alter {whom} reset {changed.split(' =')[0]}"
        # Postgres may be away because of another fault; it comes back.
        if not scene.watch.wait_for(lambda: _altered(scene, reset), 60):
            raise AssertionError(f"{reset}: not done")
        _meet_anew(scene)
    return Outcome(in_flight, f"{whom}: {changed}")


def _altered(scene: Scene, statement: str) -> bool:
    try:
        _alter(scene, statement)
    except SQLAlchemyError:
        return False
    return True


def _alter(scene: Scene, statement: str) -> None:
    engine = create_engine(scene.stack.database.admin_url, poolclass=NullPool)
    with engine.begin() as connection:
        # The default that is to be reset holds for this connection too.
        connection.execute(text("set transaction read write"))
        connection.execute(text(statement))


def _meet_anew(scene: Scene) -> None:
    scene.watch.rows(
        "select pg_terminate_backend(a.pid) from pg_stat_activity a where a.usename = :login",
        login=make_url(scene.stack.database.url).username,
    )


def pause_past_the_lease(scene: Scene) -> Outcome:
    """Pause compute and publish, as an operator would, until leases of runs in flight have run out."""
    expired = """
        select r.id from public.user_stats_projection_runs r
        where r.phase in ('claimed', 'computed') and r.lease_until <= clock_timestamp()
    """
    pause = "select public.pause_stats_stages_v1('{{compute, publish}}', {})"
    scene.watch.wait_for(scene.watch.has_work)
    try:
        scene.watch.rows(pause.format(True))
        scene.watch.wait_for(
            lambda: scene.over.is_set() or bool(scene.watch.rows(expired)), LEASE_SECONDS + 4
        )
        runs = scene.watch.rows(expired)
    finally:
        if not scene.watch.wait_for(lambda: scene.watch.rows(pause.format(False)), 60):
            raise AssertionError("the stages are still paused")
    return Outcome(bool(runs), f"{len(runs)} runs")


def migrate_meanwhile(scene: Scene) -> Outcome:
    backend = scene.watch.wait_for_stage()
    try:
        migrate(create_engine(scene.stack.database.admin_url, poolclass=NullPool))
    except Exception as error:
        # Other faults meet it too; a migration is one transaction, and the next one does it.
        return Outcome(
            backend is not None, f"ended with {type(error).__name__}: {str(error).splitlines()[0]}"
        )
    return Outcome(backend is not None, backend.stage if backend else "nobody was at a stage")


def work_with_the_previous_release(scene: Scene) -> Outcome:
    """Let a worker of the previous release work beside the others for some seconds."""
    process = scene.stack.keep(
        "previous release", worker(",".join(QUEUES), 2, "previous"), WORKER_READY, previous_release()
    )
    try:
        scene.watch.wait_for(lambda: scene.over.is_set() or process.is_ready(), 30)
        scene.last(4)
        tasks = process.process.count(r"Task stats\.\w+\[\S+\] (succeeded|raised)") if process.process else 0
        process.signal(signal.SIGTERM)
        scene.last(1)
    finally:
        process.stop()
    return Outcome(tasks > 0, f"{tasks} tasks")


def _no_libfaketime() -> str | None:
    return None if find_library() else "Debian's package libfaketime is not installed"


KINDS = [
    Kind("clock stepped", Lane.SERVERS, step_the_clock, _no_libfaketime),
    Kind("lease run out", Lane.MESSAGES, pause_past_the_lease),
    Kind("database default changed", Lane.CONNECTIONS, change_a_default),
    Kind("migrated meanwhile", Lane.CONNECTIONS, migrate_meanwhile),
    Kind("previous release at work", Lane.MESSAGES, work_with_the_previous_release, no_history),
]
