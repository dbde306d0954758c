"""pytest-celery's nodes over local processes: its fixtures and classes work where no Docker engine answers.

pytest-celery talks to docker's Container object alone. A Process here answers what it asks of one.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from celery import Celery
from pytest_celery import CeleryTestSetup, CeleryTestWorker, CeleryWorkerContainer, RedisContainer
from redis import Redis
from support.rig import CeleryProcess

from embedded.valkey import ValkeyServer
from tasks.app import app as product

DEADLINE = 30


class Process(ABC):
    """The part of docker's Container that pytest-celery uses; it has no network and no ports."""

    attrs: dict[str, Any]

    def __init__(self, name: str) -> None:
        self.id = self.name = name
        self.attrs = {
            "Config": {"Hostname": name, "Env": []},
            "NetworkSettings": {"Networks": {}, "Ports": {}},
        }

    @property
    @abstractmethod
    def status(self) -> str:
        """``running`` or ``exited``."""

    @abstractmethod
    def logs(self) -> bytes: ...

    @abstractmethod
    def kill(self, signal: str | int | None = None) -> None:
        """Send `signal` (default: SIGKILL); the kill of a container takes all its processes."""

    @abstractmethod
    def restart(self, timeout: int = DEADLINE) -> None:
        """Stop it cleanly, where it runs, and start it again; returns when it is ready."""

    def reload(self) -> None:
        """Do nothing: what is asked above is never cached."""
        return


class WorkerProcess(Process):
    """A Celery worker and its pool children; `start` starts them and returns when they consume."""

    def __init__(self, name: str, start: Callable[[], CeleryProcess]) -> None:
        super().__init__(name)
        self._start = start
        self.celery = start()

    @property
    def status(self) -> str:
        return "running" if self.celery.is_running() else "exited"

    def logs(self) -> bytes:
        return "\n".join(list(self.celery.lines)).encode()

    def kill(self, signal: str | int | None = None) -> None:
        number = _number(signal)
        if number == _number(None):
            self.celery.kill()
        else:
            self.celery.send_signal(number)

    def restart(self, timeout: int = DEADLINE) -> None:
        if self.celery.is_running():
            self.celery.stop()
        self.celery = self._start()


class ValkeyProcess(Process):
    """An embedded Valkey that runs already."""

    def __init__(self, server: ValkeyServer) -> None:
        super().__init__(server.name)
        self.server = server

    @property
    def status(self) -> str:
        return "running" if self.server.process and self.server.process.is_running() else "exited"

    def logs(self) -> bytes:
        return self.server.log_file.read_bytes()

    def kill(self, signal: str | int | None = None) -> None:
        assert self.server.process is not None
        self.server.process.send_signal(_number(signal))
        self.server.process.wait(DEADLINE)

    def restart(self, timeout: int = DEADLINE) -> None:
        self.server.stop()
        self.server.start()


def _number(name: str | int | None) -> int:
    return name if isinstance(name, int) else signal.Signals[name or "SIGKILL"]


class ProcessWorkerContainer(CeleryWorkerContainer):
    """A worker that is a process."""

    _container: WorkerProcess


class ValkeyContainer(RedisContainer):
    """A Valkey that is a process and listens on a socket in a folder."""

    _container: ValkeyProcess

    @property
    def url(self) -> str:
        return self._container.server.broker_url

    host_url = url

    @property
    def port(self) -> int:
        return 0  # none: it listens on its socket alone

    @property
    def client(self) -> Redis:
        return Redis.from_url(self._container.server.redis_url, decode_responses=True)


class WorkerNode(CeleryTestWorker):
    """A worker under the name that Celery knows it by."""

    def hostname(self) -> str:
        return self.container.name

    def is_running(self) -> bool:
        return self.container.status == "running"

    def active(self, task: str) -> list[dict[str, Any]]:
        """Return what the worker says of the `task`s that its pool children are at; `worker_pid` is the child."""
        return [one for one in self._inspect("active") if one["name"] == task]

    def scheduled(self, task: str) -> list[dict[str, Any]]:
        """Return the `task`s that the worker holds unacked until their time has come."""
        return [one for one in self._inspect("scheduled") if one["request"]["name"] == task]

    def _inspect(self, what: str) -> list[dict[str, Any]]:
        # limit: it returns with the answer, not at the end of the timeout.
        answers = self.app.control.inspect([self.hostname()], timeout=DEADLINE, limit=1)._request(what)
        return (answers or {}).get(self.hostname(), [])


class Setup(CeleryTestSetup):
    """Its app sends messages where the product's does."""

    @classmethod
    def update_app_config(cls, app: Celery) -> None:
        app.conf.task_routes = product.conf.task_routes
        app.conf.task_default_queue = product.conf.task_default_queue
        app.conf.broker_transport_options = product.conf.broker_transport_options
