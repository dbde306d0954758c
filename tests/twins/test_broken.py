"""Every twin finds the line that it breaks and the test that has to notice: known in a second, without a server."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .broken import TWINS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_finds_its_line_once_and_its_test(name: str) -> None:
    twin = TWINS[name]
    twin.broken_text()  # raises where the line is not there exactly once
    file, _, test = twin.node.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert test.partition("[")[0] in tests


def test_no_two_twins_break_the_same() -> None:
    broken = [(twin.file, twin.broken_text()) for twin in TWINS.values()]
    assert len(set(broken)) == len(broken)
