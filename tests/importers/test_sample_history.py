"""The sample history: always the same, two years long, and with everything that real histories have."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta

import pytest

from importers.tracking import contradiction
from ops.sample_history import sample_history

TODAY = date(2026, 3, 1)


@pytest.fixture(scope="module")
def history():
    return sample_history(TODAY)


def test_it_is_the_same_every_time(history):
    assert sample_history(TODAY) == history


def test_on_another_day_only_the_days_move(history):
    later = sample_history(TODAY + timedelta(days=10))

    def undated(session):
        return replace(session, session_date=TODAY, started_at_local=None)

    assert [undated(session) for session in later.sessions] == [undated(s) for s in history.sessions]
    assert later.sessions[-1].session_date == history.sessions[-1].session_date + timedelta(days=10)


def test_two_years_up_to_yesterday_in_order(history):
    days = [session.session_date for session in history.sessions]
    assert days == sorted(days)
    assert days[-1] == TODAY - timedelta(days=1)
    assert timedelta(days=720) < days[-1] - days[0] < timedelta(days=731)
    assert 280 <= len(days) <= 320
    assert len({session.source_ref for session in history.sessions}) == len(days)


def test_every_set_is_a_data_row_with_a_line_of_its_own(history):
    lines = [a_set.line for session in history.sessions for a_set in session.sets()]
    assert lines == list(range(1, history.data_rows + 1))
    assert history.skipped == ()


def test_every_exercise_has_its_tracking_and_no_set_contradicts_it(history):
    blocks = [block for session in history.sessions for block in session.blocks]
    assert {block.exercise for block in blocks} == history.tracking.keys()
    assert len(history.tracking) >= 40
    assert set(history.tracking.values()) >= {
        "weight_reps",
        "bodyweight_reps",
        "assisted_reps",
        "reps_only",
        "duration",
        "distance_duration",
    }
    assert not [
        (block.exercise, a_set)
        for block in blocks
        for a_set in block.sets
        if contradiction(a_set, block.exercise, history.tracking[block.exercise])
    ]


def test_it_has_what_real_histories_have(history):
    sets = [a_set for session in history.sessions for a_set in session.sets()]
    assert {a_set.set_type for a_set in sets} == {"normal", "warmup", "drop", "failure"}
    assert {a_set.is_completed for a_set in sets} == {True, False}
    assert any(session.notes for session in history.sessions)
    assert any(block.notes for session in history.sessions for block in session.blocks)
    sessions_a_day = Counter(session.session_date for session in history.sessions)
    assert sorted(sessions_a_day.values())[-2:] == [1, 2]
    twice = [s for s in history.sessions if len({block.exercise for block in s.blocks}) < len(s.blocks)]
    assert len(twice) == 1


def test_the_lifter_gets_stronger(history):
    best = [
        max(a_set.weight_kg for a_set in block.sets)
        for session in history.sessions
        for block in session.blocks
        if block.exercise == "Back Squat (Barbell)"
    ]
    assert max(best[-10:]) > best[0] + 50
