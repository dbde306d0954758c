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
    kept = config().data_dir is not None
    data = (
        f"Data stays in {stack.data_dir}"
        if kept
        else "Data goes when this stops; set STATS_REFRESH_DATA_DIR to keep it"
    )
    return [
        "",
        f"Flower   {stack.flower_url}   user {FLOWER_USER}   password {stack.flower_password}",
        "Commands in another terminal find this stack by themselves. For other programs:",
        f"  export STATS_REFRESH_DATABASE_URL={shlex.quote(stack.urls.database_url)}",
        f"  export STATS_REFRESH_REDIS_URL={shlex.quote(stack.urls.redis_url or '')}",
        f"{data}. Ctrl-C stops, twice kills.",
        "",
    ]
