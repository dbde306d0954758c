"""Ways to Postgres that go wrong in silence: a proxy that swallows what it should forward, a transaction pooler."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

import psycopg2
from sqlalchemy import URL, make_url

from support.servers import login_password

_TOLD = (
    "server_version",
    "client_encoding",
    "standard_conforming_strings",
    "integer_datetimes",
    "DateStyle",
    "TimeZone",
)
_SSL_REQUESTS = (80877103, 80877104)


class Way:
    """A listening TCP port of its own in front of the server of `url`."""

    def __init__(self, url: str) -> None:
        self._target = make_url(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL through this way."""
        host, port = self._listening.getsockname()
        through = URL.create(
            self._target.drivername,
            username=self._target.username,
            # The file of a stack's password names the server, not this way.
            password=self._target.password or login_password(self._target),
            host=host,
            port=port,
            database=self._target.database,
        )
        return through.render_as_string(hide_password=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in (self._listening, *self._open):
            # Whoever waits in it wakes up, too.
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._open.append(client)
                self._start(self._serve, client)

    @staticmethod
    def _start(run: Callable[..., None], *arguments: object) -> None:
        def quietly() -> None:
            with suppress(OSError):
                run(*arguments)

        threading.Thread(target=quietly, daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        raise NotImplementedError

    def _server(self) -> socket.socket:
        folder, port = (
            self._target.query.get("host"),
            self._target.query.get("port", self._target.port or 5432),
        )
        if folder is not None:
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{folder}/.s.PGSQL.{port}")
        else:
            server = socket.create_connection((str(self._target.host), int(str(port))))
        self._open.append(server)
        return server


class Proxy(Way):
    """Forwards; told to swallow, it goes on to read and confirm what it gets, and forwards nothing of it."""

    def __init__(self, url: str) -> None:
        self.swallows: set[str] = set()
        """``up``: what clients send; ``down``: what the server answers; ``new``: on connections made from now on."""
        super().__init__(url)

    def swallow(self, *directions: str) -> None:
        self.swallows |= set(directions)

    def resume(self) -> None:
        """Forward on connections that are made from now on; those before stay as silent as they were."""
        self.swallows = set()

    def _serve(self, client: socket.socket) -> None:
        server = self._server()
        # Its own copy, once it is silent: a resumed way does not bring a dead connection back.
        silent: set[str] = set()
        self._start(self._pump, client, server, "up", silent)
        self._pump(server, client, "down", silent)

    def _pump(self, source: socket.socket, sink: socket.socket, direction: str, silent: set[str]) -> None:
        while data := source.recv(65536):
            silent |= self.swallows
            if direction not in silent:
                sink.sendall(data)


class Pooler(Way):
    """Gives each transaction the next of its two connections to the server, as poolers in transaction mode do."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._lock = threading.Lock()
        self._turn = 0
        # Kept, for they would close what they have opened.
        self._logged_in: list[psycopg2.extensions.connection] = []
        self._servers = [self._log_in() for _ in range(2)]

    def _log_in(self) -> tuple[socket.socket, bytes]:
        """Return a connection to the server, which libpq has logged in, and what greets a client with it."""
        connection = psycopg2.connect(self._target.set(drivername="postgresql").render_as_string(False))
        self._logged_in.append(connection)
        server = socket.socket(fileno=os.dup(connection.fileno()))
        server.setblocking(True)
        self._open.append(server)
        said = _answer(b"R", struct.pack("!i", 0))
        for name in _TOLD:
            said += _answer(b"S", f"{name}\0{connection.get_parameter_status(name)}\0".encode())
        return server, said + _answer(b"K", struct.pack("!ii", 0, 0)) + _answer(b"Z", b"I")

    def _serve(self, client: socket.socket) -> None:
        while struct.unpack("!i", _startup(client)[:4])[0] in _SSL_REQUESTS:
            client.sendall(b"N")
        client.sendall(self._servers[0][1])
        while (message := _message(client))[:1] != b"X":
            with self._lock:
                self._turn += 1
                server, _ = self._servers[self._turn % 2]
                server.sendall(message)
                # What the server says of itself between two transactions reaches nobody.
                client.sendall(_until_ready(server, skip=b"A"))


def _answer(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


def _startup(source: socket.socket) -> bytes:
    [length] = struct.unpack("!i", _exactly(source, 4))
    return _exactly(source, length - 4)


def _message(source: socket.socket) -> bytes:
    head = _exactly(source, 5)
    [length] = struct.unpack("!i", head[1:])
    return head + _exactly(source, length - 4)


def _until_ready(source: socket.socket, skip: bytes = b"") -> bytes:
    said = b""
    while True:
        message = _message(source)
        if message[:1] != skip:
            said += message
        if message[:1] == b"Z":
            return said


def _exactly(source: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        if not (part := source.recv(size - len(read))):
            raise OSError("closed")
        read += part
    return read
