"""Servers and stand-in processes for the tests of the embedded stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.run_folder import RunFolder, temporary_root


@pytest.fixture
def run_folder() -> Iterator[RunFolder]:
    with RunFolder.create() as folder:
        yield folder


@pytest.fixture
def private_temp(run_folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that only this test uses, so that it can say what is left in it."""
    folder = run_folder.subfolder("tmp", shared=True)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert temporary_root() == folder
    return folder


@pytest.fixture
def user_folder(private_temp: Path) -> Path:
    return private_temp / f"stats-refresh-{os.geteuid()}"
