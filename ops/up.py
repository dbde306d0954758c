"""`stats-refresh up`: the whole stack in the foreground, until Ctrl-C."""

from __future__ import annotations

import shlex
from urllib.parse import unquote, urlsplit

from rich.console import Console

from core.config import config, libpq_url
from embedded.supervisor import StopRequested
from ops.logs import ConsoleLog
from ops.stack import FLOWER_USER, SERVICE_NAMES, Stack, running_stack


def up() -> None:
    """Run the stack until Ctrl-C or SIGTERM; a second one kills what still runs."""
    console = Console(markup=False, highlight=False)
    terminal = ConsoleLog(console, SERVICE_NAMES)
    try:
        with running_stack(
            config(),
            terminal,
            flower_port=config().flower_port,
            http_port=config().http_port,
            discoverable=True,
        ) as stack:
            for line in _announcement(stack):
                console.print(line, soft_wrap=True)
            stack.wait()
    except StopRequested:
        console.print("stopped")


def _announcement(stack: Stack) -> list[str]:
    return [
        "",
        f"Flower   {stack.flower_url}   user {FLOWER_USER}   password {stack.flower_password}",
        f"HTTP     {stack.http_url}   its secrets: {stack.http_secrets.file}   {stack.http_url}/openapi.json",
        f"Logs     {stack.log_file}   (here: warnings and errors alone)",
        *_how_to_connect(stack),
        *_what_becomes_of_the_data(stack),
        "Ctrl-C stops, twice kills.",
        "",
    ]


def _how_to_connect(stack: Stack) -> list[str]:
    lines = ["Commands in another terminal find this stack by themselves."]
    if config().database_url is None:
        url = shlex.quote(libpq_url(stack.urls.database_url))
        lines += [f"  export STATS_REFRESH_DATABASE_URL={url}", '  psql "$STATS_REFRESH_DATABASE_URL"']
    if config().redis_url is None:
        assert stack.urls.redis_url is not None
        # redis-cli takes no URL of a socket.
        socket = shlex.quote(unquote(urlsplit(stack.urls.redis_url).path))
        lines += [
            f"  export STATS_REFRESH_REDIS_URL={shlex.quote(stack.urls.redis_url)}",
            f"  redis-cli -s {socket}",
        ]
    if len(lines) > 1:
        lines[0] += " For other programs:"
    return lines


def _what_becomes_of_the_data(stack: Stack) -> list[str]:
    if config().data_dir:
        return [f"Data stays in {stack.data_dir}."]
    if config().database_url and config().redis_url:
        return []
    return ["Data goes when this stops, the logs too; set STATS_REFRESH_DATA_DIR to keep them."]
