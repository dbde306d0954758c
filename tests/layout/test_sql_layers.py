"""The folders of sql/functions are layers: a function calls its own folder and those below it, and nothing upward."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import Database

from sql.functions import LAYERS, SqlFile, sql_files

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = """
    select p.oid, n.nspname || '.' || p.proname, p.prosrc
    from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('public', 'stats_private', 'auth') and p.prolang in (
        select l.oid from pg_catalog.pg_language l where l.lanname in ('sql', 'plpgsql'))
"""
ATTACHED = """
    select n.nspname || '.' || c.relname, a.function, a.is_trigger
    from (
        select t.tgrelid, t.tgfoid, true from pg_catalog.pg_trigger t where not t.tgisinternal
        union
        select coalesce(f.adrelid, p.polrelid, k.conrelid, w.ev_class, i.indrelid), d.refobjid, false
        from pg_catalog.pg_depend d
        left join pg_catalog.pg_attrdef f on d.classid = 'pg_attrdef'::regclass and f.oid = d.objid
        left join pg_catalog.pg_policy p on d.classid = 'pg_policy'::regclass and p.oid = d.objid
        left join pg_catalog.pg_constraint k on d.classid = 'pg_constraint'::regclass and k.oid = d.objid
        left join pg_catalog.pg_rewrite w on d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
        left join pg_catalog.pg_index i on d.classid = 'pg_class'::regclass and i.indexrelid = d.objid
        where d.refclassid = 'pg_proc'::regclass and d.classid <> 'pg_trigger'::regclass
    ) a (relation, function, is_trigger)
    join pg_catalog.pg_class c on c.oid = a.relation
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
"""
"""What a table calls by itself: its triggers, and the functions in its defaults, constraints, indexes and policies; of
a view, those in its query."""
QUALIFIED = re.compile(r"\b(?:public|stats_private|auth)\.\w+")
CHANGED = re.compile(r"\b(?:insert into|update|delete from|merge into)\s+((?:public|stats_private)\.\w+)")


class Call(NamedTuple):
    """One function of one file that calls a function of another file, by itself or through a table."""

    caller: str
    callee: str
    function: str

    @property
    def is_upward(self) -> bool:
        return place(self.callee) > place(self.caller)


def place(file: str) -> int:
    """Return the height of the file's folder, the bottom being 0."""
    return LAYERS.index(file.partition("/")[0])


def calls(database: Database, files: list[SqlFile]) -> Iterator[Call]:
    """Yield who calls whom in the database, whose functions `files` have made.

    A name with several signatures stands for the lowest of them: the others convert an argument and call that one.
    """
    homes: dict[int, str] = {}
    named: dict[str, list[str]] = {}
    bodies: dict[int, str] = {}
    for oid, name, body in database.admin(FUNCTIONS):
        home = next(
            (file.name for file in files if f"{name}(" in file.text and f"{body}$" in file.text), None
        )
        if home is not None:
            homes[oid] = home
            named.setdefault(name, []).append(home)
            bodies[oid] = re.sub(r"--.*", "", body)
    lowest = {name: min(of_name, key=place) for name, of_name in named.items()}
    attached = database.admin(ATTACHED)
    for oid, body in bodies.items():
        words = set(QUALIFIED.findall(body))
        found = {(word, lowest[word]) for word in words & set(lowest)}
        for table, function, is_trigger in attached:
            if function in homes and table in (set(CHANGED.findall(body)) if is_trigger else words):
                found.add((f"{table}, which calls it", homes[function]))
        for function, callee in found:
            if callee != homes[oid]:
                yield Call(homes[oid], callee, function)


@pytest.fixture
def files() -> list[SqlFile]:
    return list(sql_files())


def test_every_folder_is_a_layer_and_every_layer_a_folder() -> None:
    folders = {path.parent.name for path in (ROOT / "sql" / "functions").glob("*/*.sql")}
    assert set(LAYERS) == folders
    assert len(LAYERS) == len(folders)


