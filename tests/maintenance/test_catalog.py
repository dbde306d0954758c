"""A changed exercise or policy reaches every account that it touches, whatever happens during the walk."""

from __future__ import annotations

import contextlib

import pytest
from interleavings.scene import admin_session, on_insert
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount
from support.races import session, wait_until_blocked

from maintenance.scene import (
    WALK,
    assert_all_equal_reckoning,
    change_global,
    exhaust,
    global_exercise,
    open_jobs,
    published_accounts,
    requested,
    save_with,
    write_lock,
)

CHANGE = "update public.exercises set tracking = :tracking where id = :id"


@pytest.fixture
def exercise(database):
    """An exercise of the catalog, with weight and reps."""
    return global_exercise(database)


@pytest.fixture
def users(database, stages, exercise):
    """Six accounts that use it, published, in the order of their ids."""
    accounts = published_accounts(database, 6)
    for account in accounts:
        save_with(account, exercise)
    stages.drain()
    return accounts


def ids(accounts):
    return [account.user_id for account in accounts]


def scopes(database):
    return database.admin("select scope from public.stats_catalog_scopes order by 1")


def test_a_changed_exercise_is_walked_over_all_history_of_its_users_alone(
    database, stages, pages, exercise, users
):
    others = published_accounts(database, 2)

    change_global(database, exercise, "Plank", "duration")
    page = pages.walk()

    assert (page["response"], page["scope"], page["requested"], page["has_more"]) == (
        "walked",
        "global",
        6,
        False,
    )
    assert requested(database) == ids(users)
    assert set(
        open_jobs(database, "event_type", "priority", "window_only", "from_date", "exercise_ids[1]")
    ) == {("catalog_changed", 1, False, None, exercise)}
    assert pages.walk()["response"] == "idle"
    stages.drain()
    assert_all_equal_reckoning(database, [*users, *others])


def test_the_change_is_logged_and_counted(database, exercise, users):
    change_global(database, exercise, "Plank", "duration")

    assert database.admin("select exercise_id, scope, change from public.exercise_catalog_changes") == [
        (exercise, None, "tracking weight_reps -> duration")
    ]
    assert database.admin("select catalog_epoch from public.pr_overview_projection_control") == [(1,)]


def test_a_new_name_or_an_archive_walks_nobody(database, pages, exercise, users):
    change_global(database, exercise, "Plank (long)", "weight_reps")
    database.admin("update public.exercises set archived_at = now() where id = :id", id=exercise)

    assert pages.walk()["response"] == "idle"


def test_who_has_only_a_manual_record_of_it_is_walked_too(database, stages, pages, exercise, users):
    account = AppAccount(database)
    account.call(
        "select public.set_manual_pr_v1(:exercise, 100, '2026-03-10', 'manual', :user, gen_random_uuid())",
        exercise=exercise,
    )
    stages.drain()

    change_global(database, exercise, "Plank", "duration")
    pages.walk_to_the_end()

    assert requested(database) == sorted([*ids(users), account.user_id])
    stages.drain()
    assert_all_equal_reckoning(database, [*users, account])


def test_a_walk_goes_page_by_page_from_its_cursor(database, stages, pages, exercise, users):
    change_global(database, exercise, "Plank", "duration")

    assert pages.walk(4)["has_more"]
    assert requested(database) == ids(users[:4])
    assert not pages.walk(4)["has_more"]
    assert requested(database) == ids(users)
    assert {generation for (generation,) in open_jobs(database, "requested_version")} == {3}


