"""Computing an account, all in one run and in turns: a full rebuild and one edited session against one pass over its
sets and against the per-exercise temp-table loop, and the PR board against computing it on read.

Measured among other accounts, as an account lives. A rebuild is measured in a database of its own too: there a pass is
a bare scan of whole tables, the hardest thing to be compared with.

`python -m bench compute [SESSIONS EXERCISES]`; without a size the incident account and the large one.
"""

from __future__ import annotations

import statistics
import sys
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from uuid import UUID

from sqlalchemy import Connection, text

from bench.accounts import INCIDENT, LARGE, Size, make_account, make_neighbours
from bench.pipeline import Pipeline, pipeline, timed
from bench.report import Measured, print_report
from tasks.transaction import account, service, transaction

ROUNDS = 7
READS = 100
READS_ON_READ = 5
NEIGHBOURS = 2_000

Times = dict[str, list[float]]

# The loop would run out of lock-table entries with the default of 64; here it is to be timed, not to fail.
ROOM_FOR_THE_LOOP = {"max_locks_per_transaction": "1024"}

_ONE_PASS = text("""
    select count(*), sum(s.weight_kg * s.reps), max(s.reps)
    from public.workout_sessions w
    join public.session_exercise_part p on p.session_id = w.id
    join public.session_sets s on s.part_id = p.id
    where w.user_id = :user_id
""")
_LOOP = Path(__file__).parents[1] / "tests" / "batches" / "old_compute.sql"
_RUN_LOOP = text("select public.old_compute(:user_id)")
_BOARD = text("select public.get_pr_overview(:as_of)")
_BOARD_ON_READ = text((Path(__file__).parent / "board_on_read.sql").read_text())


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure the account of the size that `arguments` give, or the incident account and the large one."""
    sessions, exercises = map(int, arguments) if arguments else (INCIDENT.sessions, INCIDENT.exercises)
    size = Size(f"{sessions} x {exercises}", sessions, exercises) if arguments else INCIDENT
    with pipeline(ROOM_FOR_THE_LOOP) as bench:
        with bench.admin.begin() as connection:
            connection.exec_driver_sql(_LOOP.read_text(), execution_options={"no_parameters": True})
        user_id, first = _publish(bench, size)
        alone = _rebuilds(replace(size, name=f"{size.name} alone"), _times_of_rebuilds(bench, user_id))
        with bench.admin.begin() as connection:
            make_neighbours(connection, NEIGHBOURS)
        bench.vacuum()
        incident = [*alone, first, *_account(bench, user_id, size, loops=2)]
        if arguments:
            return incident
        user_id, first = _publish(bench, LARGE)
        # Half a minute each.
        large = [first, *_account(bench, user_id, LARGE, loops=1)]
    return [*incident, *large, _growth(incident, large)]


def _publish(bench: Pipeline, size: Size) -> tuple[UUID, Measured]:
    """Make an account and its first generation."""
    user_id = uuid.uuid4()
    with bench.admin.begin() as connection:
        make_account(connection, user_id, size)
    bench.vacuum()
    first = Measured(f"{size.name}: first generation, compute + publish", bench.run(), "ms")
    # Its rows are new: without statistics of them a rebuild is planned as if there were none.
    bench.vacuum()
    return user_id, first


def _times_of_rebuilds(bench: Pipeline, user_id: UUID) -> Times:
    times: Times = defaultdict(list)
    for _ in range(ROUNDS):
        _time_rebuilds(bench, user_id, times)
    return times


def _time_rebuilds(bench: Pipeline, user_id: UUID, times: Times) -> None:
    with transaction(bench.engine, service()) as connection:
        times["pass"].append(timed(lambda: connection.execute(_ONE_PASS, {"user_id": user_id}).all()))
    bench.ask_for_rebuild(user_id)
    times["batches"].append(bench.run())
    bench.ask_for_rebuild(user_id, at_once=True)
    times["at once"].append(bench.run())


def _rebuilds(size: Size, times: Times) -> list[Measured]:
    medians = {what: statistics.median(taken) for what, taken in times.items()}
    # The bar is the incident account's; a large one is compared with it, set by set.
    bar = 15 if size.sets == INCIDENT.sets else None
    return [
        Measured(f"{size.name}: one pass over its sets", medians["pass"], "ms"),
        *(
            measured
            for how, name in (("batches", "in batches"), ("at once", "at once"))
            for measured in (
                Measured(f"{size.name}: full rebuild {name}, compute + publish", medians[how], "ms"),
                Measured(
                    f"{size.name}: full rebuild {name}, in passes",
                    medians[how] / medians["pass"],
                    "x",
                    bar=bar,
                ),
            )
        ),
    ]


def _account(bench: Pipeline, user_id: UUID, size: Size, *, loops: int) -> list[Measured]:
    times: Times = defaultdict(list)
    for turn in range(ROUNDS):
        _time_rebuilds(bench, user_id, times)
        if turn < loops:
            times["loop"].append(timed(lambda: bench.administer(_RUN_LOOP, user_id=user_id)))
        bench.edit_newest_session(user_id, reps=1 + turn)
        before = bench.wal()
        times["edit"].append(bench.run())
        times["edit WAL"].append(bench.wal() - before)
    on_board, on_read = _board(bench, user_id)
    medians = {what: statistics.median(taken) for what, taken in times.items()}

    def measured(what: str, value: float, unit: str, **bars: float) -> Measured:
        return Measured(f"{size.name}: {what}", value, unit, **bars)

    # The bars are the incident account's.
    read_bar = {"bar": 5.0} if size is INCIDENT else {}
    loop_bar = {"at_least": 20.0} if size is INCIDENT else {}
    return [
        *_rebuilds(size, times),
        measured("full rebuild in batches, per set", 1000 * medians["batches"] / size.sets, "us"),
        measured("per-exercise temp-table loop (daily rollups only)", medians["loop"], "ms"),
        measured("loop against rebuild", medians["loop"] / medians["batches"], "x", **loop_bar),
        measured("one edited session, compute + publish", medians["edit"], "ms"),
        measured(
            "one edited session, share of a rebuild", 100 * medians["edit"] / medians["batches"], "%", bar=15
        ),
        measured("one edited session, WAL", medians["edit WAL"] / 1024, "kB", bar=50),
        measured("get_pr_overview, p50", statistics.median(on_board), "ms"),
        measured("get_pr_overview, p99", statistics.quantiles(on_board, n=100)[98], "ms", **read_bar),
        measured("the same board computed on read, p50", statistics.median(on_read), "ms"),
        measured(
            "on read against get_pr_overview",
            statistics.median(on_read) / statistics.median(on_board),
            "x",
            at_least=10,
        ),
    ]


def _growth(incident: Sequence[Measured], large: Sequence[Measured]) -> Measured:
    [small], [big] = ([m.value for m in group if m.name.endswith("per set")] for group in (incident, large))
    return Measured("cost per set, large account against incident account", big / small, "x", bar=1.5)


def _board(bench: Pipeline, user_id: UUID) -> tuple[list[float], list[float]]:
    """Return the times of reading the published board and of computing it; both give the same answer."""
    today = bench.today()
    with bench.admin.begin() as computing, transaction(bench.engine, account(user_id)) as reading:
        computing.execute(text("set local work_mem = '64MB'"))
        assert _published(reading, today) == _computed(computing, user_id, today)
        on_read = [timed(lambda: _computed(computing, user_id, today)) for _ in range(READS_ON_READ)]
        return [timed(lambda: _published(reading, today)) for _ in range(READS)], on_read


def _published(connection: Connection, today: date) -> list[dict[str, object]]:
    board: dict[str, list[dict[str, object]]] = connection.execute(_BOARD, {"as_of": today}).scalar_one()
    return board["exercises"]


def _computed(connection: Connection, user_id: UUID, today: date) -> list[dict[str, object]]:
    board: list[dict[str, object]] = connection.execute(
        _BOARD_ON_READ, {"user_id": user_id, "as_of": today}
    ).scalar_one()
    return board


if __name__ == "__main__":
    print_report("computing an account", run(sys.argv[1:]))
