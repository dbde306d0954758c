"""Another app's export in, its report out."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse, Response

from core.errors import OperatorError
from edge.service.problems import Problem, of_database, unavailable
from edge.service.shapes import PROBLEMS, FileImported
from edge.service.state import Here, SignedIn
from importers import formats
from importers.generic_csv import HOW_TO_NAME_COLUMNS
from importers.report import ranges
from importers.saving import ImportReport, import_history, time_zone

router = APIRouter(prefix="/v1", tags=["imports"])
_MOST_LISTED = 200
_FILE = {"schema": {"type": "string", "format": "binary"}}


@router.post(
    "/imports",
    summary="Import an export of another app",
    responses={
        200: {"model": FileImported, "description": "What became of every row."},
        **PROBLEMS(401, 403, 408, 409, 413, 422, 503),
    },
    openapi_extra={
        "requestBody": {"required": True, "content": {"text/csv": _FILE, "application/octet-stream": _FILE}}
    },
)  # fmt: skip
async def import_file(
    request: Request,
    parts: Here,
    caller: SignedIn,
    format: Annotated[
        Literal["auto", "strong", "hevy", "fitnotes", "fitbod"], Query(description="auto: by its columns.")
    ] = "auto",
    unit: Annotated[
        Literal["kg", "lb"] | None, Query(description="Of weights, where the file does not say.")
    ] = None,
    timezone: Annotated[str, Query(max_length=100, description="Where its times were taken.")] = "UTC",
    keep: Annotated[bool, Query(description="Change no session that is there.")] = False,
    dry_run: Annotated[bool, Query(description="Write nothing; report what an import would do.")] = False,
) -> Response:
    """The body is the file itself, up to 64 MB. `sets_taken` + `rows_skipped` = `data_rows`, so no row is lost.
    Importing a file twice changes nothing, and an interrupted import is continued by sending it again. Imports of one
    account come one after the other: while one is under way another is answered with 503."""
    user = caller.account
    try:
        time_zone(timezone)
    except OperatorError as error:
        raise Problem(422, _in_parameters(str(error))) from error
    if parts.uploads.locked():
        raise unavailable("Too many files at once.", seconds=5)
    async with parts.uploads:
        with tempfile.TemporaryDirectory(prefix="stats-refresh-import-") as folder:
            file = Path(folder) / "upload"
            with file.open("wb") as out:
                async for chunk in request.stream():
                    out.write(chunk)

            def work() -> dict[str, Any]:
                try:
                    provider, history = formats.read_with_source(file, format, unit)
                    report = import_history(
                        parts.work.engine, user, provider, history,
                        timezone=timezone, keep=keep, dry_run=dry_run, waiting=_refuse_to_wait,
                    )  # fmt: skip
                except OperatorError as error:
                    raise _told(error, file) from error
                return _shown(provider, report)

            return JSONResponse(await parts.work.run(work))


def _refuse_to_wait() -> None:
    """Leave the thread to others while another import of the account is under way, which may take minutes."""
    raise unavailable("Another import of this account is under way.", seconds=5)


def _told(error: OperatorError, file: Path) -> Problem:
    """Return what stopped the import as the caller of a route reads it: no path, and parameters instead of options."""
    if isinstance(error.__cause__, SQLAlchemyError):
        return of_database(error.__cause__)
    detail = _in_parameters(str(error).replace(f"{file}: ", "").replace(str(file), "the file"))
    if isinstance(error.__cause__, OSError | sqlite3.Error):
        return unavailable(detail, seconds=60)
    return Problem(422, detail)


def _in_parameters(text: str) -> str:
    # A file of columns that somebody names is for the command line.
    text = re.sub(rf"(: for another app| and) pass {re.escape(HOW_TO_NAME_COLUMNS)}", "", text)
    return re.sub(r"--(format|unit|timezone|keep)\b", r"\1", text)


def _shown(provider: str, report: ImportReport) -> dict[str, Any]:
    return {
        "format": provider,
        "dry_run": report.is_dry_run,
        "data_rows": report.data_rows,
        "sets_taken": report.sets_taken,
        "rows_skipped": len(report.skipped),
        "sessions_saved": report.sessions_saved,
        "sessions_updated": report.sessions_updated,
        "sessions_already_there": report.sessions_already_there,
        "sessions_differing": report.sessions_differing,
        "sessions_refused": report.sessions_refused,
        "skipped": list(_skipped(report)),
        "remarks": [
            {"line": remark.line, "text": remark.text} for remark in islice(report.remarks, _MOST_LISTED)
        ],
        "typos": [{"line": typo.line, "text": typo.text} for typo in islice(report.typos, _MOST_LISTED)],
        "statsRequestedVersion": report.stats_requested_version,
    }


def _skipped(report: ImportReport) -> Iterator[dict[str, Any]]:
    for reason, count, lines in report.skipped.by_reason():
        shown = islice(ranges(lines), _MOST_LISTED)
        yield {"reason": reason, "rows": count, "lines": [list(one) for one in shown]}