def test_the_document_lists_the_layers_from_the_top_down() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("\n## The layers of the SQL\n")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)/` \|", section, flags=re.MULTILINE)) == LAYERS[::-1]


def test_no_function_calls_upward_and_no_two_files_call_each_other(
    database: Database, files: list[SqlFile]
) -> None:
    found = set(calls(database, files))
    assert Call("writes/save_session_v5.sql", "queue/enqueue_job.sql", ENQUEUE) in found
    assert {call for call in found if call.is_upward} == set()
    called: dict[str, set[str]] = {}
    for call in found:
        called.setdefault(call.caller, set()).add(call.callee)
    TopologicalSorter(called).prepare()  # raises CycleError, which names the files of a circle


ENQUEUE = "public.enqueue_user_exercise_stats_refresh_job"
UPWARD = {
    "a call in PL/pgSQL": (
        "queue/merge_scopes.sql",
        "create or replace function stats_private.planted() returns void language plpgsql as $$"
        " begin perform stats_private.claim_account(null, null); end; $$;",
        Call("queue/merge_scopes.sql", "pipeline/claim_account.sql", "stats_private.claim_account"),
    ),
    "a call in SQL, put together as text": (
        "runs/slots.sql",
        "create or replace function stats_private.planted() returns text language sql as $$"
        " select 'select public.get_pr_overview(current_date)' $$;",
        Call("runs/slots.sql", "readers/get_pr_overview.sql", "public.get_pr_overview"),
    ),
    "a trigger": (
        "maintenance/catalog.sql",
        "create trigger planted before update on public.user_exercise_stats_refresh_jobs"
        " for each row execute function stats_private.note_exercise_change_v1();",
        Call(
            "queue/enqueue_job.sql",
            "maintenance/catalog.sql",
            "public.user_exercise_stats_refresh_jobs, which calls it",
        ),
    ),
    "a default": (
        "access/policies.sql",
        "alter table public.user_stats_projection_runs"
        " alter column lock_owner set default stats_private.accounts(1);",
        Call(
            "pipeline/claim_account.sql",
            "operations/alerts.sql",
            "public.user_stats_projection_runs, which calls it",
        ),
    ),
    "a policy": (
        "access/policies.sql",
        "create policy planted on public.workout_sessions using (stats_private.accounts(1) = '');",
        Call(
            "numbers/ordered_sessions.sql", "operations/alerts.sql", "public.workout_sessions, which calls it"
        ),
    ),
}
"""Ways to call upward: what is planted into which file, and the call that has to be found."""


@pytest.mark.parametrize("way", UPWARD)
def test_an_upward_call_is_found(way: str, database: Database, files: list[SqlFile]) -> None:
    into, statement, expected = UPWARD[way]
    database.admin(statement)
    planted = [
        SqlFile(file.name, f"{file.text}\n{statement}") if file.name == into else file for file in files
    ]
    assert expected in {call for call in calls(database, planted) if call.is_upward}


def test_two_files_that_call_each_other_are_found() -> None:
    with pytest.raises(ValueError, match="cycle"):
        TopologicalSorter({"runs/a.sql": {"runs/b.sql"}, "runs/b.sql": {"runs/a.sql"}}).prepare()


def test_the_story_of_a_save_is_told_in_seven_files_each_naming_the_next() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    story = readme.partition("Follow one save through the code")[2].partition("\n\n")[0]
    told = re.findall(r"\]\(sql/functions/([\w/]+\.sql)\)", story)
    assert len(told) == 7
    texts = {file.name: file.text for file in sql_files()}
    headers = [texts[name].partition("\ncreate ")[0] for name in told]
    following = [re.search(r"^-- Next: ([\w/]+\.sql)", header, flags=re.MULTILINE) for header in headers]
    assert [found and found[1] for found in following] == [*told[1:], None]
