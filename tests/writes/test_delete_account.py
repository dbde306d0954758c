"""Deleting an account: everything goes, in bounded steps, and no run in flight brings anything back."""

import uuid

import pytest
from interleavings.scene import (
    answer_of,
    outcome,
    session,
    start_save,
    wait_until_blocked_or_done,
)
from support.app import AppAccount
from support.races import DEADLINE

from tasks.transaction import account
from writes.refusals import refused, writes_nothing

DELETE = "select public.delete_account_v1(:user)"
WAITS_FOR_THE_RUN = {"done": False, "deleted": 0, "waiting_for": "run"}
WAITS_FOR_THE_WORKER = {"done": False, "deleted": 0, "waiting_for": "worker"}


@pytest.fixture
def delete_step(database, app_account):
    return lambda: database.as_service().value(DELETE, user=app_account.user_id)


@pytest.fixture
def neighbour(database, stages):
    """An account that must stay exactly as it is."""
    other = AppAccount(database)
    live(other)
    stages.drain()
    return other


def live(account):
    """Leave rows in every corner that an account can fill by itself."""
    account.save(source="strong", source_ref="1")
    account.delete(account.save()["session_id"])
    account.call(
        "select public.set_manual_pr_v1(:id, 150, '2026-03-10', 'manual', :user, gen_random_uuid())",
        id=account.exercise(),
    )
    account.call("select public.resolve_external_exercise_v1('strong', 'x', 'X', 'duration', :user)")


def traces(database, user_id):
    """Tables in which any column of any row names the account."""
    tables = database.admin(
        "select oid::regclass::text from pg_catalog.pg_class where relkind = 'r'"
        " and relnamespace in ('public'::regnamespace, 'stats_private'::regnamespace)"
    )
    return {
        table
        for [table] in tables
        if database.admin(
            f"select from {table} t where t::text like :pattern limit 1", pattern=f"%{user_id}%"
        )
    }


def outputs(database):
    tables = database.admin(
        "select oid::regclass::text from pg_catalog.pg_class where relkind = 'r' and relname like 'stats\\_output\\_%'"
    )
    return sum(database.admin(f"select count(*) from {table}")[0][0] for [table] in tables)


def test_everything_of_the_account_goes_and_nothing_of_its_neighbour(
    database, app_account, stages, neighbour, delete_step
):
    live(app_account)
    stages.drain()
    app_account.save()
    before = {table: database.admin(_rows_of(table), user=neighbour.user_id) for table in _tables(database)}

    assert delete_step()["done"]

    assert traces(database, app_account.user_id) == set()
    assert {table: database.admin(_rows_of(table), user=neighbour.user_id) for table in before} == before
    assert all(before[table] for table in ("workout_sessions", "user_exercise_records", "exercises"))


def test_a_mapping_that_leads_to_an_exercise_of_the_account_goes_whoevers_it_is(
    database, app_account, neighbour, delete_step
):
    live(app_account)
    for owner in (None, neighbour.user_id):
        database.admin(
            "insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)"
            " values ('hevy', 'Squat', :owner, :squat)",
            owner=owner,
            squat=app_account.exercise(),
        )

    assert delete_step()["done"]

    assert traces(database, app_account.user_id) == set()
    assert database.admin("select owner_user_id, external_id from public.exercise_external_mappings") == [
        (neighbour.user_id, "x")
    ]


def _tables(database):
    return [
        name
        for [name] in database.admin(
            "select distinct c.relname::text from pg_catalog.pg_class c"
            " join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname in ('user_id', 'owner_user_id')"
            " where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace"
        )
    ]


def _rows_of(table):
    return (
        f"select to_jsonb(t) from public.{table} t"
        " where cast(:user as text) in (to_jsonb(t) ->> 'user_id', to_jsonb(t) ->> 'owner_user_id') order by t::text"
    )


def test_a_large_account_goes_in_bounded_steps(database, app_account, stages, delete_step):
    live(app_account)
    database.admin(
        "insert into public.stats_mutation_receipts"
        " (user_id, mutation_id, operation, payload_hash, requested_version, response)"
        " select :user, gen_random_uuid(), 'x', '', 1, '{}' from generate_series(1, 12000)",
        user=app_account.user_id,
    )
    stages.drain()

    steps = [delete_step()]
    while not steps[-1]["done"]:
        steps.append(delete_step())

    assert [step["deleted"] for step in steps[:2]] == [5000, 5000]
    assert len(steps) == 3
    assert traces(database, app_account.user_id) == set()
    assert delete_step() == {"done": True, "deleted": 0, "waiting_for": None}


