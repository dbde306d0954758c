"""uvicorn, with a time for a request's head and for a client that reads nothing, and an orderly stop."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from core.config import Config

HEAD_SECONDS = 10.0
READ_SECONDS = 30.0
GRACE_SECONDS = 75
"""Longer than a compute may take: what runs at a stop is finished."""
READY = "Uvicorn running on"


class BoundedProtocol(H11Protocol):
    """Ends connections that send no whole head in time, or read nothing of their answer."""

    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            # The keep-alive timer ended with the first byte.
            self._expect_head()
        else:
            self._end_head_timer()

    def on_response_complete(self) -> None:
        self._end_head_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_read_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head_timer()
        self._end_read_timer()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None


class Server(uvicorn.Server):
    """Tells the application of a stop at once: requests that wait for a publication answer then."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        stop = getattr(self.config.app, "stop_waiting", None)
        if stop is not None:
            stop()


def serve(app: ASGIApp, config: Config) -> None:
    """Serve `app` until a signal ends it."""
    # A waiting request is an open file.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 16384 if hard == resource.RLIM_INFINITY else min(hard, 16384)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    settings = uvicorn.Config(
        app,
        host=config.http_host,
        port=config.http_port,
        http=BoundedProtocol,
        ws="none",
        access_log=False,
        # Behind a proxy the client's address is not ours to believe; only /metrics asks for it.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        limit_concurrency=8000,
        log_config=None,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises the signal again when it has stopped: to have been told to is no failure.
        signal.signal(number, lambda *_: sys.exit(0))
    Server(settings).run()
