"""The `stats-refresh` command. Each subcommand imports what it needs itself, so `--help` always works."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

import redis
import typer
from rich.console import Console
from rich.text import Text
from sqlalchemy.exc import DBAPIError

from core.errors import OperatorError
from core.stages import STAGES
from ops.database_errors import operator_error

app = typer.Typer(
    name="stats-refresh",
    help="Keeps per-account workout statistics fresh.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

HistoryFormat = Annotated[
    str, typer.Option("--format", help="auto (by its columns), strong, hevy, fitnotes or fitbod.")
]


@app.command()
def up() -> None:
    """Run the whole stack in the foreground: servers, workers, beat and Flower."""
    from ops.up import up as run

    run()


@app.command()
def demo(
    file: Annotated[Path | None, typer.Option("--file", help="A history; without it a made-up one.")] = None,
    format: HistoryFormat = "auto",
    unit: Annotated[
        str | None, typer.Option("--unit", help="kg or lb; kg where neither this nor the file says it.")
    ] = None,
) -> None:
    """Import a history into a stack of its own, wait until it is published, show the result, stop."""
    from ops.demo import run

    run(file, format, unit)


@app.command()
def migrate(
    without_rows: Annotated[
        bool,
        typer.Option("--without-rows", help="Tables alone, for the rows of a pg_restore --data-only."),
    ] = False,
) -> None:
    """Bring the database to this release; after a restore, put owners and grants right."""
    from ops.discovery import connection_urls
    from ops.migrate import migrate as run
    from ops.migrate import migrate_without_rows

    url = connection_urls().admin_url
    if without_rows:
        migrate_without_rows(url)
        Console().print(
            "the tables are at this release, without rows: restore those, then run stats-refresh migrate",
            soft_wrap=True,
        )
    else:
        run(url)
        Console().print("the database is at this release")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="The exported file.")],
    user: Annotated[
        UUID | None, typer.Option("--user", help="The account that it belongs to; a catalog has none.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="auto (by its columns), strong, hevy, fitnotes, fitbod, csv, wodup, meets or catalog.",
        ),
    ] = "auto",
    unit: Annotated[str | None, typer.Option("--unit", help="kg or lb: the file's unit of weight.")] = None,
    timezone: Annotated[str, typer.Option("--timezone", help="Where the file's times were taken.")] = "UTC",
    lifter: Annotated[
        str | None, typer.Option("--lifter", help="Whose results, where meets has several.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="What a csv calls them: date=...,exercise=...,weight=...,reps=..."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="The app that a csv is from; csv without it.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Change no session that is there; report what differs.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; report what an import would do.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every line number and typo.")] = False,
) -> None:
    """Save a history, meet results or a list of exercises."""
    from ops.discovery import connection_urls
    from ops.importing import import_file

    url = connection_urls().database_url
    import_file(
        file, format, unit, user, timezone, url, lifter, columns, source,
        keep=keep, dry_run=dry_run, verbose=verbose,
    )  # fmt: skip


@app.command()
def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="All figures as one JSON object; with --watch one a line.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until Ctrl-C.")] = False,
) -> None:
    """Show how fresh the accounts are and what waits."""
    from ops.discovery import connection_urls
    from ops.status import show

    urls = connection_urls()
    show(urls.database_url, urls.redis_url, as_json, watch)


jobs = typer.Typer(help="The refresh jobs: what waits, runs or failed for good.", no_args_is_help=True)
app.add_typer(jobs, name="jobs")
settings = typer.Typer(help="Budgets, leases, retries and batches.", no_args_is_help=True)
app.add_typer(settings, name="settings")

schedule = typer.Typer(help="The beats: what runs how often.", no_args_is_help=True)
app.add_typer(schedule, name="schedule")

Entry = Annotated[
    str,
    typer.Argument(
        metavar="ENTRY",
        help="A name from `schedule list`, or short: its task (claim), or words that no other name has (rollover).",
    ),
]
Stage = Annotated[str, typer.Argument(help=f"{', '.join(STAGES)} or all.")]


@jobs.command("list")
def jobs_list(
    status: Annotated[
        Literal["pending", "processing", "failed"] | None, typer.Option("--status", help="Only these.")
    ] = None,
) -> None:
    """Show the jobs that are not done, the one that is due first in front."""
    from ops.discovery import connection_urls
    from ops.jobs import show

    show(connection_urls().database_url, status)


@jobs.command("resume")
def jobs_resume(job_id: Annotated[UUID, typer.Argument(help="A job that has failed for good.")]) -> None:
    """Give an exhausted job fresh attempts."""
    from ops.discovery import connection_urls
    from ops.jobs import resume

    resume(connection_urls().database_url, job_id)


@settings.command("show")
def settings_show() -> None:
    """Show every setting."""
    from ops.discovery import connection_urls
    from ops.settings import show

    show(connection_urls().database_url)


@settings.command("set")
def settings_set(
    assignments: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="All or none.")],
) -> None:
    """Change settings; every stage reads them at its next call."""
    from ops.discovery import connection_urls
    from ops.settings import change

    change(connection_urls().database_url, assignments)


@schedule.command("list")
def schedule_list() -> None:
    """Show every entry: cadence, last and next run, and beats that did no work."""
    from ops.discovery import connection_urls
    from ops.schedule import show

    show(connection_urls())


@schedule.command("set")
def schedule_set(
    entry: Entry,
    every: Annotated[str | None, typer.Option("--every", help="As in 5s, 2m or 1h.")] = None,
    cron: Annotated[str | None, typer.Option("--cron", help='As in "7-57/10 * * * *".')] = None,
) -> None:
    """Change how often an entry fires, and nothing else of it."""
    from ops.discovery import connection_urls
    from ops.schedule import change

    change(connection_urls(), entry, every, cron)


@schedule.command("pause")
def schedule_pause(entry: Entry) -> None:
    """Stop an entry's beats; woken runs go on (to stop the work itself: `pause STAGE`)."""
    from ops.discovery import connection_urls
    from ops.schedule import set_enabled

    set_enabled(connection_urls(), entry, False)


