"""What a stack consists of: Postgres and Valkey (ours or given), the migration, workers, beat, Flower
and the HTTP service.
"""

from __future__ import annotations

import http.client
import os
import re
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis
from rich.console import Console
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import OperationalError

from core.config import Config
from core.errors import OperatorError, StackFailed
from core.processes import Program
from edge.service.server import GRACE_SECONDS
from embedded.postgres import OLDEST_VERSION, PostgresServer, find_binaries, stack_password
from embedded.run_folder import RunFolder
from embedded.server import Server
from embedded.supervisor import Log, Part, Running, Service, Step, running
from embedded.valkey import ValkeyServer, find_binary
from ops.data_folder import kept_folder
from ops.discovery import StackUrls, announced
from ops.http_secrets import HTTP_SECRETS_FILE, HttpSecrets, secrets_of_http
from ops.logs import AlarmLog, FileLog

ROOT = Path(__file__).resolve().parent.parent
WORKER_ROLE = "stats_refresh_worker"
FLOWER_USER = "operator"
WORKERS: Mapping[str, int] = {
    "pipeline": 2,
    "compute": 2,
    # Pages of a backlog take turns, and leave the machine to the pipeline.
    "maintenance": 1,
}
"""The queue of each worker, and its number of processes."""
SERVICE_NAMES = ("postgres", "valkey", *WORKERS, "beat", "flower", "edge")

_TASK_TIMEOUT = 130
"""Seconds that a running task may take to finish at a stop: a little more than Celery's hard limit for it."""
_CONNECT_TIMEOUT = 5
_AMBIENT_PREFIXES = ("PG", "CELERY_", "REDBEAT_", "FLOWER_")


@dataclass(frozen=True)
class Stack:
    """A stack that is up."""

    urls: StackUrls
    flower_url: str
    flower_password: str
    http_url: str
    http_secrets: HttpSecrets
    data_dir: Path
    log_file: Path
    running: Running

    def wait(self) -> None:
        """Wait until a signal asks for the end, which raises StopRequested."""
        self.running.wait()


@contextmanager
def running_stack(
    config: Config,
    terminal: Log | None = None,
    *,
    flower_port: int | None = None,
    http_port: int | None = None,
    discoverable: bool = False,
) -> Iterator[Stack]:
    """Run a stack while the body runs. For the main thread.

    The processes write to a file, whose end is shown when something fails; what a person should see at once goes
    to `terminal`, too. Without `flower_port` and `http_port` free ones
    are taken. A `discoverable` stack is found by commands in
    other terminals.
    """
    check_servers(config)
    port = flower_port or _free_port()
    require_free_port(port)
    port_of_edge = http_port or _free_port()
    require_free_port(port_of_edge, "The HTTP service", "STATS_REFRESH_HTTP_PORT")
    with ExitStack() as resources:
        folder = resources.enter_context(RunFolder.create())
        data_dir = resources.enter_context(_data_folder(config.data_dir, folder))
        kept = data_dir if config.data_dir else folder.path
        log_file = kept / "stack.log"
        file = resources.enter_context(_log_shown_on_failure(log_file))
        http_secrets = secrets_of_http(config, kept / HTTP_SECRETS_FILE)
        plan = _Plan(config, folder, data_dir, port, port_of_edge, http_secrets)
        log = AlarmLog(file, terminal) if terminal else file
        supervisor = resources.enter_context(running(plan.parts(), log))
        if discoverable:
            resources.enter_context(announced(plan.urls, folder))
        flower_url = f"http://127.0.0.1:{port}"
        http_url = f"http://127.0.0.1:{port_of_edge}"
        yield Stack(
            plan.urls,
            flower_url,
            plan.flower_password,
            http_url,
            http_secrets,
            data_dir,
            log_file,
            supervisor,
        )


