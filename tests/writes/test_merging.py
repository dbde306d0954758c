"""How writes become queue rows: merging, what a claim holds meanwhile, rollbacks, and the one NOTIFY."""

import json
import select
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg2
import pytest
from sqlalchemy import make_url
from support.app import AppAccount
from support.races import DEADLINE, session

from core.processes import wait_until
from tasks.transaction import account
from writes.refusals import refused, writes_nothing

ENQUEUE = (
    "select public.enqueue_user_exercise_stats_refresh_job(:user, cast(:day as date), cast(:ids as text []),"
    " :event, :source_ref, :reason, cast(:metadata as jsonb), :priority, :window_only)"
)
CLAIM = "select public.stats_projection_claim_v1('test')"


def arguments(user, **given):
    defaults = {
        "user": user,
        "day": "2026-03-10",
        "ids": ["a"],
        "event": "session_created",
        "source_ref": None,
        "reason": "saved",
        "metadata": "{}",
        "priority": 0,
        "window_only": False,
    }
    return {**defaults, **given}


@pytest.fixture
def enqueue(database, app_account):
    """Enqueue for the account in a transaction of its own; returns the generation."""
    return lambda **given: database.as_service().value(ENQUEUE, **{**arguments(app_account.user_id), **given})


def test_a_pending_row_grows_by_every_event(app_account, enqueue):
    enqueue(
        day="2026-03-10", ids=["b"], event="session_created", source_ref="session:1", metadata='{"app": 1}'
    )
    enqueue(day="2026-02-10", ids=["a"], event="manual_pr_changed", source_ref="manual_pr:2", reason="stated")

    [(status, version, day, ids, event, source_ref, reason, metadata)] = app_account.jobs(
        "status",
        "requested_version",
        "from_date::text",
        "exercise_ids",
        "event_type",
        "source_ref",
        "reason",
        "metadata",
    )
    assert (status, version, day, ids) == ("pending", 2, "2026-02-10", ["a", "b"])
    assert (event, source_ref, reason) == ("session_created", "session:1", "saved; stated")
    assert metadata.pop("enqueued_at")
    assert metadata == {
        "event_type": "manual_pr_changed",
        "source_ref": "manual_pr:2",
        "merge_count": 1,
        "app": 1,
    }


@pytest.mark.parametrize("order", [1, -1])
def test_null_and_empty_win_from_either_side(app_account, enqueue, order):
    for given in [{"day": None, "ids": ["a"]}, {"day": "2026-03-10", "ids": []}][::order]:
        enqueue(**given)

    assert app_account.jobs("from_date", "exercise_ids") == [(None, [])]

    enqueue(day="2026-03-01", ids=["b"])
    assert app_account.jobs("from_date", "exercise_ids") == [(None, [])]


def test_a_missing_list_of_exercises_stands_for_all(app_account, enqueue):
    enqueue(ids=None)

    assert app_account.jobs("exercise_ids") == [([],)]


def test_a_reason_is_appended_once(app_account, enqueue):
    for reason in ["saved; twice", "saved", "saved; twice", "", None, "moved", "saved", "move"]:
        enqueue(reason=reason)

    assert app_account.jobs("reason") == [("saved; twice; moved; move",)]


def test_reasons_do_not_grow_for_ever(app_account, enqueue):
    for number in range(60):
        enqueue(reason=f"{number:02} " + "x" * 97)

    [(reason,)] = app_account.jobs("reason")
    assert reason.startswith("00 ")
    assert len(reason) <= 2000


@pytest.mark.parametrize("priorities", [(1, 0, 1), (0, 1, 1), (1, 1, 0)])
def test_the_smaller_priority_is_kept(app_account, enqueue, priorities):
    for priority in priorities:
        enqueue(priority=priority)

    assert app_account.jobs("priority") == [(0,)]


def test_maintenance_alone_stays_maintenance(app_account, enqueue):
    enqueue(priority=1)
    enqueue(priority=1)

    assert app_account.jobs("priority") == [(1,)]


@pytest.mark.parametrize("order", [1, -1])
def test_window_only_is_kept_only_where_both_sides_are_and_adds_nothing(app_account, enqueue, order):
    window = {"day": None, "ids": [], "window_only": True}
    enqueue(**window)
    enqueue(**window)
    assert app_account.jobs("window_only") == [(True,)]
    app_account.database.admin("delete from public.user_exercise_stats_refresh_jobs")

    for given in [window, {"day": "2026-03-10", "ids": ["a"]}][::order]:
        enqueue(**given)

    assert app_account.jobs("window_only", "from_date::text", "exercise_ids") == [
        (False, "2026-03-10", ["a"])
    ]


