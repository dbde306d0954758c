"""Many writers at once: no deadlock, and exactly as many generations as committed writes."""

import threading
from concurrent.futures import ThreadPoolExecutor

from support.app import AppAccount
from support.races import DEADLINE, session

from tasks.transaction import account

WRITERS, ACCOUNTS, CONNECTIONS = 50, 200, 32


def deadlocks(database):
    [[count]] = database.admin(
        "select deadlocks from pg_catalog.pg_stat_database where datname = current_database()"
    )
    return count


def at_once(calls):
    """Run every call in threads that start together; raises what any of them raised."""
    start = threading.Barrier(CONNECTIONS)

    def share(number):
        start.wait(20)
        return [call() for call in calls[number::CONNECTIONS]]

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return [answer for answers in threads.map(share, range(CONNECTIONS)) for answer in answers]


def test_fifty_writers_on_one_account(database, app_account, stages):
    kept = [app_account.save()["session_id"] for _ in range(WRITERS // 2)]
    payloads = [
        app_account.payload(session_id=kept[number % len(kept)] if number % 2 else None)
        for number in range(WRITERS)
    ]
    done = threading.Event()

    def work():
        while not done.is_set():
            stages.drain()

    with ThreadPoolExecutor(1) as worker:
        working = worker.submit(work)
        try:
            receipts = at_once(
                [lambda payload=payload: app_account.save_payload(payload) for payload in payloads]
            )
        finally:
            done.set()
        working.result(60)

    generations = sorted(receipt["statsRequestedVersion"] for receipt in receipts)
    assert generations == list(range(len(kept) + 1, len(kept) + WRITERS + 1))
    stages.drain()
    assert app_account.state() == (len(kept) + WRITERS, len(kept) + WRITERS)
    assert deadlocks(database) == 0


def test_two_hundred_accounts_at_once(database, stages):
    """Each with two writes, all of one global exercise."""
    admin = AppAccount(database)
    squat = database.as_account(admin.user_id, admin=True).value(
        "select public.upsert_exercise_v1('Squat', 'weight_reps', :user, null, true)", user=admin.user_id
    )["exercise_id"]
    accounts = [AppAccount(database, exercises={"Squat": squat}) for _ in range(ACCOUNTS)]

    at_once([one.save for one in accounts] + [one.save for one in accounts[::-1]])

    assert database.admin(
        "select count(*), min(requested_version), max(requested_version) from public.user_stats_refresh_state"
    ) == [(ACCOUNTS, 2, 2)]
    assert database.admin(
        "select count(*) from public.user_exercise_stats_refresh_jobs where status = 'pending'"
    ) == [(ACCOUNTS,)]
    assert deadlocks(database) == 0


def test_two_accounts_never_wait_for_each_other(database, app_account):
    other = AppAccount(database)
    other.exercise()
    with ThreadPoolExecutor(1) as thread, session(database, "first", account(app_account.user_id)) as first:
        first.run("select public.upsert_exercise_v1('Row', 'weight_reps', :user)", user=app_account.user_id)
        first.run(
            "select public.enqueue_user_exercise_stats_refresh(:user, null, '{}', '')",
            user=app_account.user_id,
        )

        assert thread.submit(other.save).result(DEADLINE)