class _Plan:
    """The parts of one stack, in the order in which they start."""

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        data_dir: Path,
        flower_port: int,
        http_port: int,
        http_secrets: HttpSecrets,
    ) -> None:
        self.flower_password = config.flower_password or secrets.token_urlsafe(12)
        self._flower_port, self._http_port = flower_port, http_port
        self._http_host, self._http_secrets = config.http_host, http_secrets
        self._folder, self._data_dir = folder, data_dir
        self._postgres: PostgresServer | None = None
        self._valkey: ValkeyServer | None = None
        if config.database_url is None:
            self._postgres = PostgresServer(data_dir=data_dir / "postgres", run_folder=folder)
        if config.redis_url is None:
            self._valkey = ValkeyServer(data_dir=data_dir / "valkey", append_only=True, run_folder=folder)
        self.urls = StackUrls(
            database_url=config.database_url or self._embedded_postgres.url(user=WORKER_ROLE),
            admin_url=config.database_url or self._embedded_postgres.url(),
            redis_url=config.redis_url or self._embedded_valkey.redis_url,
        )

    @property
    def _embedded_postgres(self) -> PostgresServer:
        assert self._postgres is not None
        return self._postgres

    @property
    def _embedded_valkey(self) -> ValkeyServer:
        assert self._valkey is not None
        return self._valkey

    def parts(self) -> list[Part]:
        parts: list[Part] = [
            _server(server) for server in (self._postgres, self._valkey) if server is not None
        ]
        # A database that is given may refuse: before anything runs.
        parts.insert(len(parts) if self._postgres else 0, Step("migrating the database", self._migrate))
        return [
            *parts,
            # Together, because each takes seconds to load; a beat's early messages wait.
            (*(self._worker(queue) for queue in WORKERS), self._beat(), self._flower(), self._edge()),
        ]

    def _migrate(self) -> None:
        from ops.migrate import ensure_migrated, migrate

        if self._postgres is None:
            ensure_migrated(self.urls.database_url)
        else:
            migrate(self.urls.admin_url)
            create_worker_role(self.urls.admin_url)

    def _worker(self, queue: str) -> Service:
        options = worker_options(f"{queue}@%h", queue, WORKERS[queue])
        return self._celery(
            queue, *options, ready=re.compile(rf"{queue}@\S+ ready\."), stop_timeout=_TASK_TIMEOUT
        )

    def _beat(self) -> Service:
        return self._celery("beat", "beat", ready=re.compile(r"beat: Starting"))

    def _celery(self, name: str, *options: str, ready: re.Pattern[str], stop_timeout: float = 30) -> Service:
        # The level at which Celery says that it is ready.
        argv = celery_command(*options, "--loglevel=INFO")
        return Service(
            Program(
                name,
                lambda: argv,
                ready,
                environment=self._environment(),
                directory=ROOT,
                stop_timeout=stop_timeout,
            )
        )

    def _flower(self) -> Service:
        history = ("--persistent=True", f"--db={self._data_dir / 'flower'}", "--state_save_interval=60000")
        argv = celery_command("flower", f"--conf={ROOT / 'flower.conf'}", *history)
        return Service(
            Program(
                "flower",
                lambda: argv,
                partial(_answers, self._flower_port, "/healthcheck"),
                environment=self._environment(),
                directory=ROOT,
            )
        )

    def _edge(self) -> Service:
        argv = (sys.executable, "-m", "edge.service")
        return Service(
            Program(
                "edge",
                lambda: argv,
                partial(_answers, self._http_port, "/readyz"),
                environment={
                    **self._environment(),
                    "STATS_REFRESH_HTTP_HOST": self._http_host,
                    "STATS_REFRESH_HTTP_PORT": str(self._http_port),
                    **self._http_secrets.environment(),
                },
                directory=ROOT,
                stop_timeout=GRACE_SECONDS + 5,
            )
        )

    def _environment(self) -> Mapping[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(_AMBIENT_PREFIXES)
        }
        assert self.urls.redis_url is not None
        return inherited | {
            "STATS_REFRESH_DATABASE_URL": self.urls.database_url,
            "STATS_REFRESH_REDIS_URL": self.urls.redis_url,
            "STATS_REFRESH_FLOWER_PORT": str(self._flower_port),
            "STATS_REFRESH_FLOWER_PASSWORD": self.flower_password,
            "PYTHONUNBUFFERED": "1",
            # A killed worker leaves a folder of its pool behind; here it goes with the stack.
            "TMPDIR": str(self._folder.subfolder("tmp")),
        }


