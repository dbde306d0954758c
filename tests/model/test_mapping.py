"""docs/locking.md maps the model of an account to the code, both ways."""

import re

from support.lock_headers import DOCUMENT

from sql.functions import sql_files

from .spin import MODELS

MODEL = (MODELS / "account.pml").read_text(encoding="utf-8")
CHANGES = re.compile(
    r"(?:update|delete from|insert into) public\.(?:user_stats_projection_runs|user_exercise_stats_refresh_jobs)"
)
FUNCTION = re.compile(r"create or replace function \w+\.(\w+).*?(\$\w*\$)(.*?)\2;", re.DOTALL)


def section():
    """The part of the document that tells of the models."""
    return re.search(
        r"^## The models\n(.*?)^## ", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )[1]


def named(column):
    """What stands in code type in a column of the table."""
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| .*? \|$", section(), flags=re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row[column])}


def functions():
    """Every SQL function with its body and its file."""
    return {name: (file.name, body) for file in sql_files() for name, _, body in FUNCTION.findall(file.text)}


def test_every_process_and_inline_of_the_model_has_its_place_in_the_code():
    assert named(0) == set(re.findall(r"^(?:inline|active proctype) (\w+)", MODEL, flags=re.MULTILINE))


def test_the_table_names_functions_that_are_there():
    assert named(1) <= set(functions())


def test_every_function_of_the_pipeline_that_changes_a_run_or_a_job_is_mapped_or_named():
    told = set(re.findall(r"`(\w+)`", section()))
    changing = {
        name
        for name, (file, body) in functions().items()
        if file.startswith(("pipeline/", "queue/", "runs/")) and CHANGES.search(body)
    }
    assert {"claim_account", "publish_run"} <= changing
    assert changing - told == set()
