"""A minute of a storm with a fixed seed; `make faults` goes on for longer, and with any."""

from __future__ import annotations

from faults import report, storm

SEED = 20261202


def test_a_minute_of_faults_leaves_nothing_stuck_wrong_or_lost():
    done = storm.run(SEED, seconds=45, round_seconds=45)

    said = "\n".join(report.lines(done))
    assert done.findings == [], said
    [only] = done.rounds
    assert sum(fault.in_flight for fault in only.injected) >= 10, said
    assert sum(only.writes.values()) >= 50, said
    assert only.compared > 0, said
