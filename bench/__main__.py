"""`python -m bench`: every measurement that has a bar, in one run, as one table and as bench/results.json.

`python -m bench NAME [SIZE ...]` runs one module, also one without bars. A missed bar is printed as MISSED and fails
nothing: what a shared machine measures is no reason to stop a build.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    compute,
    drain,
    freshness,
    history_purge,
    idle,
    import_file,
    lock_table,
    neighbours,
    rebuild_profile,
    rollover,
    save_session,
)
from bench.report import Measured, Results, print_results, write_results
from embedded.postgres import find_binaries

Run = Callable[[Sequence[str]], list[Measured]]

WITH_BARS: Mapping[str, Run] = {
    "compute": compute.run,
    "freshness": freshness.run,
    "drain": drain.run,
    "idle": idle.run,
    "neighbours": neighbours.run,
    "save_session": save_session.run,
    "import_file": import_file.run,
    "history_purge": history_purge.run,
}
WITHOUT_BARS: Mapping[str, Run] = {
    "lock_table": lock_table.run,
    "rebuild_profile": rebuild_profile.run,
    "rollover": rollover.run,
}
RESULTS = Path(__file__).parent / "results.json"


def main(arguments: Sequence[str]) -> int:
    """Run what `arguments` name and print it; write the results of a whole run."""
    known = {**WITH_BARS, **WITHOUT_BARS}
    if arguments and arguments[0] not in known:
        sys.stderr.write(f"bench: {arguments[0]} is none of {', '.join(known)}\n")
        return 2
    facts = machine()
    results: Results
    if arguments:
        results = {arguments[0]: known[arguments[0]](arguments[1:])}
    else:
        results = {name: run([]) for name, run in WITH_BARS.items()}
        write_results(RESULTS, facts, results)
    print_results(", ".join(f"{name} {fact}" for name, fact in facts.items()), results)
    return 0


def machine() -> dict[str, object]:
    """Return what the figures depend on, at the start of the run."""
    version = subprocess.run(
        [find_binaries() / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "postgres": version.stdout.split()[-1],
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
