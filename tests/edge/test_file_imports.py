"""A file of another app in, its report out: whole, twice, cut off, too large, not an export, and by somebody else."""

from __future__ import annotations

import http.client
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path

import pytest
from interleavings.scene import admin_session, on_insert, undo_on_insert, wait_until_waiting
from support.races import Session
from support.serving import SECRET, SERVICE_TOKEN, Edge, Reply, Serving, WebAccount, edge

from core.processes import wait_until
from edge.service.limits import LARGEST_BODY, LARGEST_FILE
from edge.service.tokens import sign
from importers.saving import MOST_SESSIONS

IMPORTS = "/v1/imports"
SESSIONS = "public.workout_sessions"
GATE = 20260312
HEADER = (
    "Date,Workout Name,Duration,Exercise Name,Set Order,Weight,Reps,Distance,Seconds,Notes,Workout Notes,RPE"
)
WHOLE = 2 * MOST_SESSIONS + 3


def export(workouts: int = 3, weight: float = 60) -> bytes:
    """Return a Strong export of one set of Bench Press a day."""
    days = (date(2024, 1, 8) + timedelta(days=n) for n in range(workouts))
    lines = (f'{day} 18:30:00,"Push",1h 5m,"Bench Press (Barbell)",1,{weight},8,0,0,"","",' for day in days)
    return "\n".join([HEADER, *lines, ""]).encode()


@pytest.fixture(scope="module")
def here() -> Iterator[Edge]:
    """The service, which keeps what it is sent in a folder of the test's."""
    with (
        tempfile.TemporaryDirectory(prefix="imports-") as folder,
        edge() as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)
        serving = Serving(made.database.url)
        try:
            yield Edge(serving, made.database, made.server)
        finally:
            serving.kill()


def uploads() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("imports-*/stats-refresh-import-*"))


@pytest.fixture(autouse=True)
def _nothing_is_left(here: Edge) -> Iterator[None]:
    yield
    assert wait_until(lambda: not uploads(), 10), "what was sent is still on the disk"


def send(account: WebAccount, file: bytes, query: str = "unit=kg") -> Reply:
    return account.ask("POST", f"{IMPORTS}?{query}", body=file, Content_Type="text/csv")


def sessions(here: Edge, account: WebAccount) -> int:
    [[count]] = here.database.admin(
        "select count(*) from public.workout_sessions where user_id = :user", user=account.user_id
    )
    return count


@contextmanager
def stopped_after(here: Edge, account: WebAccount, number: int) -> Iterator[Session]:
    """Let whoever saves more than `number` sessions of the account wait until the keeper rolls back."""
    with admin_session(here.database, "keeper") as keeper:
        keeper.run(f"select pg_advisory_xact_lock({GATE})")
        on_insert(
            here.database,
            SESSIONS,
            f"if current_setting('request.jwt.claims')::json ->> 'sub' = '{account.user_id}'"
            f" and (select count(*) >= {number} from {SESSIONS} where user_id = '{account.user_id}')"
            f" then perform pg_advisory_xact_lock_shared({GATE}); end if;",
        )
        try:
            yield keeper
        finally:
            keeper.rollback()
            undo_on_insert(here.database, SESSIONS)


# ---------------------------------------------------------------- a file in, the report out


def test_a_file_is_saved_and_every_row_is_accounted_for(here: Edge) -> None:
    account = here.account()
    odd = b'2024-02-01 18:30:00,"Push",1h 5m,"Bench Press (Barbell)",1,heavy,8,0,0,"","",\n'
    reply = send(account, export() + odd)
    assert reply.status == 200, reply.body
    shape = here.serving.ask("GET", "/openapi.json").json["components"]["schemas"]["FileImported"]
    assert reply.json.keys() == shape["properties"].keys()
    report = reply.json
    assert (report["format"], report["dry_run"]) == ("strong", False)
    assert (report["data_rows"], report["sets_taken"], report["rows_skipped"]) == (4, 3, 1)
    assert (report["sessions_saved"], report["sessions_updated"], report["sessions_refused"]) == (3, 0, 0)
    [skipped] = report["skipped"]
    assert (skipped["rows"], skipped["lines"]) == (1, [[5, 5]])
    assert sessions(here, account) == 3
    here.publish()
    generation = report["statsRequestedVersion"]
    month = account.ask("GET", f"/v1/calendar-month?month=2024-01&min_generation={generation}&wait=10").json
    assert [day["day"] for day in month["days"]] == ["2024-01-08", "2024-01-09", "2024-01-10"]
    assert month["generation"] >= generation


