"""Every twin finds the line that it breaks and the test that has to notice: known in a second, without a server."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from . import (
    test_accounts,
    test_claim,
    test_clock_ahead,
    test_compute,
    test_doors,
    test_imports,
    test_lease,
    test_maintenance,
    test_publish,
    test_readers,
    test_writes,
)

ROOT = Path(__file__).parents[2]
SUBJECTS = (
    test_accounts,
    test_claim,
    test_clock_ahead,
    test_compute,
    test_doors,
    test_imports,
    test_lease,
    test_maintenance,
    test_publish,
    test_readers,
    test_writes,
)
TWINS = {name: twin for subject in SUBJECTS for name, twin in subject.TWINS.items()}


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_finds_its_line_once_and_its_test(name: str) -> None:
    twin = TWINS[name]
    twin.broken_text()  # raises where the line is not there exactly once
    file, _, test = twin.node.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert test.partition("[")[0] in tests


def test_no_two_twins_break_the_same() -> None:
    broken = Counter((twin.file, twin.broken_text()) for twin in TWINS.values())
    assert max(broken.values()) == 1


def test_every_module_of_twins_is_looked_at() -> None:
    modules = {file.stem for file in Path(__file__).parent.glob("test_*.py")}
    assert modules == {subject.__name__.rpartition(".")[2] for subject in SUBJECTS} | {"test_broken"}
    assert len(TWINS) == sum(len(subject.TWINS) for subject in SUBJECTS)
