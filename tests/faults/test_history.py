"""The checker of histories finds every kind of lie in a history that was right, and nothing in one that is."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.history import History, Promise, Read, judge, without_links

ACCOUNT = uuid.UUID(int=1)


def content(generation: int) -> str:
    return f"content of {generation}"


@st.composite
def right_histories(draw: st.DrawFn) -> History:
    """One account: each write is promised a generation; readers see what is published of them, later and later."""
    history, now, requested, applied = History(), 0.0, 1, 1
    history.promises.append(Promise(now, ACCOUNT, requested))
    for step in draw(st.lists(st.sampled_from(["write", "publish", "one", "two"]), min_size=1, max_size=40)):
        now += 1
        if step == "write":
            requested += 1
            history.promises.append(Promise(now, ACCOUNT, requested))
        elif step == "publish":
            applied = requested
        else:
            history.reads.append(read(step, now, applied, requested))
    # What every mutation below needs: a read of the newest generation by each reader.
    history.reads += [read(reader, now + 1, requested, requested) for reader in ("one", "two")]
    return history


def read(reader: str, began: float, generation: int, requested: int) -> Read:
    return Read(
        reader,
        began,
        ACCOUNT,
        ("get_pr_overview", "2026-03-10"),
        generation,
        requested,
        generation < requested,
        content(generation),
    )


def problems(history: History) -> list[str]:
    return judge(history, lambda one: content(one.generation)).problems


@given(right_histories())
def test_a_right_history_has_no_problems_and_its_fresh_answers_are_compared(history):
    verdict = judge(history, lambda one: content(one.generation))
    assert verdict.problems == []
    assert verdict.compared == sum(not one.stale for one in history.reads) > 0


@given(right_histories())
def test_a_generation_that_goes_back_is_found(history):
    last = history.reads[-1]
    older = replace(last, generation=last.generation - 1, stale=True, content=content(last.generation - 1))
    history.reads.append(older)
    assert any("went back" in problem for problem in problems(history))


@given(right_histories(), st.data())
def test_another_reader_may_be_behind(history, data):
    last = history.reads[-1]
    began = data.draw(st.floats(0, last.began))
    behind = replace(last, reader="three", began=began, generation=1, requested=10**6, stale=True)
    history.reads.append(replace(behind, content=content(1)))
    assert problems(history) == []


@given(right_histories())
def test_two_contents_of_one_generation_are_found(history):
    last = history.reads[-1]
    stale = replace(last, reader="three", requested=last.requested + 1, stale=True, content="something else")
    history.reads.append(stale)
    assert any("two contents" in problem for problem in problems(history))


@given(right_histories())
def test_a_wrong_content_that_every_reader_sees_is_found(history):
    newest = history.reads[-1].generation
    history.reads = [
        replace(one, content="wrong") if one.generation == newest else one for one in history.reads
    ]
    found = problems(history)
    assert found
    assert all("its rows give" in problem for problem in found)


@given(right_histories())
def test_a_generation_ahead_of_its_request_is_found(history):
    last = history.reads[-1]
    ahead = last.generation + 1
    history.reads.append(replace(last, generation=ahead, content=content(ahead)))
    assert any("was requested" in problem for problem in problems(history))


@given(right_histories())
def test_an_untrue_stale_is_found(history):
    history.reads.append(replace(history.reads[-1], stale=True))
    assert any("stale=True" in problem for problem in problems(history))


@given(right_histories())
def test_a_promise_that_a_later_read_does_not_know_is_found(history):
    last = history.reads[-1]
    history.promises.append(Promise(last.began - 0.5, ACCOUNT, last.requested + 1))
    assert any("had been promised" in problem for problem in problems(history))


@given(right_histories())
def test_one_generation_promised_for_two_writes_is_found(history):
    newest = history.promises[-1]
    history.promises.append(replace(newest, at=newest.at + 0.1))
    assert any("was promised" in problem for problem in problems(history))


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (
            {"generation": 3, "stale": True, "requested_version": 4, "generated_at": "x", "days": []},
            {"days": []},
        ),
        ([{"best_weight_kg": 5, "best_weight_session_id": "x"}], [{"best_weight_kg": 5}]),
        ({"records": [{"session_id": None, "value": 1}]}, {"records": [{"value": 1}]}),
    ],
)
def test_what_may_differ_between_two_readings_of_a_generation_is_no_content(answer, left):
    assert without_links(answer) == left
