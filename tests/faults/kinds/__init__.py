"""Every kind of fault: one file a subject, each with its list KINDS."""

from __future__ import annotations

from collections.abc import Sequence

from faults.kinds import connections, locks, messages, processes, servers, surroundings
from faults.plan import Kind

ALL: Sequence[Kind] = (
    *processes.KINDS,
    *servers.KINDS,
    *surroundings.KINDS,
    *connections.KINDS,
    *locks.KINDS,
    *messages.KINDS,
)


def possible(only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[list[Kind], dict[str, str]]:
    """Return the kinds that can be done on this machine, and those that are left out with the reason.

    `only` names the kinds that are wanted; none named means all. Raises ValueError for an unknown kind.
    """
    names = {kind.name for kind in ALL}
    if unknown := sorted({*only, *without} - names):
        raise ValueError(f"no such kind: {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    reasons = {kind.name: kind.missing() for kind in ALL}
    left_out = {name: reason for name, reason in reasons.items() if reason is not None}
    left_out |= dict.fromkeys(without, "asked to leave it out")
    wanted = [kind for kind in ALL if not only or kind.name in only]
    return [kind for kind in wanted if kind.name not in left_out], left_out
