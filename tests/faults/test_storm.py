"""A minute of a storm with a fixed seed; `make faults` goes on for longer, and with any."""

from __future__ import annotations

from faults import report, storm

SEED = 20261202
WITHOUT = ("clock stepped",)
"""The storm slows stages by pg_sleep, which waits by the stepped clock: a step back holds a stage or a save for as long
as the step was. `make faults` has the kind; what a wrong clock leaves is tested in tests/maintenance."""


def test_a_minute_of_faults_leaves_nothing_stuck_wrong_or_lost():
    done = storm.run(SEED, seconds=45, without=WITHOUT, round_seconds=45)

    said = "\n".join(report.lines(done))
    assert done.findings == [], said
    [only] = done.rounds
    assert sum(fault.in_flight for fault in only.injected) >= 10, said
    assert sum(only.writes.values()) >= 50, said
    assert only.compared > 0, said
