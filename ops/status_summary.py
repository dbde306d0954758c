"""The worker status for a person: first what needs somebody, then a line a subject; zeros that say nothing collapse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from ops.durations import duration
from ops.printing import Column, Table

Status = dict[str, Any]
_WRONG = "red"
_UNUSUAL = "yellow"


def status_table(status: Status) -> Table:
    """Return what `stats_projection_worker_status_v1` says as a table; its settings row has a command of its own."""
    rows = [
        *_alerts(status),
        ("accounts", _accounts(status["accounts"])),
        ("jobs", _jobs(status["jobs"])),
        ("leases", _leases(status["leases"])),
        *_last_hour(status["last_hour"]),
        ("rollover", _rollover(status["rollover"])),
        *_maintenance(status["maintenance"]),
        *_catalog_walks(status["catalog_walks"]),
        ("paused stages", _paused(status["paused_stages"])),
        *_dropped(status.get("dropped_messages")),
    ]
    return Table(
        (Column(""), Column("", prose=24)),
        [(Text(name, value.style), value) for name, value in rows],
    )


def _alerts(status: Status) -> Iterator[tuple[str, Text]]:
    for alert in status["alerts"]:
        yield f"alert: {alert['subject']}", Text(f"{alert['text']}. {alert['action']}", _WRONG)
    if not status["messages_are_english"]:
        problem = "errors are not English: workers refuse to start"
        remedy = "Run ALTER DATABASE ... SET lc_messages = 'C' and start them again"
        yield "alert: language", Text(f"{problem}. {remedy}", _WRONG)
    if not status["alerts"] and status["messages_are_english"]:
        yield "alerts", Text("none")


def _accounts(accounts: Status) -> Text:
    stale, to_come = accounts["stale"], accounts["requested"] - accounts["applied"]
    parts = [
        f"{accounts['all']}, {f'{stale} stale' if stale else 'all fresh'}" if accounts["all"] else "none"
    ]
    if accounts["oldest_staleness_seconds"] is not None:
        parts.append(f"the oldest open job is {duration(accounts['oldest_staleness_seconds'])} old")
    if to_come:
        parts.append(f"{accounts['applied']} of {accounts['requested']} generations applied")
    return Text(", ".join(parts))


def _jobs(jobs: Status) -> Text:
    parts = []
    if jobs["pending"]:
        by_priority = (
            f"priority {priority}: {group['jobs']} of {group['users']}"
            for priority, group in sorted(jobs["pending_by_priority"].items())
            if group["jobs"]
        )
        parts.append(
            f"{jobs['pending']} pending of {_counted_noun(jobs['pending_users'], 'account')} ({', '.join(by_priority)})"
            f" for up to {duration(jobs['oldest_wait_seconds'])}"
        )
    parts += _counted(jobs, "backing_off", "processing")
    if jobs["exhausted"]:
        parts.append(f"{jobs['exhausted']} exhausted")
    return Text(", ".join(parts) or "none open", _WRONG if jobs["exhausted"] else "")


def _leases(leases: Status) -> Text:
    parts = _counted(leases, "active", "expired", "backing_off")
    if leases["busy"]:
        parts.append(
            f"{leases['busy']} held up by others for up to {duration(leases['longest_busy_seconds'])}"
        )
    return Text(", ".join(parts) or "none", _UNUSUAL if leases["expired"] or leases["busy"] else "")


def _last_hour(hour: Status) -> Iterator[tuple[str, Text]]:
    parts = _counted(hour, "completed", "failed", "invalidated", "rejected")
    yield "last hour", Text(", ".join(parts) or "no run ended", _UNUSUAL if hour["failed"] else "")
    for stage in ("compute", "publish"):
        ms = hour[f"{stage}_ms"]
        if ms["count"]:
            figures = f"p50 {ms['p50']:.1f} ms, p95 {ms['p95']:.1f} ms, max {ms['max']:.1f} ms"
            yield f"  {stage}", Text(f"{figures} ({_counted_noun(ms['count'], 'run')})")


def _rollover(rollover: Status) -> Text:
    if not rollover["due"]:
        return Text("nothing due")
    parts = [f"{rollover['due']} due"]
    if rollover["oldest_due_seconds"] is not None:
        parts[0] += f" for up to {duration(rollover['oldest_due_seconds'])}"
    if rollover["ahead"]:
        parts.append(f"{rollover['ahead']} published for days to come")
    parts += _counted(rollover, "failing")
    return Text(", ".join(parts), _UNUSUAL if rollover["failing"] or rollover["ahead"] else "")


def _maintenance(jobs: Status) -> Iterator[tuple[str, Text]]:
    """Yield when each job last succeeded, and what there is to know of one that fails."""
    succeeded = (f"{job} {_last_success(state)}" for job, state in sorted(jobs.items()))
    yield "maintenance", Text(", ".join(succeeded))
    for job, state in sorted(jobs.items()):
        if state["attempt_count"]:
            parts = [f"{state['attempt_count']} failed in a row, the last with {state['last_error']}"]
            # Not next_retry_at: the schedule decides when the job is tried again, and may say something else.
            if state["cursor"] is not None:
                parts.append(f"at cursor {state['cursor']}")
            yield f"  {job}", Text("; ".join(parts), _WRONG)


def _last_success(job: Status) -> str:
    if job["last_success_seconds"] is not None:
        return f"{duration(job['last_success_seconds'])} ago"
    return "never" if job["last_success_at"] is None else "dated ahead of the clock"


def _catalog_walks(walks: int) -> Iterator[tuple[str, Text]]:
    if walks:
        yield "catalog walks", Text(f"{walks} under way")


def _paused(stages: list[str]) -> Text:
    return Text(", ".join(stages) or "none", _UNUSUAL if stages else "")


def _dropped(messages: dict[str, int] | None) -> Iterator[tuple[str, Text]]:
    """Yield how many messages the workers dropped: somebody else writes to our Redis."""
    if messages:
        counts = ", ".join(f"{queue} {number}" for queue, number in sorted(messages.items()))
        yield "dropped", Text(f"messages that are not ours: {counts}", _UNUSUAL)


def _counted(group: Status, *names: str) -> list[str]:
    """Return the figures that are not zero, each with its name."""
    return [f"{group[name]} {name.replace('_', ' ')}" for name in names if group[name]]


def _counted_noun(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
