"""What a storm prints: a table by kind, totals, and for a failure what it takes to look into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from faults.invariants import shortened
from faults.kinds import ALL
from faults.stack import GRACE_SECONDS
from faults.storm import Round, Storm


def lines(storm: Storm) -> Iterator[str]:
    """Yield the report."""
    yield from _table(storm)
    yield ""
    yield from _totals(storm)
    for kind, reason in storm.left_out.items():
        yield f"left out: {kind}: {reason}"
    for one in storm.rounds:
        if one.findings:
            yield from _failure(storm, one)
    if not storm.findings:
        yield "nothing found"


def _table(storm: Storm) -> Iterator[str]:
    injected = Counter(fault.kind for one in storm.rounds for fault in one.injected)
    in_flight = Counter(fault.kind for one in storm.rounds for fault in one.injected if fault.in_flight)
    yield f"{'kind':<32}{'injected':>9}{'in flight':>11}{'longest recovery':>18}"
    for kind in ALL:
        if kind.name in storm.left_out:
            continue
        times = [one.recovered_within[kind.name] for one in storm.rounds if kind.name in one.recovered_within]
        longest = f"{max(times):.1f} s" if times else "-"
        yield f"{kind.name:<32}{injected[kind.name]:>9}{in_flight[kind.name]:>11}{longest:>18}"
    yield f"{'all':<32}{injected.total():>9}{in_flight.total():>11}"


def _totals(storm: Storm) -> Iterator[str]:
    writes: Counter[str] = sum((one.writes for one in storm.rounds), Counter())
    repeated: Counter[str] = sum((one.repeated for one in storm.rounds), Counter())
    failed: Counter[str] = sum((one.failed for one in storm.rounds), Counter())
    slowest = max((one.settled_within for one in storm.rounds), default=0.0)
    yield f"seed {storm.seed}, {len(storm.rounds)} rounds; after the faults settled within {slowest:.1f} s"
    yield f"writes answered: {_counted(writes)}; repeated by the clients after: {_counted(repeated)}"
    yield f"failed attempts by what was last: {_counted(failed)}"
    yield (
        f"answers noted: {sum(one.reads for one in storm.rounds)}, of which held against the reckoning:"
        f" {sum(one.compared for one in storm.rounds)}"
    )
    killed = [one for played in storm.rounds for one in played.killed]
    yield f"processes that did not end when asked to, and were killed after {GRACE_SECONDS} s: {len(killed)}"
    yield from killed


def _failure(storm: Storm, one: Round) -> Iterator[str]:
    yield ""
    yield f"round {one.number + 1}: {len(one.findings)} findings"
    yield from (f"  {finding}" for finding in shortened(one.findings))
    yield from (f"  {line}" for line in one.evidence)
    yield "timeline, in seconds of the round:"
    yield from (f"  {at:7.2f}  {text}" for at, text in one.timeline)
    yield f"again: make faults SEED={storm.seed}   (the same faults in the same order; their moments are chance)"


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none"