def celery_command(*options: str, app: str = "tasks.app") -> tuple[str, ...]:
    """Return the command line of one of Celery's programs."""
    return (sys.executable, "-m", "celery", "-A", app, *options)


def worker_options(name: str, queues: str, processes: int) -> tuple[str, ...]:
    """Return how Celery starts a worker of `queues`."""
    # Workers have nothing to tell each other: without the greeting each start and reconnect is a second shorter.
    alone = ("--without-mingle", "--without-gossip")
    return ("worker", "-n", name, "-Q", queues, "-c", str(processes), *alone)


def _server(server: Server) -> Service:
    return Service(
        server.program(),
        prepare=partial(_prepare, server),
        # Right after a crash, sessions of the killed server may still be ending.
        start_attempts=5,
    )


def _prepare(server: Server) -> None:
    try:
        server.prepare()
    except OSError as error:
        raise OperatorError(
            f"{server.name} can't use {error.filename} ({error.strerror}): correct that, or choose another "
            "STATS_REFRESH_DATA_DIR"
        ) from error


def create_worker_role(admin_url: str) -> None:
    """Create the login of workers and commands on an embedded server: the API's roles and nothing more."""
    engine = create_engine(admin_url, poolclass=NullPool)
    with engine.begin() as connection:
        exists = text("select exists (select from pg_catalog.pg_roles where rolname = :role)")
        if not connection.scalar(exists, {"role": WORKER_ROLE}):
            connection.execute(
                text(f"create role {WORKER_ROLE} login in role service_role, authenticated, anon")
            )
        # Kept data may have the login of an earlier release, which asked for no password.
        connection.execute(text(f"alter role {WORKER_ROLE} password '{stack_password(admin_url)}'"))


def check_servers(config: Config) -> None:
    """Raise OperatorError where a given server does not answer, or there is none to start; nothing has been started."""
    if config.database_url is not None:
        _check_database(config.database_url)
    else:
        find_binaries()
    if config.redis_url is not None:
        _check_redis(config.redis_url)
    else:
        find_binary()


def _check_database(url: str) -> None:
    engine = create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": _CONNECT_TIMEOUT})
    try:
        with engine.connect() as connection:
            version = int(connection.scalar(text("show server_version_num")) or 0) // 10_000
    except OperationalError as error:
        raise OperatorError(
            f"Postgres does not answer ({_first_line(error.orig)}): start it, correct "
            "STATS_REFRESH_DATABASE_URL, or unset it to use an embedded server"
        ) from error
    if version < OLDEST_VERSION:
        raise OperatorError(f"the database is PostgreSQL {version}; {OLDEST_VERSION} or later is needed")


def _check_redis(url: str) -> None:
    try:
        with redis.Redis.from_url(
            url, socket_connect_timeout=_CONNECT_TIMEOUT, socket_timeout=_CONNECT_TIMEOUT
        ) as client:
            client.ping()
    except redis.RedisError as error:
        raise OperatorError(
            f"Redis does not answer ({_first_line(error)}): start it, correct STATS_REFRESH_REDIS_URL, "
            "or unset it to use an embedded server"
        ) from error


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0]


def require_free_port(port: int, what: str = "Flower", variable: str = "STATS_REFRESH_FLOWER_PORT") -> None:
    """Raise OperatorError when `what` can't listen on `port`, which `variable` sets."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OperatorError(
                f"{what} can't listen on port {port} ({error.strerror}): set {variable} to another one"
            ) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int, path: str, _pid: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _data_folder(kept: Path | None, folder: RunFolder) -> AbstractContextManager[Path]:
    return kept_folder(kept) if kept else nullcontext(folder.subfolder("data", shared=True))


@contextmanager
def _log_shown_on_failure(path: Path) -> Iterator[FileLog]:
    try:
        log = FileLog(path)
    except OSError as error:
        raise OperatorError(
            f"{path} can't be written ({error.strerror}): remove it, or choose another STATS_REFRESH_DATA_DIR"
        ) from error
    try:
        yield log
    except Exception as error:
        # What is set wrong says so itself.
        if isinstance(error, StackFailed) or not isinstance(error, OperatorError):
            Console(stderr=True, markup=False, highlight=False).print(log.tail(), soft_wrap=True)
        raise
    finally:
        log.close()
