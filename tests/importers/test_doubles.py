"""The same workout from another app, shifted by whole hours or not, is left alone; another workout is taken."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from uuid import uuid4

import pytest
from support.histories import adds_up, block, history, lift, session, stored_sessions

from importers.formats import read_history
from importers.history import ImportedSet
from importers.saving import import_history


@pytest.fixture
def user():
    return uuid4()


EVENING = datetime(2024, 1, 8, 18, 30, 12)


def three_sets(first=2):
    return block(
        "Bench",
        lift(first, "-62.5"),
        ImportedSet(first + 1, weight_kg=Decimal("-20"), reps=8),
        lift(first + 2, "-60"),
    )


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (EVENING.replace(second=0), "the same workout is already there from strong"),
        (
            EVENING.replace(hour=23, second=0),
            "the same workout is already there from strong, 5 h apart",
        ),
        (
            EVENING.replace(hour=7, second=59),
            "the same workout is already there from strong, 11 h apart",
        ),
        (None, "the same sets of the same day are already there from strong"),
    ],
)
def test_the_same_workout_from_another_app_is_left_alone(database, user, other, reason):
    tracking = {"bench": "assisted_reps"}
    import_history(database.engine, user, "strong", history(session(three_sets(), at=EVENING), **tracking))
    again = history(session(three_sets(), ref="other", at=other), **tracking)
    report = import_history(database.engine, user, "hevy", again)
    assert (report.sessions_saved, report.sessions_already_there) == (0, 1)
    assert {row.reason for row in report.skipped} == {reason}
    assert adds_up(report)
    assert len(stored_sessions(database, user)) == 1


@pytest.mark.parametrize(
    "other",
    [
        session(three_sets(), at=EVENING.replace(minute=40)),
        session(three_sets(), at=datetime(2024, 1, 10, 18, 30), day=date(2024, 1, 10)),
        session(three_sets(), day=date(2024, 1, 9)),
        session(three_sets(), block("Bench", lift(5, "-60")), at=EVENING),
        session(block("Bench", lift(2, "-60"), lift(3, "-62.5")), at=EVENING),
    ],
)
def test_another_workout_from_another_app_is_taken(database, user, other):
    tracking = {"bench": "assisted_reps"}
    import_history(database.engine, user, "strong", history(session(three_sets(), at=EVENING), **tracking))
    assert import_history(database.engine, user, "hevy", history(other, **tracking)).sessions_saved == 1


def test_a_real_history_that_another_app_shifted_by_hours_is_left_alone(database, user, real_file):
    read = read_history(real_file("strong-kg-olympic-lifting.csv"), "strong", "kg")
    import_history(database.engine, user, "strong", read)
    report = import_history(database.engine, user, "hevy", read, timezone="Asia/Tokyo")
    assert (report.sessions_saved, report.sessions_already_there) == (0, 86)
    assert {row.reason for row in report.skipped} == {
        "the same workout is already there from strong, 9 h apart"
    }


def test_one_session_answers_for_one_of_two_equal_workouts_of_a_day(database, user):
    import_history(database.engine, user, "strong", history(session(block("Push Up", lift(2)))))
    twice = history(session(block("Push Up", lift(2)), ref="a"), session(block("Push Up", lift(3)), ref="b"))
    for again in (False, True):
        report = import_history(database.engine, user, "hevy", twice)
        assert (report.sessions_saved, report.sessions_already_there) == ((0, 2) if again else (1, 1))
    assert len(stored_sessions(database, user)) == 2
