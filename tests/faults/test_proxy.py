"""The proxy: it knows who is behind a connection, passes all on, and falls silent on one alone."""

from __future__ import annotations

import os
import threading

import psycopg2
import pytest
from sqlalchemy import make_url

from embedded.postgres import FAST, PostgresServer
from faults.proxy import Proxy, backend_of


@pytest.fixture(scope="module")
def server():
    with PostgresServer(settings=FAST) as made:
        yield made


@pytest.fixture
def proxy(server, tmp_path):
    socket = f".s.PGSQL.{server.settings['port']}"
    with Proxy(server.socket_dir / socket, tmp_path / socket) as made:
        made.folder = tmp_path
        yield made


def connect(server, proxy):
    url = make_url(server.url()).update_query_dict({"host": str(proxy.folder)})
    return psycopg2.connect(**url.get_dialect()().create_connect_args(url)[1])


def ask(connection, statement="select 1"):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def test_a_connection_is_known_by_its_backend_and_its_client(server, proxy):
    connection = connect(server, proxy)
    backend = ask(connection, "select pg_backend_pid()")
    assert proxy.client_of(backend) == os.getpid()
    assert ask(connection, "select length(repeat('x', 3000000))") == 3000000
    connection.close()


def test_a_silent_connection_ends_when_the_silence_ends_and_the_others_go_on(server, proxy):
    silent, other = connect(server, proxy), connect(server, proxy)
    backend = ask(silent, "select pg_backend_pid()")
    assert proxy.silence(backend)
    answers = []

    def wait_for_an_answer():
        with pytest.raises(psycopg2.DatabaseError) as caught:
            ask(silent)
        answers.append(caught.value)

    waiting = threading.Thread(target=wait_for_an_answer)
    waiting.start()
    assert ask(other) == 1
    assert answers == []
    proxy.end_silence(backend)
    waiting.join(30)
    assert len(answers) == 1
    assert ask(other) == 1
    other.close()


def test_a_server_that_is_away_ends_the_connection(proxy, server):
    server.stop()
    with pytest.raises(psycopg2.OperationalError):
        connect(server, proxy)
    server.start()


def test_the_backend_is_read_from_the_greeting_however_it_is_cut():
    greeting = b"R\x00\x00\x00\x08\x00\x00\x00\x00" + b"K\x00\x00\x00\x0c\x00\x00\x12\x34\x00\x00\x00\x00"
    assert backend_of(greeting) == 0x1234
    assert [backend_of(greeting[:cut]) for cut in (0, 5, 9, 17)] == [None] * 4