def test_the_same_file_again_changes_nothing_and_another_one_updates(here: Edge) -> None:
    account = here.account()
    send(account, export())
    again = send(account, export()).json
    assert (again["sessions_saved"], again["sessions_already_there"]) == (0, 3)
    assert again["statsRequestedVersion"] is None
    dry = send(account, export(weight=70), "unit=kg&dry_run=true").json
    assert (dry["dry_run"], dry["sessions_updated"]) == (True, 3)
    kept = send(account, export(weight=70), "unit=kg&keep=true").json
    assert (kept["sessions_updated"], kept["sessions_differing"]) == (0, 3)
    assert send(account, export(weight=70)).json["sessions_updated"] == 3
    assert sessions(here, account) == 3


def test_a_dry_run_writes_nothing(here: Edge) -> None:
    account = here.account()
    report = send(account, export(), "unit=kg&dry_run=true&timezone=Europe/Berlin").json
    assert (report["sessions_saved"], report["dry_run"]) == (3, True)
    assert (sessions(here, account), account.state()) == (0, (0, 0))


# ---------------------------------------------------------------- who may


def test_a_file_goes_to_the_tokens_account_alone(here: Edge) -> None:
    mine, other = here.account(), here.account()
    send(other, export(1))
    assert send(mine, export()).json["sessions_saved"] == 3
    assert (sessions(here, mine), sessions(here, other)) == (3, 1)
    assert [status for (status,) in other.jobs("status")] == ["pending"]
    ask = here.serving.ask
    for token, status in (
        (None, 401),
        ("wrong", 401),
        (sign(SECRET, mine.user_id, seconds=-60), 401),
        (SERVICE_TOKEN, 403),
    ):
        assert ask("POST", f"{IMPORTS}?unit=kg", token=token, body=export(9)).status == status
    # Nobody is imported for by naming them.
    named = send(mine, export(4), f"unit=kg&user_id={other.user_id}")
    assert (named.status, sessions(here, other)) == (200, 1)


# ---------------------------------------------------------------- what is no export


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"\n\n",
        b"a,b\n1,2\n",
        b"\x00\x01\x02\x03" * 100,
        b"PK\x03\x04" + b"\x00" * 100,
        b"caf\xe9\n",
        b"{}",
        b"<html></html>",
        b"workout_id,exercise_name,set_index\n1,Squat,1\n",
        b"[" * 100_000,
        HEADER.encode(),
    ],
)
def test_what_is_not_an_export_is_refused_without_a_path(here: Edge, file: bytes) -> None:
    account = here.account()
    reply = send(account, file)
    assert (reply.status, reply.headers["content-type"]) == (422, "application/problem+json"), reply.body
    assert "/tmp" not in reply.json["detail"]
    assert "upload" not in reply.json["detail"]
    assert "--" not in reply.json["detail"]
    assert sessions(here, account) == 0


@pytest.mark.parametrize(
    "query",
    [
        "unit=stone",
        "unit=kg&format=word",
        "unit=kg&timezone=Mars",
        "unit=kg&timezone=Europe",
        "unit=kg&timezone=../../etc/passwd",
        "unit=kg&timezone=" + "x" * 101,
        "unit=kg&dry_run=perhaps",
        "unit=kg&format=hevy",
    ],
)
def test_a_parameter_that_breaks_a_rule_is_refused(here: Edge, query: str) -> None:
    account = here.account()
    assert send(account, export(), query).status == 422
    assert sessions(here, account) == 0


def test_a_file_that_does_not_say_its_unit_needs_one(here: Edge) -> None:
    reply = send(here.account(), export(), "")
    assert reply.status == 422
    assert "unit" in reply.json["detail"]
    assert "--unit" not in reply.json["detail"]


# ---------------------------------------------------------------- too large, too many


def test_a_file_may_be_larger_than_any_other_body(here: Edge) -> None:
    reply = send(here.account(), export() + b"\n" * (LARGEST_BODY + 1))
    assert (reply.status, reply.json.get("sessions_saved")) == (200, 3)


