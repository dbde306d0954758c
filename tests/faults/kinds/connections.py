"""Connections to Postgres end, or fall silent on both sides, at each stage."""

from __future__ import annotations

from functools import partial

from faults.plan import Kind, Lane, Outcome
from faults.scene import Scene
from faults.watch import STAGES


def _terminate(stage: str, scene: Scene) -> Outcome:
    backend = scene.watch.wait_for_stage(stage)
    if backend is None:
        return Outcome(False, "nobody was at it")
    rows = scene.watch.rows("select pg_catalog.pg_terminate_backend(:pid)", pid=backend.pid)
    return Outcome(rows == [(True,)], f"backend {backend.pid}")


def _silence(stage: str, scene: Scene) -> Outcome:
    """Let nothing pass in either direction for some seconds; then both ends learn that the connection is gone."""
    backend = scene.watch.wait_for_stage(stage)
    if backend is None or not scene.stack.proxy.silence(backend.pid):
        return Outcome(False, "nobody was at it")
    seconds = round(scene.dice.uniform(1, 6), 1)
    scene.last(seconds)
    scene.stack.proxy.end_silence(backend.pid)
    return Outcome(True, f"backend {backend.pid} for {seconds} s")


KINDS = [
    *(Kind(f"{stage}: connection ended", Lane.CONNECTIONS, partial(_terminate, stage)) for stage in STAGES),
    *(Kind(f"{stage}: connection half-open", Lane.CONNECTIONS, partial(_silence, stage)) for stage in STAGES),
]