def test_merging_keeps_the_time_before_which_no_retry_may_be(database, app_account, enqueue):
    enqueue()
    database.admin(
        "update public.user_exercise_stats_refresh_jobs set retry_not_before = '2099-01-01 00:00+00', attempts = 2"
    )

    enqueue(day="2026-01-01")

    [(retry, attempts, day)] = app_account.jobs("retry_not_before", "attempts", "from_date::text")
    assert (retry.year, attempts, day) == (2099, 2, "2026-01-01")


def test_rows_that_are_not_pending_are_never_touched(database, app_account, enqueue, stages):
    enqueue()
    stages.claim()
    for status in ("failed", "completed"):
        database.admin(
            "insert into public.user_exercise_stats_refresh_jobs (user_id, event_type, status, requested_version)"
            " values (:user, 'session_created', :status, 0)",
            user=app_account.user_id,
            status=status,
        )
    taken = "select to_jsonb(j) from public.user_exercise_stats_refresh_jobs j where status <> 'pending' order by id"
    before = database.admin(taken)

    enqueue(day=None, ids=[])
    enqueue(day=None, ids=[])

    assert database.admin(taken) == before
    assert len(before) == 3
    assert app_account.jobs("status", "requested_version")[-1] == ("pending", 3)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_an_enqueuer_leaves_a_row_that_a_claim_holds_and_never_waits(
    database, app_account, enqueue, stages, ending
):
    enqueue(day="2026-03-10", ids=["a"])
    with ThreadPoolExecutor(1) as thread, session(database, "claim") as claim:
        assert claim.run(CLAIM)["response"] == "claimed"
        assert thread.submit(enqueue, day="2026-01-01", ids=["b"]).result(DEADLINE) == 2
        assert thread.submit(enqueue, day="2026-02-01", ids=["c"]).result(DEADLINE) == 3
        getattr(claim, ending)()

    held, following = app_account.jobs("status", "requested_version", "from_date::text", "exercise_ids")
    assert held == ("processing" if ending == "commit" else "pending", 1, "2026-03-10", ["a"])
    assert following == ("pending", 3, "2026-01-01", ["b", "c"])
    if ending == "commit":
        assert stages.compute()["response"] == "computed"
        assert (stages.publish()["generation"], app_account.state()) == (1, (3, 1))
    stages.drain()
    assert app_account.state() == (3, 3)


def test_a_rollback_between_two_pending_rows_loses_no_generation(database, app_account, enqueue, stages):
    """Two pending rows, and the enqueuer that was about to grow one of them goes away while a claim looks."""
    enqueue()
    stages.drain()
    enqueue(ids=["a"])
    with session(database, "claim") as claim:
        claim.run(CLAIM)
        enqueue(ids=["b"])
        claim.rollback()
    with session(database, "enqueuer") as enqueuer:
        assert enqueuer.run(ENQUEUE, **arguments(app_account.user_id, ids=["c"])) == 4
        assert stages.claim()["response"] == "idle"
        enqueuer.rollback()

    assert app_account.jobs("requested_version", "exercise_ids")[1:] == [(2, ["a"]), (3, ["b"])]
    assert app_account.state() == (3, 1)
    assert stages.claim()["target_version"] == 3
    assert database.admin(
        "select exercise_ids from public.user_stats_projection_runs where target_version = 3"
    ) == [(["a", "b"],)]


def test_a_write_that_rolls_back_leaves_nothing(database, app_account):
    app_account.exercise()
    with writes_nothing(database), session(database, "app", account(app_account.user_id)) as app:
        app.run(
            "select public.save_session_v5(cast(:payload as jsonb))",
            payload=json.dumps(app_account.payload()),
        )
        app.rollback()


def test_generations_are_given_out_in_the_order_of_commits(database, app_account, enqueue):
    with session(database, "first") as first, session(database, "second") as second:
        assert first.run(ENQUEUE, **arguments(app_account.user_id)) == 1
        waiting = second.start(ENQUEUE, **arguments(app_account.user_id))
        first.rollback()
        assert waiting.result(20) == 1
        second.commit()

    assert app_account.state() == (1, 0)


def test_only_writes_of_the_account_count_as_a_change_of_its_source(database, app_account, enqueue):
    enqueue(event="session_created")
    enqueue(event="pr_snapshot_rollover")
    enqueue(event="manual_refresh")
    enqueue(event="manual_pr_changed")

    assert database.admin(
        "select requested_version, source_revision from public.user_stats_refresh_state"
    ) == [(4, 2)]


