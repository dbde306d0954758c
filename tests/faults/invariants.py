"""What has to be true when the faults have ended: asked of the database, the receipts and the noted answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import chain

from maintenance.scene import Pages, private_outputs
from reckoning.compare import assert_account_equals_reckoning
from reckoning.fetch import fetch_policy
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from core.processes import wait_until
from faults.history import History, Verdict, judge
from faults.load import Client, Person, Stored, today
from faults.readers import BOARD, Reader, by_the_reckoning
from faults.stack import LEASE_SECONDS, QUEUES, Stack, queue_key

RECOVERED_WITHIN = LEASE_SECONDS + 10
ROLLED_OVER_WITHIN = 60 + RECOVERED_WITHIN
"""The rollover's beat comes every minute."""
_CONTENTION = ("55P03", "40001", "40P01")
_DEADLOCK = "40P01"
_MOST_PRINTED = 8

OPEN = """
    select 'account ' || s.user_id || ' requested ' || s.requested_version || ', applied ' || s.applied_version
    from public.user_stats_refresh_state s where s.requested_version > s.applied_version
    union all
    select 'job ' || j.id || ' of ' || j.user_id || ' is ' || j.status || ', attempts ' || j.attempts
        || coalesce(', not before ' || j.retry_not_before, '') || coalesce(', ' || j.error_message, '')
    from public.user_exercise_stats_refresh_jobs j where j.status <> 'completed'
    union all
    select 'run ' || r.id || ' of ' || r.user_id || ' is ' || r.phase || ', leased until ' || r.lease_until
        || coalesce(', not before ' || r.retry_not_before, '')
    from public.user_stats_projection_runs r where r.phase in ('claimed', 'computed')
"""
_AHEAD = """
    select s.user_id from public.user_stats_refresh_state s
    where s.published_anchor > (clock_timestamp() at time zone 'UTC')::date
"""
_EVIDENCE = {
    "status": "select jsonb_pretty(public.stats_projection_worker_status_v1())",
    "session": "select to_jsonb(a) from (select pid, application_name, state, wait_event, state_change, query"
    " from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()) a",
    "advisory lock": "select to_jsonb(l) from pg_locks l where l.locktype = 'advisory'",
    "open job": "select to_jsonb(j) from public.user_exercise_stats_refresh_jobs j where j.status <> 'completed'"
    " limit 5",
    "open run": "select to_jsonb(r) from public.user_stats_projection_runs r where r.phase in ('claimed', 'computed')",
}
_STORED = """
    select w.title, w.session_date, x.name, s.weight_kg::int, s.reps
    from public.workout_sessions w
    inner join public.session_exercise_part p on p.session_id = w.id
    inner join public.exercises x on x.id = p.exercise_id
    inner join public.session_sets s on s.part_id = p.id
    where w.user_id = :user
    order by w.id, p.position, s.set_no
"""
_STATED = """
    select r.id::text, x.name, r.achieved_on, r.one_rm_kg::int
    from public.user_manual_pr_records r inner join public.exercises x on x.id = r.exercise_id
    where r.user_id = :user
"""
_FAILED_ATTEMPTS = """
    select j.metadata #>> '{last_error,sqlstate}', count(*)
    from public.user_exercise_stats_refresh_jobs j where j.metadata ? 'last_error' group by 1
"""


def failed_attempts(stack: Stack) -> Counter[str]:
    """Count the jobs by the SQLSTATE of the last attempt that failed."""
    return Counter({str(code): count for code, count in stack.database.admin(_FAILED_ATTEMPTS)})


def waiting(stack: Stack) -> list[str]:
    """Return what is not settled, a line each."""
    return [line for (line,) in stack.database.admin(OPEN)]


def wait_until_settled(stack: Stack) -> list[str]:
    """Wait until nothing waits any more; return what still does when the time for it is over."""
    if wait_until(lambda: _is_settled(stack), RECOVERED_WITHIN, interval=0.2):
        return []
    return [f"not recovered within {RECOVERED_WITHIN} s: {line}" for line in waiting(stack)]


def wait_until_rolled_over(stack: Stack) -> list[str]:
    """Wait for the rollover of every window that a clock dated in days to come; return those that are left."""
    if wait_until(lambda: _is_settled(stack, _AHEAD), ROLLED_OVER_WITHIN, interval=0.5):
        return []
    return [
        f"not rolled over within {ROLLED_OVER_WITHIN} s: {user}" for (user,) in stack.database.admin(_AHEAD)
    ]


