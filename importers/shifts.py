"""By how much the starts of a file are shifted against what is stored: for each of its workouts, from all of them.

An app prints the time of day where the phone is, so a file may be shifted as a whole, and after a journey or a change
of the clocks in parts. The parts are the cheapest explanation: a workout that finds no session under its shift costs
1, and so does a change of the shift; one by an hour, as daylight saving makes it, less. Without a reason for another
one the shift is 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

STEP = 15 * 60
FARTHEST = 26 * 60 * 60
SAME_START = 60
"""Starts less than this many seconds apart are the same: some exports have no seconds."""

WEAK_GAIN = 0.1
"""Of a session whose sets are mostly others. A new workout at the hour of yesterday's has it too."""
WEAK_GAINS_OF_A_SHIFT = 4
"""So many workouts show a shift that no workout shows by its sets, as where an exercise was renamed."""

_HOUR = 60 * 60
_CHANGE = 1.0
_CHANGE_BY_AN_HOUR = 0.3


def nearest_shift(apart: int) -> int | None:
    """Return the shift that `apart` seconds are, to the minute; None where they are none."""
    shift = round(apart / STEP) * STEP
    return shift if abs(apart - shift) < SAME_START and abs(shift) <= FARTHEST else None


def gain(shift: int, *, is_own: bool, is_full: bool, share: float) -> float:
    """Return how well a workout is explained by a session that is `shift` apart, from 0 to 1.

    `is_full`: the sets agree; otherwise they have `share` in common, and the session is the app's own.
    """
    if is_full and is_own:
        return 1.0 if shift == 0 else 0.6
    if is_full:
        return 1.0 if shift == 0 else 0.4
    if share >= 0.5:
        return 0.8 if shift == 0 else 0.5
    return 0.2 if shift == 0 else WEAK_GAIN


def cheapest_shifts(shifts: Sequence[int], gains: Iterable[Mapping[int, float]]) -> array[int]:
    """Return the shift of each workout in the order of their starts, one of `shifts`, of which the first is 0.

    `gains` has what each workout gains by which shift.
    """
    neighbours = [
        [other for other, shift in enumerate(shifts) if abs(shift - mine) == _HOUR] for mine in shifts
    ]
    costs = [0.0] * len(shifts)
    came_from = bytearray()
    for workout in gains:
        steps = [_cheapest_step(costs, place, neighbours[place]) for place in range(len(shifts))]
        costs = [cost + 1 - workout.get(shift, 0.0) for (cost, _), shift in zip(steps, shifts, strict=True)]
        came_from.extend(before for _, before in steps)
    place = costs.index(min(costs))
    path = array("i")
    for first in reversed(range(0, len(came_from), len(shifts))):
        path.append(shifts[place])
        place = came_from[first + place]
    path.reverse()
    return path


def _cheapest_step(costs: Sequence[float], place: int, neighbours: Iterable[int]) -> tuple[float, int]:
    best = (costs[place], place)
    for other in neighbours:
        best = min(best, (costs[other] + _CHANGE_BY_AN_HOUR, other))
    cheapest = min(costs)
    return min(best, (cheapest + _CHANGE, costs.index(cheapest)))
