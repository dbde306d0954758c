"""The client for threads: the same calls, one flight for all threads, and an end that nobody waits for in vain."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from support.clients import DAY, Counts, address, session, today, until_true
from support.proxy import Proxy
from support.rig import ROOT
from support.serving import SECRET, Edge, Serving

from edge.client import Account, AsyncAccount, AsyncClient, Client, ClientClosed, NotPublished, Unanswered
from edge.service.tokens import sign


def new_account(client: Client) -> Account:
    user_id = uuid.uuid4()
    return client.account(user_id, sign(SECRET, user_id))


def squat(account: Account) -> str:
    return account.add_exercise("Squat", "weight_reps").exercise_id


def test_it_has_the_calls_of_the_other_one() -> None:
    for ours, theirs in ((Account, AsyncAccount), (Client, AsyncClient)):
        for name, call in inspect.getmembers(theirs, inspect.isfunction):
            if name.startswith("_") or name == "aclose":
                continue
            signature, its = inspect.signature(getattr(ours, name)), inspect.signature(call)
            assert list(signature.parameters.items())[1:-1] == list(its.parameters.items())[1:-1], name
            assert list(signature.parameters) == list(its.parameters), name
    assert inspect.signature(Client).parameters == inspect.signature(AsyncClient).parameters


def test_the_main_path_and_every_call(here: Edge) -> None:
    with Client(address(here.serving)) as client:
        account = new_account(client)
        exercise = squat(account)
        with pytest.raises(NotPublished):
            account.pr_overview(today())
        receipt = account.save(session(exercise))
        here.publish()
        assert account.freshness().applied_version == receipt.stats_requested_version == 1
        board = account.pr_overview(today(), min_generation=1, wait=5)
        assert board.exercises[0].best_weight_kg == 100
        assert account.home_overview(today()).generation == 1
        assert account.volume_overview(DAY, "month").periods[0].sessions == 1
        assert account.pr_detail(exercise, DAY).days[0].sets == 1
        assert account.calendar_month(DAY).days[0].sessions == 1
        stated = account.state_record(exercise, 150, DAY)
        assert account.delete_record(stated.manual_pr_id).stats_requested_version == 3
        assert account.change_exercise(exercise, "Squats", "weight_reps").name == "Squats"
        assert account.archive_exercise(exercise).exercise_id == exercise
        assert account.delete(receipt.session_id).operation == "session_deleted"
        assert account.user_id == board.user_id


def test_threads_share_one_flight(here: Edge) -> None:
    with Client(address(here.serving)) as client, ThreadPoolExecutor(40) as threads:
        account = new_account(client)
        account.save(session(squat(account)))
        here.publish()
        counts, start = Counts(here.serving), threading.Barrier(40)

        def ask() -> object:
            start.wait(20)
            return account.reconcile(1, today())

        results = [future.result(30) for future in [threads.submit(ask) for _ in range(40)]]
        assert len({id(result) for result in results}) == 1
        assert counts.now() == {"refresh": 1, "home-overview": 1, "pr-overview": 1, "volume-overview": 1}


def test_threads_save_at_once(here: Edge) -> None:
    with Client(address(here.serving)) as client, ThreadPoolExecutor(16) as threads:
        account = new_account(client)
        exercise = squat(account)
        saves = [threads.submit(account.save, session(exercise, reps=reps)) for reps in range(1, 41)]
        receipts = [future.result(30) for future in saves]
        assert {receipt.stats_requested_version for receipt in receipts} == set(range(1, 41))


def test_a_token_may_come_from_a_function_that_blocks(here: Edge) -> None:
    """It runs in a thread: others go on meanwhile."""
    with Client(address(here.serving)) as client, ThreadPoolExecutor(2) as threads:
        user_id, may_go_on, is_asked = uuid.uuid4(), threading.Event(), threading.Event()

        def token() -> str:
            is_asked.set()
            assert may_go_on.wait(20)
            return sign(SECRET, user_id)

        slow = threads.submit(client.account(user_id, token).freshness)
        assert is_asked.wait(20)
        assert new_account(client).freshness().stale is False
        may_go_on.set()
        assert slow.result(20).requested_version == 0


def test_closing_ends_the_calls_of_other_threads(here: Edge) -> None:
    with Proxy(address(here.serving)) as proxy, ThreadPoolExecutor(4) as threads:
        port = proxy.url.rpartition(":")[2].split("/")[0]
        client = Client(f"http://127.0.0.1:{port}")
        account = new_account(client)
        account.save(session(squat(account)))
        proxy.swallow("down")
        counts = Counts(here.serving)
        calls = [threads.submit(account.reconcile, 1, today()) for _ in range(2)]
        calls += [threads.submit(account.freshness), threads.submit(account.delete, uuid.uuid4())]
        assert until_true(lambda: len(counts.now()) == 3)
        began = time.monotonic()
        client.close()
        for call in calls:
            with pytest.raises(ClientClosed):
                call.result(20)
        assert time.monotonic() - began < 5
        client.close()
        with pytest.raises(ClientClosed, match="is closed"):
            account.freshness()
        assert not any(thread.name == "stats-client" for thread in threading.enumerate())


_FORKED = """
import os, signal, sys
from edge.client import Client, ClientClosed
client = Client(sys.argv[1])
account = client.account(sys.argv[2], sys.argv[3])
assert account.freshness().requested_version == 0
if (child := os.fork()) == 0:
    signal.alarm(20)  # one that hangs does not outlive the test
    try:
        account.freshness()
    except ClientClosed as error:
        client.close()
        os._exit(7 if "another process" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert account.freshness().requested_version == 0
print("done")
"""
_INTERRUPTED = """
import sys
from edge.client import Client
client = Client(sys.argv[1])
account = client.account(sys.argv[2], sys.argv[3])
account.freshness()
print("waiting", flush=True)
try:
    account.calendar_month(__import__("datetime").date(2026, 3, 1), min_generation=9, wait=30)
except KeyboardInterrupt:
    print("interrupted", account.freshness().requested_version)
"""


def arguments(here: Edge, program: str) -> list[str]:
    user_id = uuid.uuid4()
    return [sys.executable, "-c", program, address(here.serving), str(user_id), sign(SECRET, user_id)]


def test_a_forked_child_is_refused_and_does_not_hang(here: Edge) -> None:
    """And a program that forgets to close the client ends."""
    ran = subprocess.run(
        arguments(here, _FORKED), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr


def test_ctrl_c_ends_a_call_that_waits_and_the_client_goes_on(here: Edge) -> None:
    waiting = subprocess.Popen(arguments(here, _INTERRUPTED), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert waiting.stdout.readline() == "waiting\n"
        assert until_true(
            lambda: b"stats_refresh_http_waiting 1.0" in here.serving.ask("GET", "/metrics").body
        )
        waiting.send_signal(signal.SIGINT)
        said, _ = waiting.communicate(timeout=20)
        assert said == "interrupted 0\n"
    finally:
        waiting.kill()


def test_the_service_restarts_between_two_calls(here: Edge) -> None:
    """The connection that was kept is dead, which costs nothing but another attempt."""
    first = Serving(here.database.url)
    with Client(address(first)) as client:
        account = new_account(client)
        exercise = squat(account)
        assert account.save(session(exercise)).stats_requested_version == 1
        first.kill()
        with Client(address(first), attempts=1) as hasty, pytest.raises(Unanswered) as away:
            hasty.account(account.user_id, sign(SECRET, UUID(account.user_id))).save(session(exercise))
        again = Serving(here.database.url, http_port=str(first.port))
        try:
            assert (
                account.save(session(exercise), mutation_id=away.value.mutation_id).stats_requested_version
                == 2
            )
            here.publish()
            assert account.reconcile(2, today()).state == "fresh"
        finally:
            again.kill()
