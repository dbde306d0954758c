"""Where the time of a full rebuild goes: `python -m bench rebuild_profile [SESSIONS EXERCISES]`.

project() is one statement, so its parts are measured by cutting it: a part costs what the statement takes up to it
more than up to what it reads from. Nothing is instrumented, so the parts are as fast as they are in the product.
"""

from __future__ import annotations

import itertools
import re
import statistics
import sys
import uuid
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from bench.accounts import INCIDENT, Size, make_account
from bench.pipeline import Lease, Pipeline, pipeline, timed
from bench.report import Measured, print_report

ROUNDS = 7
PARTS = ("by_session", "rollups", "compared", "records", "rep_maxes", "summaries")

_ONE_PASS = """
    select count(*), sum(s.weight_kg * s.reps), max(s.reps)
    from public.workout_sessions w
    join public.session_exercise_part p on p.session_id = w.id
    join public.session_sets s on s.part_id = p.id
    where w.user_id = p_user_id
"""
_SOURCE = text("select p.prosrc from pg_catalog.pg_proc p where p.oid = 'stats_private.project'::regproc")
_RUN = text("select r.* from public.user_stats_projection_runs r where r.id = :run_id")
_POLICY = text("select p.e1rm_formula, p.e1rm_max_reps from public.stats_projection_policy p")
_HOLD = text(
    "select stats_private.hold_lease(r) from public.user_stats_projection_runs r where r.id = :run_id"
)
_PROJECT = text("""
    select stats_private.project(r.id, r.lease_token, r.user_id, null, null, r.anchor, false)
    from public.user_stats_projection_runs r where r.id = :run_id
""")
_PROJECT_ACCOUNT = text("""
    select stats_private.project_account(r.id, r.lease_token, r.user_id, null, r.anchor)
    from public.user_stats_projection_runs r where r.id = :run_id
""")
_COMPLETE = text("""
    select stats_private.complete_outputs(r) from public.user_stats_projection_runs r where r.id = :run_id
""")
_FUNCTIONS = {"project": _PROJECT, "project_account": _PROJECT_ACCOUNT, "complete_outputs": _COMPLETE}
_CTE = re.compile(r"^    (\w+) as (?:materialized )?\($", re.MULTILINE)


def run(arguments: Sequence[str]) -> list[Measured]:
    """Profile the account of the size that `arguments` give, or the incident account."""
    sessions, exercises = map(int, arguments) if arguments else (INCIDENT.sessions, INCIDENT.exercises)
    with pipeline() as bench:
        user_id = uuid.uuid4()
        with bench.admin.begin() as connection:
            make_account(connection, user_id, Size("profiled", sessions, exercises))
        bench.vacuum()
        bench.run()
        bench.vacuum()
        return _profile(bench, user_id)


def _profile(bench: Pipeline, user_id: UUID) -> list[Measured]:
    taken: dict[str, list[float]] = defaultdict(list)
    with bench.admin.connect() as connection:
        for _ in range(ROUNDS):
            taken["whole"].append(_rebuild(bench, user_id, at_once=True))
            taken["batched"].append(_rebuild(bench, user_id, at_once=False))
            taken["empty"].append(timed(bench.stage_without_work))
            bench.ask_for_rebuild(user_id, at_once=True)
            lease = bench.claim()
            _time_parts(connection, lease, taken)
            bench.compute(lease)
            taken["publish"].append(timed(lambda held=lease: bench.publish(held)))
    to = {name: statistics.median(times) for name, times in taken.items()}
    days = to["rollups"] - to["by_session"]
    rep_maxes = to["rep_maxes"] - to["compared"]
    parts = {
        "one pass over the sets": to["pass"],
        "rebuild at once, compute + publish": to["whole"],
        "  project()": to["project"],
        "    planning": to["planning"],
        "    sets to sessions": to["by_session"],
        "    sessions to days": days,
        "    bests before each session": to["compared"] - to["by_session"],
        "    records": to["records"] - to["compared"] - days,
        "    rep maxes": rep_maxes,
        "    snapshot summaries": to["summaries"] - to["records"],
        "    differences and the rest": to["project"] - to["planning"] - to["summaries"] - rep_maxes,
        "  project_account()": to["project_account"],
        "  fingerprint and manifest": to["complete_outputs"],
        "  publication": to["publish"],
        "rebuild in batches, compute + publish": to["batched"],
        "  batches over at once": to["batched"] - to["whole"],
        "a stage without work, commit included": to["empty"],
    }
    return [Measured(f"{what} ({took / to['pass']:.1f} passes)", took, "ms") for what, took in parts.items()]


