"""The layers of pyproject.toml: imports run downward only, and the check is red where one does not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PYPROJECT["tool"]["importlinter"]["root_packages"]

UPWARD = {
    "models/base.py": "core.errors",
    "sql/roles.py": "core.config",
    "core/errors.py": "schedules.entries",
    "schedules/entries.py": "tasks.beats",
    "tasks/beats.py": "importers.history",
    "importers/history.py": "embedded.server",
    "embedded/server.py": "ops.cli",
    "edge/service/rules.py": "ops.durations",
    "ops/durations.py": "bench.report",
}
"""For each package one module, and what it must not import."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the code, to plant an import into."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Check the imports of `tree` as `make lint` does."""
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache", "--no-logo"], cwd=tree, check=False, capture_output=True, text=True
    )


def plant(tree: Path, file: str, module: str) -> None:
    path = tree / file
    path.write_text(f"{path.read_text()}\n\ndef _planted() -> None:\n    import {module}\n")


def test_an_upward_import_is_red_in_every_package(tree: Path) -> None:
    assert lint(tree).returncode == 0
    for file, module in UPWARD.items():
        plant(tree, file, module)
    found = lint(tree)
    assert found.returncode == 1
    for file, module in UPWARD.items():
        importer = file.removesuffix(".py").replace("/", ".")
        assert re.search(rf"{re.escape(importer)} -> {re.escape(module)}\b", found.stdout), found.stdout


def test_an_importer_that_prints_is_red(tree: Path) -> None:
    plant(tree, "importers/cells.py", "rich.console")
    found = lint(tree)
    assert found.returncode == 1
    assert "importers.cells -> rich" in found.stdout


def test_every_package_has_a_layer_is_installed_and_has_its_types_checked() -> None:
    """A new folder of code is checked by nothing before it is named in each of these lists."""
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    tool = PYPROJECT["tool"]
    layers = tool["importlinter"]["contracts"][0]["layers"]
    assert set(PACKAGES) == folders
    assert {name for layer in layers for name in layer.split(" | ")} == folders
    product = folders - {"bench"}
    assert set(tool["mypy"]["packages"]) == product
    assert set(tool["setuptools"]["packages"]["find"]["include"]) == {f"{name}*" for name in product}