@schedule.command("resume")
def schedule_resume(entry: Entry) -> None:
    """Let a paused entry fire again."""
    from ops.discovery import connection_urls
    from ops.schedule import set_enabled

    set_enabled(connection_urls(), entry, True)


@schedule.command("install")
def schedule_install() -> None:
    """Put back entries that Redis lost; those that are there stay as they are."""
    from ops.discovery import connection_urls
    from ops.schedule import install

    install(connection_urls())


@app.command()
def history(
    entry: Annotated[
        str | None,
        typer.Option(
            "--entry", help="Only this entry's runs; named as in `schedule set`, or of an earlier release."
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only runs that failed.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many.")] = 20,
) -> None:
    """Show the newest runs that beats fired."""
    from ops.discovery import connection_urls
    from ops.history import show

    show(connection_urls().database_url, entry, failed, limit)


@app.command()
def pause(stage: Stage) -> None:
    """Let a stage answer `paused`, whoever calls it."""
    from ops.discovery import connection_urls
    from ops.pause import set_paused

    set_paused(connection_urls().database_url, stage, True)


@app.command()
def resume(stage: Stage) -> None:
    """Let a paused stage work again."""
    from ops.discovery import connection_urls
    from ops.pause import set_paused

    set_paused(connection_urls().database_url, stage, False)


@app.command()
def verify(
    user: Annotated[UUID | None, typer.Option("--user", help="This account alone.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="So many accounts by chance.")] = None,
) -> None:
    """Compare what is published with a rebuild from the source rows; nothing is repaired.

    Accounts that wait for a run are left out: they are counted, with the reason.

    Exit code 0: no account that was compared differs. 1: one does, or the command failed. 2: none could be compared,
    or an option is wrong.
    """
    from ops.discovery import connection_urls
    from ops.verify import verify as run

    if not run(connection_urls().database_url, user, sample):
        raise typer.Exit(1)


def main() -> None:
    """Run the command; turn what a person can act on into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name in another script must not end a command in a terminal that knows ASCII alone.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except OperatorError as error:
        _fail(str(error), error.exit_code)
    except DBAPIError as error:
        problem = operator_error(error)
        if problem is None:
            raise
        _fail(str(problem))
    except (redis.AuthenticationError, redis.ResponseError) as error:
        _fail(
            f"Redis refuses ({_first_line(error)}): correct STATS_REFRESH_REDIS_URL, or what it may do there"
        )
    except (redis.ConnectionError, redis.TimeoutError) as error:
        _fail(f"Redis does not answer ({_first_line(error)}): start it or correct STATS_REFRESH_REDIS_URL")


def _fail(message: str, exit_code: int = 1) -> None:
    Console(stderr=True).print(Text(f"stats-refresh: {message}", style="red"), soft_wrap=True)
    sys.exit(exit_code)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


if __name__ == "__main__":
    main()
