"""Clients that hold what the stages need for longer than these wait for a lock, and then roll back."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from faults.load import Person
from faults.plan import Kind, Lane, Outcome
from faults.scene import Scene
from tasks.transaction import account

_IN_FLIGHT = """
    select r.user_id from public.user_stats_projection_runs r where r.phase in ('claimed', 'computed')
    order by r.created_at
"""
_WAITS = """
    select from public.user_exercise_stats_refresh_jobs j
    where j.user_id = :user and j.status in ('pending', 'processing')
"""
_ACT_AS = text("select set_config('role', :role, true), set_config('request.jwt.claims', :claims, true)")


def _hold(take: Callable[[Connection, Person], None], as_account: bool, scene: Scene) -> Outcome:
    """Take something of an account that has a run in flight, sit on it, and roll back."""
    found = scene.watch.wait_for(lambda: scene.watch.rows(_IN_FLIGHT))
    by_id = {person.user_id: person for person in scene.people}
    person = next((by_id[user] for (user,) in found or [] if user in by_id), None)
    if person is None:
        return Outcome(False, "no run was in flight")
    # A client's own transaction; an administrator's goes past the proxy, and sees all rows.
    url = scene.stack.database.url if as_account else scene.stack.database.admin_url
    seconds = round(scene.dice.uniform(2.5, 6), 1)
    try:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            if as_account:
                identity = account(person.user_id)
                connection.execute(_ACT_AS, {"role": identity.role, "claims": identity.claims})
            take(connection, person)
            waits = scene.watch.rows(_WAITS, user=person.user_id)
            scene.last(seconds)
    except SQLAlchemyError as error:
        return Outcome(False, f"{person.user_id}: {str(error).splitlines()[0]}")
    return Outcome(bool(waits), f"{person.user_id} for {seconds} s")


def _write_lock(connection: Connection, person: Person) -> None:
    """A save that is not committed: the account's write lock, and rows that nobody will see."""
    payload = person.app.payload(title="never committed")
    connection.execute(
        text("select public.save_session_v5(cast(:payload as jsonb))"), {"payload": json.dumps(payload)}
    )


def _rows_of(table: str, connection: Connection, person: Person) -> None:
    connection.execute(text("set local lock_timeout = '3s'"))
    states = "'pending', 'processing'" if table.endswith("jobs") else "'claimed', 'computed'"
    column = "status" if table.endswith("jobs") else "phase"
    connection.execute(
        text(f"select from public.{table} where user_id = :user and {column} in ({states}) for update"),
        {"user": person.user_id},
    )


KINDS = [
    Kind("write lock held", Lane.MESSAGES, partial(_hold, _write_lock, True)),
    Kind(
        "job rows held",
        Lane.MESSAGES,
        partial(_hold, partial(_rows_of, "user_exercise_stats_refresh_jobs"), False),
    ),
    Kind(
        "run row held", Lane.MESSAGES, partial(_hold, partial(_rows_of, "user_stats_projection_runs"), False)
    ),
]