def evidence(stack: Stack) -> list[str]:
    """Return what the database, the queues and the processes say for themselves."""
    redis = stack.redis()
    return [
        *(f"{what}: {row[0]}" for what, query in _EVIDENCE.items() for row in stack.database.admin(query)),
        *(f"messages for {queue}: {redis.llen(queue_key(queue))}" for queue in QUEUES),
        *(f"{one.name} said last:\n{one.process.tail()}" for one in stack.kept if one.process is not None),
    ]


def _is_settled(stack: Stack, what_is_open: str = OPEN) -> bool:
    try:
        return not stack.database.admin(what_is_open)
    except DBAPIError:
        return False


def findings(stack: Stack, people: Sequence[Person], clients: Sequence[Client]) -> list[str]:
    """Return what is wrong with what is stored and published, once nothing waits."""
    of_accounts = chain.from_iterable(_of_account(stack, person) for person in people)
    return [*_said_by_clients(clients), *of_accounts, *_left_over(stack)]


def judge_answers(
    stack: Stack, people: Sequence[Person], clients: Sequence[Client], readers: Sequence[Reader]
) -> Verdict:
    """Return what the noted answers and receipts show to be wrong."""
    history = History(
        [read for reader in readers for read in reader.reads],
        [promise for client in clients for promise in client.promises],
    )
    with create_engine(stack.database.admin_url, poolclass=NullPool).connect() as connection:
        policy = fetch_policy(connection)
    return judge(history, by_the_reckoning(people, policy))


def contention_counted(failed: Counter[str]) -> list[str]:
    """Return the contention that cost an attempt."""
    return [
        f"contention was counted as a failed attempt: {failed[code]} times {code}"
        for code in _CONTENTION
        if failed[code]
    ]


def shortened(found: Sequence[str]) -> list[str]:
    """Return the first findings, and how many more there are."""
    more = len(found) - _MOST_PRINTED
    return [*found[:_MOST_PRINTED], *([f"... and {more} more"] if more > 0 else [])]


def _said_by_clients(clients: Sequence[Client]) -> Iterator[str]:
    for client in clients:
        yield from client.problems
        if client.repeated[_DEADLOCK]:
            yield f"a write met a deadlock {client.repeated[_DEADLOCK]} times"


def _of_account(stack: Stack, person: Person) -> Iterator[str]:
    yield from _compared("sessions", person, person.sessions, _stored(stack, person))
    stated = {record: row for record, *row in stack.database.admin(_STATED, user=person.user_id)}
    yield from _compared("1RMs", person, {key: list(row) for key, row in person.manual.items()}, stated)
    yield from _failed(lambda: _equals_reckoning(stack, person))
    yield from _failed(lambda: _answers_today(person))
    requested, _ = person.app.state()
    if person.receipts and requested < (newest := person.receipts[-1].receipt["statsRequestedVersion"]):
        yield f"{person.user_id} was promised generation {newest}, requested is {requested}"


def _compared(what: str, person: Person, promised: dict, stored: dict) -> Iterator[str]:
    for key in sorted(promised.keys() | stored.keys()):
        if promised.get(key) != stored.get(key):
            yield f"{what} of {person.user_id}: {key}: promised {promised.get(key)}, stored {stored.get(key)}"


def _stored(stack: Stack, person: Person) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    for title, day, *one in stack.database.admin(_STORED, user=person.user_id):
        known = found.get(title, Stored(day, ()))
        found[title] = Stored(day, (*known.sets, (str(one[0]), int(one[1]), int(one[2]))))
    return found


def _failed(check: Callable[[], None]) -> Iterator[str]:
    try:
        check()
    except AssertionError as error:
        yield str(error)


def _equals_reckoning(stack: Stack, person: Person) -> None:
    if not person.app.state()[0]:
        return
    engine = create_engine(stack.database.admin_url, poolclass=NullPool, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        assert_account_equals_reckoning(connection, person.user_id)


def _answers_today(person: Person) -> None:
    """A reader of today is not refused: no clock that was wrong for a while is still believed."""
    if not person.app.state()[0]:
        return
    days: list[date] = [today()]
    try:
        person.app.call(f"select public.{BOARD}(:day)", day=days[0])
    except DBAPIError as error:
        detail = getattr(getattr(error.orig, "diag", None), "message_detail", None)
        raise AssertionError(f"{person.user_id} has no board of {days[0]}: {detail or error.orig}") from error


def _left_over(stack: Stack) -> Iterator[str]:
    pages = Pages(stack.database)
    for _ in range(20):
        if not pages.purge().get("has_more"):
            break
    yield from (
        f"{count} private rows are left in {table}"
        for table, count in private_outputs(stack.database).items()
    )
