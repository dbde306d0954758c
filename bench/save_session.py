"""What a save costs: `save_session_v5` with its receipt and dirty range, against bare inserts of the same rows.

`python -m bench.save_session` starts an embedded Postgres of its own that syncs every commit, and prints both
medians, their ratio, and the share of HOT updates that merging leaves on the queue row.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
import psycopg2.extensions
from sqlalchemy import create_engine, make_url
from sqlalchemy.pool import NullPool

from bench.report import Measured, print_report
from embedded.postgres import PostgresServer
from sql.migrate import migrate

EXERCISES, SETS = 6, 4
SAVES = 300
WARM_UP = 30
MERGES = 20

Cursor = psycopg2.extensions.cursor


@dataclass(frozen=True)
class Result:
    """Medians in milliseconds of one round trip with its commit, and the HOT share of the merges."""

    save_p50_ms: float
    bare_p50_ms: float
    ratio: float
    hot_share: float


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure as many saves as the first of `arguments` says."""
    saves = int(arguments[0]) if arguments else SAVES
    with _database() as cursor:
        result = measure(cursor, saves)
    return [
        Measured("a save of 6 exercises with 4 sets, commit included, p50", result.save_p50_ms, "ms"),
        Measured("bare inserts of the same rows, p50", result.bare_p50_ms, "ms"),
        Measured("a save against bare inserts", result.ratio, "x", bar=2),
        Measured("HOT share of the queue row's updates while saves merge", 100 * result.hot_share, "%"),
    ]


def measure(cursor: Cursor, saves: int = SAVES) -> Result:
    """Measure on a migrated database, as one signed-in account and, for the bare inserts, the superuser."""
    user = str(uuid.uuid4())
    _sign_in(cursor, user)
    exercises = [_new_exercise(cursor, user, f"Exercise {number}") for number in range(EXERCISES)]
    save_ms, bare_ms = [], []
    for turn in range(WARM_UP + saves):
        saved = _timed(cursor, _save_statement(cursor, user, exercises))
        cursor.execute("reset role")
        bare = _timed(cursor, _bare_statement(cursor, user, exercises))
        cursor.execute("set role authenticated")
        if turn >= WARM_UP:
            save_ms.append(saved)
            bare_ms.append(bare)
    save, bare = statistics.median(save_ms), statistics.median(bare_ms)
    return Result(round(save, 3), round(bare, 3), round(save / bare, 2), _hot_share_of_merges(cursor))


def _hot_share_of_merges(cursor: Cursor) -> float:
    """Return the share of HOT updates of the queue while `MERGES` saves of one account merge into one row."""
    user = str(uuid.uuid4())
    _sign_in(cursor, user)
    exercises = [_new_exercise(cursor, user, f"Exercise {number}") for number in range(EXERCISES)]
    cursor.execute(_save_statement(cursor, user, exercises))
    before = _updates(cursor)
    for _ in range(MERGES):
        cursor.execute(_save_statement(cursor, user, exercises))
    after = _updates(cursor)
    updates, hot = (now - then for now, then in zip(after, before, strict=True))
    assert updates == MERGES, f"{MERGES} merged saves made {updates} updates of the queue"
    return hot / updates


def _updates(cursor: Cursor) -> tuple[int, int]:
    cursor.execute("select pg_catalog.pg_stat_force_next_flush()")
    cursor.execute("reset role")
    cursor.execute(
        "select n_tup_upd, n_tup_hot_upd from pg_catalog.pg_stat_user_tables"
        " where relid = 'public.user_exercise_stats_refresh_jobs'::pg_catalog.regclass"
    )
    updates, hot = _one_row(cursor)
    cursor.execute("set role authenticated")
    return updates, hot


def _sign_in(cursor: Cursor, user: str) -> None:
    """Act as `user` until the next sign-in, so that a save is one round trip."""
    cursor.execute("set role authenticated")
    claims = json.dumps({"sub": user, "role": "authenticated"})
    cursor.execute("select pg_catalog.set_config('request.jwt.claims', %s, false)", [claims])


def _new_exercise(cursor: Cursor, user: str, name: str) -> str:
    cursor.execute("select public.upsert_exercise_v1(%s, 'weight_reps', %s) ->> 'exercise_id'", [name, user])
    return str(_one_row(cursor)[0])


def _save_statement(cursor: Cursor, user: str, exercises: list[str]) -> bytes:
    payload = {
        "expected_user_id": user,
        "mutation_id": str(uuid.uuid4()),
        "session_date": "2026-03-10",
        "title": "Morning",
        "exercises": [
            {
                "exercise_id": exercise,
                "sets": [
                    {"set_type": "normal", "weight_kg": 100 + number, "reps": 5} for number in range(SETS)
                ],
            }
            for exercise in exercises
        ],
    }
    return cursor.mogrify("select public.save_session_v5(%s)", [json.dumps(payload)])


def _bare_statement(cursor: Cursor, user: str, exercises: list[str]) -> bytes:
    """Return the same rows as one insert a table, all in one string: one round trip, one transaction."""
    session, parts = str(uuid.uuid4()), [str(uuid.uuid4()) for _ in exercises]
    return b";".join(
        [
            _insert(
                cursor,
                "workout_sessions (id, user_id, session_date, title)",
                [(session, user, "2026-03-10", "Morning")],
            ),
            _insert(
                cursor,
                "session_exercise_part (id, session_id, user_id, exercise_id, position)",
                [
                    (part, session, user, exercise, position)
                    for position, (part, exercise) in enumerate(zip(parts, exercises, strict=True), 1)
                ],
            ),
            _insert(
                cursor,
                "session_sets (part_id, set_no, set_type, weight_kg, reps)",
                [(part, number + 1, "normal", 100 + number, 5) for part in parts for number in range(SETS)],
            ),
        ]
    )


def _insert(cursor: Cursor, table: str, rows: list[tuple[Any, ...]]) -> bytes:
    values = b",".join(cursor.mogrify("(" + ",".join(["%s"] * len(row)) + ")", row) for row in rows)
    return f"insert into public.{table} values ".encode() + values


def _timed(cursor: Cursor, statement: bytes) -> float:
    started = time.perf_counter()
    cursor.execute(statement)
    return (time.perf_counter() - started) * 1000


def _one_row(cursor: Cursor) -> tuple[Any, ...]:
    row = cursor.fetchone()
    assert row is not None
    return row


@contextmanager
def _database() -> Iterator[Cursor]:
    server = PostgresServer()
    server.start()
    try:
        migrate(create_engine(server.url(), poolclass=NullPool))
        with _connected(server.url()) as cursor:
            yield cursor
    finally:
        server.stop()


@contextmanager
def _connected(url: str) -> Iterator[Cursor]:
    parts = make_url(url)
    connection = psycopg2.connect(
        host=parts.query["host"], port=parts.query["port"], user=parts.username, dbname=parts.database
    )
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()


if __name__ == "__main__":
    print_report("saving a session", run(sys.argv[1:]))