def test_a_change_during_a_walk_leaves_one_follow_up_walk(database, stages, pages, exercise, users):
    other = global_exercise(database, "Row")
    save_with(users[0], other)
    stages.drain()
    change_global(database, exercise, "Plank", "duration")
    pages.walk(3)

    # Behind the cursor, ahead of it, and the walked one again.
    change_global(database, other, "Row", "reps_only")
    change_global(database, exercise, "Plank", "reps_only")
    change_global(database, other, "Row", "bodyweight_reps")

    walked = pages.walk_to_the_end()
    assert sum(page["requested"] for page in walked) == 3 + 6
    assert pages.walk()["response"] == "idle"
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_change_that_commits_after_a_walk_began_and_ended_is_walked(
    database, stages, pages, exercise, users
):
    other = global_exercise(database, "Row")
    for account in users:
        save_with(account, other)
    stages.drain()
    with admin_session(database, "late") as late:
        # Open before the walk begins; its scope row is new, so that the walk does not see it.
        late.run(CHANGE, tracking="reps_only", id=other)
        assert pages.walk()["response"] == "idle"
        late.commit()

    pages.walk_to_the_end()
    assert requested(database) == ids(users)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_change_that_is_open_while_another_walk_is_under_way_loses_nothing(
    database, stages, pages, exercise, users
):
    other = global_exercise(database, "Row")
    for account in users[:2]:
        save_with(account, other)
    stages.drain()
    change_global(database, exercise, "Plank", "duration")
    pages.walk(4)
    with admin_session(database, "late") as late:
        late.run(CHANGE, tracking="reps_only", id=other)
        # The scope is the open transaction's: the walk leaves it alone rather than waiting.
        assert pages.walk()["response"] == "idle"
        late.commit()

    walked = pages.walk_to_the_end()
    assert [page["requested"] for page in walked] == [2, 2]
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_change_waits_for_a_page_at_most_and_is_walked_afterwards(database, stages, pages, exercise, users):
    change_global(database, exercise, "Plank", "duration")
    with session(database, "page") as page, admin_session(database, "admin") as admin:
        assert page.run(WALK, limit=100)["requested"] == 6
        changing = admin.start(CHANGE, tracking="reps_only", id=exercise)
        wait_until_blocked(database, admin, by=page)
        page.commit()
        changing.result(20)
        admin.commit()

    assert pages.walk()["requested"] == 6
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_pruned_log_loses_nobody(database, stages, pages, exercise, users):
    change_global(database, exercise, "Plank", "duration")
    pages.walk(2)
    database.admin("truncate public.exercise_catalog_changes")

    pages.walk_to_the_end()

    assert requested(database) == ids(users)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_worker_that_dies_in_a_page_loses_nobody(database, stages, pages, exercise, users):
    change_global(database, exercise, "Plank", "duration")
    pages.walk(2)
    with contextlib.suppress(DBAPIError), session(database, "dying worker") as dying:
        assert dying.run(WALK, limit=2)["requested"] == 2
        database.admin("select pg_catalog.pg_terminate_backend(:pid, 10000)", pid=dying.pid)

    assert requested(database) == ids(users[:2])
    pages.walk_to_the_end(2)
    assert requested(database) == ids(users)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_busy_account_is_waited_for_but_holds_up_no_other_walk(database, stages, pages, exercise, users):
    own = users[0].exercises["Squat"]
    change_global(database, exercise, "Plank", "duration")
    with admin_session(database, "writer") as writer:
        write_lock(writer, users[2])
        assert (pages.walk()["requested"], pages.walk()["requested"]) == (2, 0)
        assert requested(database) == ids(users[:2])
        # A change of one account's own exercise, by hand.
        database.admin(CHANGE, tracking="reps_only", id=own)
        pages.walk()
        page = pages.walk()
        assert [page["scope"], page["requested"]] in (["global", 0], [str(users[0].user_id), 1])

    pages.walk_to_the_end()
    assert requested(database) == ids(users)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_an_own_exercise_changed_by_its_owner_is_recomputed_at_once_and_walks_nobody(
    database, stages, pages, users
):
    account = users[0]
    receipt = account.call(
        "select public.upsert_exercise_v1('Squat', 'reps_only', :user, :exercise)",
        exercise=account.exercises["Squat"],
    )

    assert receipt["statsRequestedVersion"] == account.state()[0]
    assert pages.walk()["response"] == "idle"
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_an_own_exercise_changed_by_hand_is_walked(database, stages, pages, users):
    account = users[3]
    database.admin(CHANGE, tracking="reps_only", id=account.exercises["Squat"])

    page = pages.walk()

    assert (page["scope"], page["requested"]) == (str(account.user_id), 1)
    assert requested(database) == [account.user_id]
    assert (str(account.user_id),) not in scopes(database)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_change_by_hand_in_the_transaction_of_another_exercises_upsert_is_walked(database, pages, users):
    """What the owner's call enqueued stands for its own exercise alone."""
    account = users[0]
    account.exercise("Bench")
    account.save(account.block("Bench", (60, 5)))
    with admin_session(database) as admin:
        admin.run(
            "select set_config('request.jwt.claims', json_build_object('sub', cast(:user as text))::text, true)",
            user=account.user_id,
        )
        admin.run(
            "select public.upsert_exercise_v1('Squat', 'reps_only', :user, :exercise)",
            user=account.user_id,
            exercise=account.exercises["Squat"],
        )
        admin.run(CHANGE, tracking="reps_only", id=account.exercises["Bench"])
        admin.commit()

    assert scopes(database) == [(str(account.user_id),)]


def test_a_new_policy_walks_every_account_page_by_page(database, stages, pages, users):
    database.as_service()("select public.update_stats_projection_policy_v1('epley', 8)")

    assert pages.walk(4)["requested"] == 4
    database.as_service()("select public.update_stats_projection_policy_v1('lombardi')")
    walked = pages.walk_to_the_end(4)

    assert {page["scope"] for page in walked} == {"policy"}
    assert requested(database) == ids(users)
    stages.drain()
    assert pages.walk()["response"] == "idle"
    assert_all_equal_reckoning(database, users)