def test_a_file_too_large(here: Edge) -> None:
    account = here.account()
    announced = begin(account, f"Content-Length: {LARGEST_FILE + 1}")
    assert announced.recv(65536).startswith(b"HTTP/1.1 413 ")
    announced.close()
    chunked = begin(account, "Transfer-Encoding: chunked")
    said = b""
    with suppress(OSError):  # it had enough before it had all
        for _ in range(LARGEST_FILE // 0x100000 + 1):
            chunked.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
    with suppress(ConnectionResetError):
        said = chunked.recv(65536)
    chunked.close()
    assert said.startswith(b"HTTP/1.1 413 ")
    assert sessions(here, account) == 0
    assert send(account, export()).status == 200


def test_files_on_the_way_are_bounded(here: Edge) -> None:
    account = here.account()
    slow = [begin(account, "Content-Length: 1000", part=b"Date") for _ in range(8)]
    try:
        assert wait_until(lambda: len(uploads()) == 8, 10)
        refused = send(here.account(), export())
        assert (refused.status, int(refused.headers["retry-after"]) > 0) == (503, True)
    finally:
        for connection in slow:
            connection.close()
    assert wait_until(lambda: send(account, export()).status == 200, 10)


# ---------------------------------------------------------------- two at once, cut off, killed


def test_two_files_of_one_account_at_once(here: Edge) -> None:
    """The second is told to come again, so that it takes no thread from others; then it finds all there."""
    account, other = here.account(), here.account()
    with ThreadPoolExecutor(1) as pool, stopped_after(here, account, MOST_SESSIONS) as keeper:
        first = pool.submit(send, account, export(WHOLE))
        wait_until_waiting(here.database, 1)
        second = send(account, export(WHOLE))
        assert (second.status, int(second.headers["retry-after"]) > 0) == (503, True)
        assert send(other, export()).json["sessions_saved"] == 3
        keeper.rollback()
        assert first.result(30).json["sessions_saved"] == WHOLE
    again = send(account, export(WHOLE)).json
    assert (again["sessions_saved"], again["sessions_already_there"]) == (0, WHOLE)
    assert sessions(here, account) == WHOLE


def test_a_client_that_goes_away_before_it_has_sent_all(here: Edge) -> None:
    account = here.account()
    connection = begin(account, "Content-Length: 100000", part=export(), request_id="cut-off")
    assert wait_until(lambda: uploads() != [], 10)
    connection.close()
    assert here.serving.said("POST /v1/imports 499 .* request=cut-off")
    assert "failed with" not in here.serving.log
    assert (sessions(here, account), account.state()) == (0, (0, 0))


def test_a_client_that_goes_away_while_its_file_is_imported(here: Edge) -> None:
    """The import goes on to its end; whoever sends the file again is told that all is there."""
    account = here.account()
    file = export(WHOLE)
    with stopped_after(here, account, MOST_SESSIONS) as keeper:
        connection = begin(account, f"Content-Length: {len(file)}", part=file)
        wait_until_waiting(here.database, 1)
        connection.close()
        keeper.rollback()
        assert wait_until(lambda: sessions(here, account) == WHOLE, 20)
    assert wait_until(lambda: not uploads(), 10)
    again = send(account, file).json
    assert (again["sessions_saved"], again["sessions_already_there"]) == (0, WHOLE)
    assert "failed with" not in here.serving.log


def test_a_service_killed_in_the_middle_and_the_file_sent_again(here: Edge) -> None:
    account = here.account()
    serving = Serving(here.database.url)
    with ThreadPoolExecutor(1) as pool, stopped_after(here, account, MOST_SESSIONS):
        sent = pool.submit(serving.ask, "POST", f"{IMPORTS}?unit=kg", token=account.token, body=export(WHOLE))
        wait_until_waiting(here.database, 1)
        serving.kill()
        assert isinstance(sent.exception(20), http.client.HTTPException | OSError)
    for left in uploads():  # nobody but the system removes what a killed process has left
        (left / "upload").unlink()
        left.rmdir()
    assert wait_until(lambda: no_turn_is_held(here), 20)
    assert sessions(here, account) == MOST_SESSIONS
    again = send(account, export(WHOLE)).json
    assert again["sessions_saved"] == WHOLE - MOST_SESSIONS
    assert again["sessions_already_there"] == MOST_SESSIONS
    assert sessions(here, account) == WHOLE


def test_a_connection_lost_in_the_middle_is_a_503_and_the_file_can_be_sent_again(here: Edge) -> None:
    account = here.account()
    with ThreadPoolExecutor(1) as pool, stopped_after(here, account, MOST_SESSIONS):
        sent = pool.submit(send, account, export(WHOLE))
        wait_until_waiting(here.database, 1)
        here.database.admin(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
        )
        reply = sent.result(30)
    assert (reply.status, int(reply.headers["retry-after"]) > 0) == (503, True)
    assert "socket" not in reply.json["detail"]
    assert wait_until(lambda: no_turn_is_held(here), 20)
    assert send(account, export(WHOLE)).json["sessions_already_there"] == MOST_SESSIONS
    assert sessions(here, account) == WHOLE


def no_turn_is_held(here: Edge) -> bool:
    [[held]] = here.database.admin(
        "select count(*) from pg_stat_activity where application_name = 'stats-refresh-edge'"
        " and state <> 'idle' or wait_event_type = 'Lock'"
    )
    return held == 0


def begin(account: WebAccount, *lines: str, part: bytes = b"", request_id: str = "begun") -> socket.socket:
    """Return a connection on which the head of an upload, and `part` of its file, are sent."""
    connection = socket.create_connection(("127.0.0.1", account.serving.port), timeout=30)
    head = [
        f"POST {IMPORTS}?unit=kg HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {account.token}",
        f"X-Request-Id: {request_id}",
        *lines,
    ]
    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + part)
    return connection
