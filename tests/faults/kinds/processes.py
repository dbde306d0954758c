"""Workers, their pool children and beats are killed, frozen and asked to end, at a stage where possible."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psutil

from faults.plan import Kind, Lane, Outcome
from faults.scene import Scene
from faults.stack import LEASE_SECONDS, Kept
from faults.watch import Backend

Target = Callable[[Scene], "tuple[Kept, psutil.Process, str] | None"]
"""Who is hit: the process that is kept, itself or its child, and what it was at."""


def _worker(scene: Scene) -> tuple[Kept, psutil.Process, str] | None:
    """Return the main process of a worker that is at a stage."""
    found = _at_a_stage(scene)
    return found and (found[0], psutil.Process(found[0].process.pid), found[2])  # type: ignore[union-attr]


def _at_a_stage(scene: Scene) -> tuple[Kept, psutil.Process, str] | None:
    """Return the pool child that is at a stage, and its worker. Which stage is the dice's choice, where it can be."""
    wanted = scene.dice.choice(["claim", "compute", "publish"])
    backend = scene.watch.wait_for_stage(wanted) or scene.watch.wait_for_stage()
    return backend and _owner(scene, backend)


def _owner(scene: Scene, backend: Backend) -> tuple[Kept, psutil.Process, str] | None:
    owner = scene.stack.owner_of(backend.pid)
    return owner and (*owner, backend.stage)


def _beat(scene: Scene) -> tuple[Kept, psutil.Process, str] | None:
    """Return one of the beats, while something is under way that it may be needed for."""
    running = [beat for beat in scene.stack.beats if beat.is_ready()] or scene.stack.beats
    scene.watch.wait_for(scene.watch.has_work)
    with suppress(psutil.NoSuchProcess, IndexError):
        chosen = scene.dice.choice(running)
        return chosen, chosen.family()[0], "firing"
    return None


def _send(target: Target, number: signal.Signals, scene: Scene) -> Outcome:
    found = target(scene)
    if found is None:
        return Outcome(False, "nobody was at a stage")
    kept, process, stage = found
    is_main = kept.process is not None and process.pid == kept.process.pid
    if is_main:
        kept.ask_to_end()
    in_flight = scene.watch.has_work() if stage == "firing" else True
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)
        return Outcome(in_flight, f"{kept.name}, process {process.pid}, {stage}")
    return Outcome(False, f"{kept.name} had ended")


def _freeze(target: Target, longest: float, scene: Scene) -> Outcome:
    """Stop the process for a while: shorter or longer than its lease."""
    found = target(scene)
    if found is None:
        return Outcome(False, "nobody was at a stage")
    kept, process, stage = found
    in_flight = scene.watch.has_work() if stage == "firing" else True
    seconds = round(scene.dice.uniform(0.5, longest), 1)
    with suppress(psutil.NoSuchProcess):
        process.suspend()
        scene.last(seconds)
        process.resume()
        return Outcome(in_flight, f"{kept.name}, process {process.pid}, {stage}, for {seconds} s")
    return Outcome(False, f"{kept.name} had ended")


def _outlast_the_lease(scene: Scene) -> Outcome:
    """Freeze a pool child in the middle of a compute for longer than its lease, and let it go on then."""
    backend = scene.watch.wait_for_stage("compute")
    found = backend and _owner(scene, backend)
    if not found:
        return Outcome(False, "nobody computed")
    kept, child, _ = found
    with suppress(psutil.NoSuchProcess):
        child.suspend()
        scene.last(LEASE_SECONDS + 1)
        child.resume()
        return Outcome(True, f"{kept.name}, process {child.pid}")
    return Outcome(False, f"{kept.name} had ended")


KINDS = [
    *(
        Kind(f"{who} {name}", Lane.PROCESSES, partial(_send, target, number))
        for who, target in (("worker", _worker), ("pool child", _at_a_stage), ("beat", _beat))
        for name, number in (("killed", signal.SIGKILL), ("asked to end", signal.SIGTERM))
    ),
    Kind("worker frozen", Lane.PROCESSES, partial(_freeze, _worker, LEASE_SECONDS / 2)),
    Kind("pool child frozen", Lane.PROCESSES, partial(_freeze, _at_a_stage, LEASE_SECONDS / 2)),
    Kind("beat frozen", Lane.PROCESSES, partial(_freeze, _beat, LEASE_SECONDS)),
    Kind("lease outlasted", Lane.PROCESSES, _outlast_the_lease),
]