def _time_parts(connection: Connection, lease: Lease, taken: dict[str, list[float]]) -> None:
    statement = _Statement(connection, lease["run_id"])
    taken["pass"].append(statement.time(_ONE_PASS))
    taken["planning"].append(statement.planning())
    for part in PARTS:
        taken[part].append(statement.time_up_to(part))
    connection.execute(_HOLD, lease)
    for name, call in _FUNCTIONS.items():
        taken[name].append(timed(lambda f=call: connection.execute(f, lease)))
    connection.rollback()


def _rebuild(bench: Pipeline, user_id: UUID, *, at_once: bool) -> float:
    bench.ask_for_rebuild(user_id, at_once=at_once)
    return bench.run()


class _Statement:
    """project()'s statement with the run's values in the place of its variables."""

    def __init__(self, connection: Connection, run_id: object) -> None:
        self._connection = connection
        row = connection.execute(_RUN, {"run_id": run_id}).one()
        formula, max_reps = connection.execute(_POLICY).one()
        self._values = {
            "p_run_id": f"'{row.id}'::uuid",
            "p_lease_token": f"'{row.lease_token}'::uuid",
            "p_user_id": f"'{row.user_id}'::uuid",
            "p_from_date": "null::date",
            "p_exercise_ids": "null::text[]",
            "p_anchor": f"'{row.anchor}'::date",
            "p_whole_window": "false",
            "p_with_days": "true",
            "v_formula": f"'{formula}'",
            "v_max_reps": str(max_reps),
        }
        source = connection.execute(_SOURCE).scalar_one()
        self._text = (
            source[source.index("    with input_days as") : source.rindex("end;")].rstrip().rstrip(";")
        )
        connection.rollback()

    def time(self, statement: str) -> float:
        """Return the statement's time with its planning; what it wrote is rolled back."""
        self._connection.exec_driver_sql("set local work_mem = '64MB'")
        taken = timed(lambda: self._connection.exec_driver_sql(self._filled(statement)).all())
        self._connection.rollback()
        return taken

    def planning(self) -> float:
        """Return the milliseconds that planning the whole takes."""
        lines = (
            self._connection.exec_driver_sql("explain (summary) " + self._filled(self._text)).scalars().all()
        )
        self._connection.rollback()
        [line] = [line for line in lines if line.startswith("Planning Time")]
        return float(line.split()[2])

    def time_up_to(self, part: str) -> float:
        """Return the time of the statement's parts up to `part`, without their planning."""
        heads = [(m.group(1), m.start()) for m in _CTE.finditer(self._text)]
        [end] = [after for (name, _), (_, after) in itertools.pairwise(heads) if name == part]
        # Without the insert: input_days is measured with the rest.
        begin = next(start for name, start in heads if name == "sessions")
        parts = re.sub(r"\s*--[^\n]*", "", self._text[begin:end]).rstrip().rstrip(",")
        statement = f"with {parts} select count(*) from {part}"
        planned = self.time("explain " + statement)
        return self.time(statement) - planned

    def _filled(self, statement: str) -> str:
        return re.sub(r"\b[pv]_\w+", lambda m: self._values.get(m.group(), m.group()), statement).replace(
            "%", "%%"
        )


if __name__ == "__main__":
    print_report("a full rebuild by its parts", run(sys.argv[1:]))
