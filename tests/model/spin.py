"""Spin, the model checker: makes a verifier from a model, compiles it, runs it and says what it found."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

MODELS = Path(__file__).parent


@dataclass(frozen=True)
class Verdict:
    """What a verifier said: how many states it stored, and the property that fails ("" where all hold)."""

    states: int
    violated: str


def require_spin():
    """Skip the test where Spin is not installed; fail it on CI, which installs it."""
    if shutil.which("spin") is None:
        reason = "needs Spin: apt-get install spin"
        assert not os.environ.get("CI"), reason
        pytest.skip(reason)


def verify(model, folder, *macros, formula=False):
    """Search all states of a model in `folder`: its assertions and deadlocks, or, with `formula`, its ltl formula.

    A formula is checked under weak fairness. `macros` are defined for the model.
    """
    flags = [f"-D{macro}" for macro in macros]
    kind = ["-DNFAIR=3"] if formula else ["-DSAFETY", "-DNOCLAIM"]
    _run(folder, "spin", "-a", *flags, str(model))
    _run(folder, "gcc", "-O2", "-w", *kind, "-o", "pan", "pan.c")
    said = _run(folder, "./pan", "-m1000000", *(["-a", "-f"] if formula else []))
    assert "max search depth too small" not in said, said
    states = re.search(r"(\d+) states, stored", said)
    assert states, said
    violated = re.search(r"^pan:1: (.*?) \(at depth", said, flags=re.MULTILINE)
    return Verdict(int(states[1]), violated[1] if violated else "")


def _run(folder, *command):
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout
