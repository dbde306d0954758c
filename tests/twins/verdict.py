"""A pytest plugin for the twin's own process: writes down how its one test ended.

The exit status can't tell a test that noticed the damage from one that merely stumbled over it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "STATS_REFRESH_TEST_VERDICT"
"""The file to write: `passed`, `red` (by an assertion of the test) or what it stumbled over."""

_ASSERTIONS = (AssertionError, pytest.fail.Exception)
"""The second is what `pytest.raises` says where nothing was raised."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if report.when == "call" or not report.passed:
        file = Path(os.environ[VARIABLE])
        if report.passed:
            verdict = "passed"
        elif call.when == "call" and call.excinfo is not None and call.excinfo.errisinstance(_ASSERTIONS):
            verdict = "red"
        else:
            verdict = f"{call.when}: {call.excinfo.exconly() if call.excinfo else report.outcome}"
        if call.when != "teardown" or not file.exists():
            file.write_text(verdict, encoding="utf-8")
    return report
