"""The plan: the same seed gives the same faults, and every kind comes equally often."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from faults.kinds import ALL, possible
from faults.plan import Lane, faults


@pytest.mark.parametrize("lane", Lane)
def test_a_seed_gives_the_same_faults_and_dice_again(lane):
    first, second = (
        [(one.kind.name, one.rest, one.dice.random()) for one in islice(faults(7, 2, lane, ALL), 50)]
        for _ in range(2)
    )
    other = [(one.kind.name, one.rest, one.dice.random()) for one in islice(faults(8, 2, lane, ALL), 50)]
    assert first == second
    assert first != other


@pytest.mark.parametrize("lane", Lane)
def test_every_kind_of_a_lane_comes_equally_often(lane):
    ours = [kind.name for kind in ALL if kind.lane is lane]
    counted = Counter(one.kind.name for one in islice(faults(7, 0, lane, ALL), 10 * len(ours)))
    assert counted == dict.fromkeys(ours, 10)


def test_a_kind_that_is_left_out_does_not_come():
    name = ALL[0].name
    kinds, left_out = possible(without=[name])
    assert name in left_out
    assert name not in [kind.name for kind in kinds]


def test_leaving_out_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="no such kind: earthquake; there are"):
        possible(without=["earthquake"])


def test_only_the_kinds_that_are_asked_for_are_played():
    kinds, left_out = possible(only=["worker killed"])
    assert [kind.name for kind in kinds] == ["worker killed"]
    assert "worker frozen" not in left_out
    with pytest.raises(ValueError, match="no such kind: earthquake"):
        possible(only=["earthquake"])