def test_nonsense_is_refused_by_name(database, app_account, enqueue):
    with writes_nothing(database):
        for given, message in [
            ({"event": "no_such_event"}, "event_type: is not one of"),
            ({"event": None}, "event_type: is not one of"),
            ({"user": None}, "user_id: is required"),
            ({"ids": ["a", None]}, "exercise_ids: must not contain null"),
            ({"ids": [["a", "b"], ["c", "d"]]}, "exercise_ids: must be a plain list"),
            ({"metadata": "[]"}, "metadata: must be an object"),
            ({"priority": 2}, "priority: must be 0"),
        ]:
            with refused("22023", message):
                enqueue(**given)


def test_an_app_cannot_blow_up_its_queue_row(database, app_account):
    call = "select public.enqueue_user_exercise_stats_refresh(:user, null, cast(:ids as text []), :reason)"
    with writes_nothing(database):
        for ids, reason, message in [
            (["x"] * 2001, "", "exercise_ids: must be at most 2000"),
            (["x" * 201], "", "exercise_ids: must have at most 200 characters each"),
            ([], "x" * 501, "reason: must have at most 500 characters"),
        ]:
            with refused("22023", message):
                app_account.call(call, ids=ids, reason=reason)

    assert app_account.call(call, ids=None, reason=None) == 1


DOORS = {
    "the app": "select public.enqueue_user_exercise_stats_refresh("
    ":user, cast(:day as date), cast(:ids as text []), '')",
    "service": "select public.enqueue_user_exercise_stats_refresh_job("
    ":user, cast(:day as date), cast(:ids as text []), 'manual_refresh')",
    "the engine": "select public.refresh_user_exercise_stats_from(:user, cast(:day as date), cast(:ids as text []))",
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "day", ["infinity", "-infinity", "10000-01-01", "300000-01-01", "0001-12-31 BC", "4713-01-01 BC"]
)
def test_a_date_that_no_compute_can_begin_at_is_refused(database, app_account, door, day):
    caller = database.as_account(app_account.user_id) if door == "the app" else database.as_service()
    with writes_nothing(database), refused("22023", "from_date: must be a day of the years 1 to 9999"):
        caller(DOORS[door], user=app_account.user_id, day=day, ids=[])


@pytest.mark.parametrize("door", DOORS)
def test_a_list_of_lists_is_refused(database, app_account, door):
    caller = database.as_account(app_account.user_id) if door == "the app" else database.as_service()
    with writes_nothing(database), refused("22023", "exercise_ids: must be a plain list"):
        caller(DOORS[door], user=app_account.user_id, day=None, ids=[["a", "b"], ["c", "d"]])


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_the_first_and_the_last_date_are_computed(app_account, enqueue, stages, day):
    app_account.save()
    stages.drain()
    enqueue(day=day, ids=[])

    assert [answer["response"] for answer in stages.drain()] == ["published"]


@contextmanager
def listening(database):
    """Yield a function that returns the notifications since its last call, once as many arrived as `expected`."""
    url = make_url(database.url).set(drivername="postgresql")
    connection = psycopg2.connect(url.render_as_string(hide_password=False))
    connection.autocommit = True
    connection.cursor().execute("listen stats_refresh_dirty; listen nothing_else")

    def arrived(expected):
        # A notification of our own comes after all that were committed before it.
        marker = uuid.uuid4().hex
        database.admin("select pg_catalog.pg_notify('nothing_else', :marker)", marker=marker)

        def marked():
            select.select([connection], [], [], 0.2)
            connection.poll()
            return any(notify.payload == marker for notify in connection.notifies)

        assert wait_until(marked, 20)
        found = [n.payload for n in connection.notifies if n.channel == "stats_refresh_dirty"]
        connection.notifies.clear()
        assert found == [""] * expected

    try:
        yield arrived
    finally:
        connection.close()


def test_one_notify_for_each_new_pending_row_and_none_for_a_merge(database, app_account, enqueue, stages):
    with listening(database) as arrived:
        enqueue()
        arrived(1)
        enqueue()
        app_account.save()
        arrived(0)

        with session(database, "claim") as claim:
            claim.run(CLAIM)
            arrived(0)
            enqueue()
            arrived(1)
            enqueue()
            arrived(0)
            claim.rollback()

        AppAccount(database).save()
        arrived(1)
        stages.drain()
        arrived(0)
        app_account.save()
        arrived(1)

        with session(database, "app") as app:
            app.run(ENQUEUE, **arguments(uuid.uuid4()))
            app.rollback()
        arrived(0)
