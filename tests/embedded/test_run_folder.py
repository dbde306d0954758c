"""Folders that go with their owner."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import OperatorError
from embedded.run_folder import RunFolder, live_run_folders

_CREATE_AND_DIE = """
import os, signal, tempfile
tempfile.tempdir = {temp!r}
from embedded.run_folder import RunFolder
folder = RunFolder.create()
(folder.path / "leftover").write_text("x")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_removal_of_the_last_folder_leaves_nothing(private_temp: Path) -> None:
    with RunFolder.create() as first, RunFolder.create() as second:
        assert {first.path, second.path} == set(live_run_folders())
    assert list(private_temp.iterdir()) == []


def test_looking_for_folders_leaves_nothing(private_temp: Path) -> None:
    assert live_run_folders() == []
    assert list(private_temp.iterdir()) == []


def test_folder_of_a_killed_owner_is_removed_by_the_next_one(private_temp: Path, user_folder: Path) -> None:
    subprocess.run([sys.executable, "-c", _CREATE_AND_DIE.format(temp=str(private_temp))], check=False)
    abandoned = list(user_folder.iterdir())
    assert len(abandoned) == 1
    with RunFolder.create() as folder:
        assert list(user_folder.iterdir()) == [folder.path]


def test_only_the_owner_gets_in(private_temp: Path) -> None:
    with RunFolder.create() as folder:
        assert stat.S_IMODE(folder.subfolder("secret").stat().st_mode) == 0o700
        assert stat.S_IMODE(folder.path.stat().st_mode) & 0o066 == 0


def test_folder_that_others_may_write_is_refused(user_folder: Path) -> None:
    user_folder.mkdir()
    user_folder.chmod(0o777)
    with pytest.raises(OperatorError, match="open to others"):
        RunFolder.create()


def test_link_in_place_of_the_folder_is_refused(user_folder: Path, tmp_path: Path) -> None:
    os.symlink(tmp_path, user_folder)
    with pytest.raises(OperatorError, match="can't be used"):
        RunFolder.create()