def test_a_policy_that_commits_while_the_walk_of_the_one_before_is_under_way_loses_nobody(
    database, stages, pages, users
):
    database.as_service()("select public.update_stats_projection_policy_v1('epley', 8)")
    pages.walk(4)
    with admin_session(database, "late") as late:
        late.run("select public.update_stats_projection_policy_v1('lombardi')")
        # The scope is the open transaction's: the walk leaves it alone rather than waiting.
        assert pages.walk()["response"] == "idle"
        late.commit()

    pages.walk_to_the_end(4)
    assert requested(database) == ids(users)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_worker_that_dies_in_a_page_of_a_policy_loses_nobody(database, stages, pages, users):
    database.as_service()("select public.update_stats_projection_policy_v1('epley', 8)")
    pages.walk(2)
    with contextlib.suppress(DBAPIError), session(database, "dying worker") as dying:
        assert dying.run(WALK, limit=2)["requested"] == 2
        database.admin("select pg_catalog.pg_terminate_backend(:pid, 10000)", pid=dying.pid)

    assert requested(database) == ids(users[:2])
    pages.walk_to_the_end(2)
    assert requested(database) == ids(users)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_who_is_published_under_the_old_policy_after_the_walk_passed_is_not_lost(database, stages, pages):
    """A first run that was computed before the change is published after it."""
    account = AppAccount(database)
    account.save()
    run = stages.claim()
    stages.compute(run)
    database.as_service()("select public.update_stats_projection_policy_v1('epley')")
    pages.walk_to_the_end()
    stages.publish(run)

    stages.drain()
    assert_all_equal_reckoning(database, [account])


def test_a_run_that_computed_before_the_change_does_not_have_the_last_word(
    database, stages, pages, exercise, users
):
    save_with(users[0], exercise, "2026-03-11")
    run = stages.claim()
    stages.compute(run)
    change_global(database, exercise, "Plank", "duration")
    pages.walk_to_the_end()
    stages.publish(run)

    assert requested(database) == ids(users)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_an_exhausted_account_is_not_revived_but_its_resumption_brings_the_change(
    database, stages, pages, exercise, users
):
    broken = users[1]
    broken.save(session_date="2026-04-01")
    exhaust(database, broken)

    change_global(database, exercise, "Plank", "duration")
    pages.walk_to_the_end()
    stages.drain()
    assert requested(database) == [broken.user_id]
    [*_, (status, exercise_ids)] = broken.jobs("status", "exercise_ids")
    assert status == "failed"
    assert set(exercise_ids) == {exercise, broken.exercises["Squat"]}

    [(job,)] = database.admin(
        "select id from public.user_exercise_stats_refresh_jobs where status = 'failed'"
    )
    database.as_service()("select public.stats_projection_resume_job_v1(:job)", job=job)
    stages.drain()
    assert_all_equal_reckoning(database, users)


def test_a_deleted_account_is_not_brought_back_by_a_walk(database, stages, pages, exercise, users):
    gone = users[1]
    change_global(database, exercise, "Plank", "duration")
    # As when it goes between the page's look at who uses the exercise and its turn.
    database.admin("delete from public.user_stats_refresh_state where user_id = :user", user=gone.user_id)

    pages.walk_to_the_end()

    assert gone.user_id not in requested(database)
    assert len(requested(database)) == 5


def test_a_page_of_a_walk_ends_after_a_quarter_of_a_second(database, pages):
    """It keeps the locks of its accounts to its commit, so it is short, however many accounts it may take."""
    exercise = global_exercise(database)
    database.admin(
        "with users as (select gen_random_uuid() as id from generate_series(1, 30)),"
        " states as (insert into public.user_stats_refresh_state (user_id, requested_version, applied_version)"
        " select id, 1, 1 from users),"
        " sessions as (insert into public.workout_sessions (user_id, session_date)"
        " select id, '2026-03-10' from users returning id, user_id)"
        " insert into public.session_exercise_part (session_id, user_id, exercise_id, position)"
        " select id, user_id, :exercise, 1 from sessions",
        exercise=exercise,
    )
    change_global(database, exercise, "Plank", "duration")

    on_insert(database, "public.user_exercise_stats_refresh_jobs", "perform pg_catalog.pg_sleep(0.05);")

    page = pages.walk(1000)
    assert 0 < page["requested"] < 30
    assert page["has_more"]
    walked = [page, *pages.walk_to_the_end(1000)]
    assert sum(one["requested"] for one in walked) == 30
    assert len(requested(database)) == 30


def test_a_new_exercise_walks_nobody(database, pages):
    AppAccount(database).exercise()
    global_exercise(database)

    assert scopes(database) == []
