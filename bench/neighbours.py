"""What other accounts in the database cost: one edited session of the incident account beside 1,000 accounts and
beside many more, in turns on two servers.

`python -m bench neighbours [ACCOUNTS]`; 20,000 unless told. The design's 100,000 take several minutes to make.
"""

from __future__ import annotations

import statistics
import sys
import uuid
from collections.abc import Sequence
from uuid import UUID

from bench.accounts import INCIDENT, make_account, make_neighbours
from bench.pipeline import Pipeline, pipeline
from bench.report import Measured, print_report

FEW, MANY = 1_000, 20_000
ROUNDS = 25


def run(arguments: Sequence[str]) -> list[Measured]:
    """Measure beside `FEW` accounts and beside as many as the first of `arguments` says, in turns."""
    many = int(arguments[0]) if arguments else MANY
    few = min(FEW, many // 2)
    with pipeline() as small, pipeline() as large:
        sides = [(bench, _settle(bench, accounts), []) for bench, accounts in ((small, few), (large, many))]
        for turn in range(ROUNDS):
            for bench, user_id, times in sides:
                bench.edit_newest_session(user_id, reps=1 + turn)
                times.append(bench.run())
    beside_few, beside_many = (statistics.median(times) for _, _, times in sides)
    return [
        Measured(f"one edited session beside {few:,} accounts", beside_few, "ms"),
        Measured(f"one edited session beside {many:,} accounts", beside_many, "ms"),
        Measured(f"beside {many:,} accounts against {few:,}", beside_many / beside_few, "x", bar=1.3),
    ]


def _settle(bench: Pipeline, accounts: int) -> UUID:
    """Make and publish the incident account among `accounts` others."""
    user_id = uuid.uuid4()
    with bench.admin.begin() as connection:
        make_account(connection, user_id, INCIDENT)
    with bench.admin.begin() as connection:
        make_neighbours(connection, accounts)
    bench.vacuum()
    bench.run()
    bench.vacuum()
    return user_id


if __name__ == "__main__":
    print_report("one account among others", run(sys.argv[1:]))