@pytest.mark.parametrize("reached", ["claimed", "computed"])
def test_a_run_in_flight_loses_its_lease_and_publishes_nothing(
    database, app_account, stages, delete_step, reached
):
    live(app_account)
    run = stages.claim()
    if reached == "computed":
        stages.compute(run)

    assert answer_of(delete_step).get("done") is True

    assert stages.compute(run)["response"] == "lease_lost"
    assert stages.publish(run)["response"] == "lease_lost"
    assert traces(database, app_account.user_id) == set()
    assert outputs(database) == 0


def answer_at_once(database, user_id):
    """Begin a step and return its answer, which it has to give while the others hold what they hold."""
    with session(database, "deletion") as deletion:
        deleting = deletion.start(DELETE, user=user_id)
        wait_until_blocked_or_done(database, deletion, deleting)
        assert deleting.done(), "the deletion waited"
        answer = outcome(deleting)
        deletion.commit()
    return answer


@pytest.mark.parametrize("stage", ["compute", "publish"])
def test_while_a_stage_works_on_the_account_nothing_is_deleted_yet(
    database, app_account, stages, delete_step, stage
):
    live(app_account)
    run = stages.claim()
    lease = {"run_id": run["run_id"], "token": run["lease_token"]}
    if stage == "publish":
        stages.compute(run)
    with session(database, "worker") as worker:
        worker.run(
            f"select public.stats_projection_{stage}_v1(cast(:run_id as uuid), cast(:token as uuid))", **lease
        )
        with writes_nothing(database):
            assert answer_at_once(database, app_account.user_id) == WAITS_FOR_THE_RUN
        worker.commit()

    assert delete_step()["done"]
    assert traces(database, app_account.user_id) == set()
    assert stages.drain() == []


@pytest.mark.parametrize(
    "statement",
    [
        "select public.stats_projection_claim_v1('test')",
        "select public.refresh_stats_now_v1(:user)",
    ],
    ids=["a claim", "a refresh"],
)
def test_while_somebody_takes_the_account_nothing_is_deleted_yet(
    database, app_account, delete_step, statement
):
    """A claim that is under way has a run that nobody else sees yet; a refresh computes under the write lock."""
    live(app_account)
    parameters = {"user": app_account.user_id} if ":user" in statement else {}
    with session(database, "worker") as worker:
        worker.run(statement, **parameters)
        with writes_nothing(database):
            assert answer_at_once(database, app_account.user_id) == WAITS_FOR_THE_WORKER
        worker.commit()

    assert delete_step()["done"]
    assert traces(database, app_account.user_id) == set()


def test_a_write_under_way_is_waited_for_and_goes_too(database, app_account, stages, delete_step):
    live(app_account)
    stages.drain()
    payload = app_account.payload()
    with (
        session(database, "app", account(app_account.user_id)) as app,
        session(database, "deletion") as deletion,
    ):
        start_save(app, app_account, payload).result(DEADLINE)
        deleting = deletion.start(DELETE, user=app_account.user_id)
        wait_until_blocked_or_done(database, deletion, deleting)
        assert not deleting.done(), "the deletion did not wait for the write"
        app.commit()
        assert outcome(deleting).get("done") is True
        deletion.commit()

    assert traces(database, app_account.user_id) == set()


def test_no_claim_takes_an_account_that_is_being_deleted(database, app_account, stages):
    live(app_account)
    with session(database, "service") as service:
        assert service.run(DELETE, user=app_account.user_id)["done"]
        assert stages.claim()["response"] == "idle"
        service.commit()

    assert stages.claim()["response"] == "idle"


def test_only_the_service_deletes_accounts(database, app_account):
    app_account.save()
    with writes_nothing(database):
        for admin in (False, True):
            with refused("42501"):
                database.as_account(app_account.user_id, admin=admin)(DELETE, user=app_account.user_id)
        with refused("22023", "user_id: is required"):
            database.as_service()(DELETE, user=None)


def test_tables_of_the_app_in_the_same_schema_are_left_alone(database, app_account, delete_step):
    database.admin("create table public.profiles (user_id uuid)")
    database.admin(
        "insert into public.profiles values (:user), (:other)", user=app_account.user_id, other=uuid.uuid4()
    )

    assert delete_step()["done"]

    assert database.admin("select count(*) from public.profiles") == [(2,)]
