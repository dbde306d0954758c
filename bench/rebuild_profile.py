"""Where the time of a full rebuild goes: `python -m bench rebuild_profile [SESSIONS EXERCISES]`.

project() is one statement, so its parts are measured by cutting it: a part costs what the statement takes up to it
more than up to what it reads from. Nothing is instrumented, so the parts are as fast as they are in the product. The
account is alone in its database.
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
_SOURCE = text("""
    select p.prosrc, p.proconfig from pg_catalog.pg_proc p where p.oid = 'stats_private.project'::regproc
""")
_RUN = text("select r.* from public.user_stats_projection_runs r where r.id = :run_id")
_POLICY = text("select p.e1rm_formula, p.e1rm_max_reps from public.stats_projection_policy p")
_CANDIDATES = text("select array_agg(exercise_id) from stats_private.candidate_exercises(:user_id, '{}')")
_HOLD = text(
    "select stats_private.hold_lease(r) from public.user_stats_projection_runs r where r.id = :run_id"
)
_PROJECT = text("""
    select stats_private.project(
        r.id, r.user_id, (select p from public.stats_projection_policy p), '-infinity',
        array(select c.exercise_id from stats_private.candidate_exercises(r.user_id, '{}') c), '{}', r.anchor)
    from public.user_stats_projection_runs r where r.id = :run_id
""")
_PROJECT_ACCOUNT = text("""
    select stats_private.project_account(
        r.id, r.user_id, (select p from public.stats_projection_policy p), '-infinity')
    from public.user_stats_projection_runs r where r.id = :run_id
""")
_COMPLETE = text("""
    select stats_private.record_step(jsonb_populate_record(r, '{"phase": "computed"}'), clock_timestamp(), 300)
    from public.user_stats_projection_runs r where r.id = :run_id
""")
_FUNCTIONS = {"project": _PROJECT, "project_account": _PROJECT_ACCOUNT, "record_step": _COMPLETE}
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
        "    sets to sessions": to["by_session"],
        "    sessions to days": days,
        "    bests before each session": to["compared"] - to["by_session"],
        "    records": to["records"] - to["compared"] - days,
        "    rep maxes": rep_maxes,
        "    snapshot summaries": to["summaries"] - to["records"],
        "    differences and the rest": to["project"] - to["summaries"] - rep_maxes,
        "  project_account()": to["project_account"],
        "  fingerprint and manifest": to["record_step"],
        "  publication": to["publish"],
        "rebuild in batches, compute + publish": to["batched"],
        "  batches over at once": to["batched"] - to["whole"],
        "a stage without work, commit included": to["empty"],
        "planning of project(), once a connection": to["planning"],
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
    """project()'s statement, prepared with the run's values for a whole history and planned once, as there."""

    def __init__(self, connection: Connection, run_id: object) -> None:
        self._connection = connection
        row = connection.execute(_RUN, {"run_id": run_id}).one()
        formula, max_reps = connection.execute(_POLICY).one()
        exercise_ids = connection.execute(_CANDIDATES, {"user_id": row.user_id}).scalar_one()
        self._values = {
            "p_run_id": ("uuid", row.id),
            "p_user_id": ("uuid", row.user_id),
            "p_from_date": ("date", "-infinity"),
            "p_exercise_ids": ("text[]", exercise_ids),
            "p_window_ids": ("text[]", []),
            "v_ids": ("text[]", exercise_ids),
            "p_anchor": ("date", row.anchor),
            "p_with_days": ("boolean", True),
            "v_formula": ("text", formula),
            "v_max_reps": ("integer", max_reps),
        }
        source, self._settings = connection.execute(_SOURCE).one()
        self._text = (
            source[source.index("    with input_days as") : source.rindex("end;")].rstrip().rstrip(";")
        )
        connection.rollback()

    def time(self, statement: str) -> float:
        """Return the statement's time without its planning; what it wrote is rolled back."""
        values = self._prepare(statement)
        self._execute("explain ", values)
        taken = timed(lambda: self._execute("", values))
        self._forget()
        return taken

    def planning(self) -> float:
        """Return the milliseconds that planning the whole takes, once a connection."""
        lines = self._execute("explain (summary) ", self._prepare(self._text))
        self._forget()
        [line] = [line for (line,) in lines if line.startswith("Planning Time")]
        return float(line.split()[2])

    def time_up_to(self, part: str) -> float:
        """Return the time of the statement's parts up to `part`."""
        heads = [(m.group(1), m.start()) for m in _CTE.finditer(self._text)]
        [end] = [after for (name, _), (_, after) in itertools.pairwise(heads) if name == part]
        # Without the insert: input_days is measured with the rest.
        begin = next(start for name, start in heads if name == "exercises")
        parts = re.sub(r"\s*--[^\n]*", "", self._text[begin:end]).rstrip().rstrip(",")
        return self.time(f"with {parts} select count(*) from {part}")

    def _prepare(self, statement: str) -> list[object]:
        used = [name for name in self._values if re.search(rf"\b{name}\b", statement)]
        numbered = re.sub(
            r"\b[pv]_\w+",
            lambda m: f"${used.index(m.group()) + 1}" if m.group() in used else m.group(),
            statement,
        )
        types = ", ".join(self._values[name][0] for name in used)
        for setting in self._settings:
            name, _, value = setting.partition("=")
            self._connection.exec_driver_sql("select set_config(%s, %s, true)", (name, value))
        self._connection.exec_driver_sql(f"prepare part({types}) as {numbered.replace('%', '%%')}")
        return [self._values[name][1] for name in used]

    def _execute(self, prefix: str, values: list[object]) -> list[tuple[str, ...]]:
        places = ", ".join(["%s"] * len(values))
        result = self._connection.exec_driver_sql(f"{prefix}execute part({places})", tuple(values))
        return [tuple(row) for row in result] if result.returns_rows else []

    def _forget(self) -> None:
        self._connection.rollback()
        self._connection.exec_driver_sql("deallocate part")


if __name__ == "__main__":
    print_report("a full rebuild by its parts", run(sys.argv[1:]))
