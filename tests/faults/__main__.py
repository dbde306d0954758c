"""`python -m faults`: a storm from the command line; exit 1 where it found something."""

from __future__ import annotations

import argparse
import random
import sys

from faults import report, storm


def main() -> int:
    arguments = _arguments()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1_000_000)
    only, without = _names(arguments.only), _names(arguments.without)
    done = storm.run(seed, 60 * arguments.minutes, only, without, say=_say)
    for line in report.lines(done):
        _say(line)
    return 1 if done.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, help="the plan of a storm; without it a new one")
    parser.add_argument(
        "--only", default="", help="the kinds to play, separated by commas; all where none is named"
    )
    parser.add_argument("--without", default="", help="kinds to leave out, separated by commas")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
