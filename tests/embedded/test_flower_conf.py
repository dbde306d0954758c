"""flower.conf sets only what Flower knows: a mistyped name would be ignored without a word."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from flower.options import default_options
from flower.views.tasks import TASK_COLUMNS

from core.config import Config

CONF = Path(__file__).resolve().parents[2] / "flower.conf"


def settings(monkeypatch: pytest.MonkeyPatch, **configured: object) -> dict[str, object]:
    monkeypatch.setattr("core.config.config", lambda: Config(**configured))
    return {name: value for name, value in runpy.run_path(str(CONF)).items() if not name.startswith("_")}


def test_names_and_columns_are_those_of_flower(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(monkeypatch, flower_password="secret")
    known = {name.replace("-", "_") for name in default_options._options}
    assert found.keys() - {"annotations"} <= known
    columns = str(found["tasks_columns"]).split(",")
    assert set(columns) <= TASK_COLUMNS.keys()
    assert {"args", "result"} <= set(columns)


def test_asks_for_a_login_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings(monkeypatch, flower_password="a:b,c", flower_port=5600)
    assert found["basic_auth"] == ["operator:a:b,c"]
    assert found["address"] == "127.0.0.1"
    assert found["port"] == 5600


def test_never_runs_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="STATS_REFRESH_FLOWER_PASSWORD"):
        settings(monkeypatch)
