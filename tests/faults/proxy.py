"""A socket in front of Postgres that knows who is behind each connection, and can fall silent on one.

A silent connection stays open on both sides and passes nothing on: a network that lost it without a word.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LONGEST_GREETING = 1 << 14
_PEER = struct.Struct("3i")


@dataclass(eq=False)
class Passage:
    """One connection: the process that opened it, the backend that serves it, and whether it is heard."""

    client: int
    writers: tuple[asyncio.StreamWriter, ...]
    passes: asyncio.Event = field(default_factory=asyncio.Event)
    backend: int | None = None
    greeting: bytes = b""

    def hear(self, said: bytes) -> None:
        """Look for the backend's process id in what the server says first."""
        if self.backend is None and len(self.greeting) < _LONGEST_GREETING:
            self.greeting += said
            self.backend = backend_of(self.greeting)


class Proxy:
    """Passes everything on from its own folder's socket to the server's. Runs in a thread of its own."""

    def __init__(self, server: Path, own: Path) -> None:
        self._server, self._own = server, own
        self._loop = asyncio.new_event_loop()
        self._passages: set[Passage] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._ask(asyncio.start_unix_server(self._accept, self._own, backlog=200))
        return self

    def __exit__(self, *_: object) -> None:
        self._ask(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def client_of(self, backend: int) -> int | None:
        """Return the process at the other end of the backend's connection."""
        return next((one.client for one in list(self._passages) if one.backend == backend), None)

    def backends_of(self, client: int) -> list[int]:
        """Return the backends that serve the process."""
        return [one.backend for one in list(self._passages) if one.client == client and one.backend]

    def silence(self, backend: int) -> bool:
        """Pass nothing more on for this backend; False where its connection has gone meanwhile."""
        found = [one for one in list(self._passages) if one.backend == backend]
        for one in found:
            self._loop.call_soon_threadsafe(one.passes.clear)
        return bool(found)

    def end_silence(self, backend: int | None = None) -> None:
        """Close the silent connections (of one backend), as the far end of a lost one does in the end."""
        silent = [one for one in list(self._passages) if not one.passes.is_set()]
        self._ask(self._close([one for one in silent if backend in (None, one.backend)]))

    def _ask(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(30)

    async def _end(self) -> None:
        await self._close(list(self._passages))
        # Each has nothing more to read.
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=5)

    async def _close(self, passages: list[Passage]) -> None:
        for one in passages:
            one.passes.set()
            for writer in one.writers:
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._server)
        except OSError:
            writer.transport.abort()
            return
        peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        passage = Passage(_PEER.unpack(peer)[0], (writer, far_writer))
        passage.passes.set()
        self._passages.add(passage)
        there, back = self._pass(passage, reader, far_writer), self._pass(passage, far_reader, writer, True)
        await asyncio.gather(there, back)
        self._passages.discard(passage)

    async def _pass(
        self,
        passage: Passage,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        is_the_servers: bool = False,
    ) -> None:
        with suppress(OSError):
            while said := await reader.read(1 << 16):
                if is_the_servers:
                    passage.hear(said)
                await passage.passes.wait()
                writer.write(said)
                await writer.drain()
        await passage.passes.wait()
        writer.close()


def backend_of(greeting: bytes) -> int | None:
    """Return the process id in the server's BackendKeyData message; None where it has not come yet."""
    at = 0
    while at + 9 <= len(greeting):
        kind, length = greeting[at : at + 1], int.from_bytes(greeting[at + 1 : at + 5])
        if kind == b"K":
            return int.from_bytes(greeting[at + 5 : at + 9])
        at += 1 + length
    return None
