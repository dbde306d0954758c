"""`stats-refresh up`: the whole stack in the foreground, until Ctrl-C."""

from __future__ import annotations

import shlex

from rich.console import Console

from ops.logs import ConsoleLog
from ops.stack import FLOWER_USER, SERVICE_NAMES, Stack, running_stack
from ops.supervisor import StopRequested
from tasks.config import config


def up() -> None:
    """Run the stack until Ctrl-C or SIGTERM; a second one kills what still runs."""
    console = Console(markup=False, highlight=False)
    log = ConsoleLog(console, SERVICE_NAMES)
    try:
        with running_stack(config(), log, flower_port=config().flower_port, discoverable=True) as stack:
            for line in _announcement(stack):
                console.print(line, soft_wrap=True)
            stack.wait()
    except StopRequested:
        console.print("stopped")


def _announcement(stack: Stack) -> list[str]:
    return [
        "",
        f"Flower   {stack.flower_url}   user {FLOWER_USER}   password {stack.flower_password}",
        *_how_to_connect(stack),
        *_what_becomes_of_the_data(stack),
        "Ctrl-C stops, twice kills.",
        "",
    ]


def _how_to_connect(stack: Stack) -> list[str]:
    ours = {
        "STATS_REFRESH_DATABASE_URL": None if config().database_url else stack.urls.database_url,
        "STATS_REFRESH_REDIS_URL": None if config().redis_url else stack.urls.redis_url,
    }
    return [
        "Commands in another terminal find this stack by themselves."
        + (" For other programs:" if any(ours.values()) else ""),
        *(f"  export {name}={shlex.quote(url)}" for name, url in ours.items() if url),
    ]


def _what_becomes_of_the_data(stack: Stack) -> list[str]:
    if config().database_url and config().redis_url:
        return []
    if config().data_dir:
        return [f"Data stays in {stack.data_dir}."]
    return ["Data goes when this stops; set STATS_REFRESH_DATA_DIR to keep it."]
