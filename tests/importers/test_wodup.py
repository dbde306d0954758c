"""WodUp batches: what is stored, a second time, what is reported, what is refused with its JSON path."""

from __future__ import annotations

import json
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from reckoning.compare import assert_account_equals_reckoning
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount

from core.errors import OperatorError
from ops.importing import import_file

SQUAT = {"id": "m-squat", "name": "Back Squat", "slug": "back-squat", "hasReps": True, "hasLoad": True}
PULL_UP = {"id": 7, "name": "Pull-up", "hasReps": True, "hasLoad": False}
ROW = {"id": "m-row", "name": "Row Erg", "hasDistance": True, "hasDuration": True}


class Wodup:
    """A database that batches are imported into, as service."""

    def __init__(self, database) -> None:
        self.database = database
        self.app = AppAccount(database)

    def batch(self, *results, day="2026-03-10", movements=(SQUAT, PULL_UP, ROW), **fields):
        return {
            "id": "b-1",
            "user_id": str(self.app.user_id),
            "movements": list(movements),
            "days": [{"day": day, "results": list(results)}],
            **fields,
        }

    def imported(self, batch):
        return self.database.as_service().value(
            "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))", batch=json.dumps(batch)
        )

    def refusal(self, batch) -> tuple[str, str]:
        with pytest.raises(DBAPIError) as refused:
            self.imported(batch)
        return refused.value.orig.pgcode, refused.value.orig.diag.message_primary

    def map(self, movement_id, exercise_id, owner=None):
        self.database.admin(
            "insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)"
            " values ('wodup', :movement, :owner, :exercise)",
            movement=movement_id,
            owner=owner,
            exercise=exercise_id,
        )

    def stored(self):
        """Return every stored set: day, exercise, its numbers, whether it was done."""
        return self.database.admin(
            "select w.session_date, x.name, s.weight_kg, s.reps, s.distance_m, s.duration_seconds, s.is_completed"
            " from public.session_sets s"
            " join public.session_exercise_part p on p.id = s.part_id"
            " join public.workout_sessions w on w.id = p.session_id"
            " join public.exercises x on x.id = p.exercise_id"
            " order by w.session_date, w.source_ref, p.position, s.set_no"
        )

    def everything(self):
        """Return what an import may write, to compare before and after."""
        tables = (
            "exercises", "exercise_external_mappings", "workout_sessions", "session_exercise_part", "session_sets",
            "stats_mutation_receipts", "user_stats_refresh_state", "user_exercise_stats_refresh_jobs",
        )  # fmt: skip
        return {
            table: self.database.admin(f"select t::text from public.{table} t order by 1") for table in tables
        }


@pytest.fixture
def wodup(database):
    return Wodup(database)


def result(*sets, id="r-1", **fields):
    return {"id": id, "sets": list(sets), "pr": True, **fields}


def lift(load, reps, movement="m-squat", unit="kg"):
    return {"movementId": movement, "load": load, "loadUnit": unit, "reps": reps}


# --- what is stored


def test_results_become_sessions_and_are_published_at_once(wodup):
    answer = wodup.imported(
        wodup.batch(
            result(lift(100, 5), lift(225, 3, unit="lb"), lift(110, 0), doneOn="2026-03-09", title="Heavy"),
            result({"movementId": 7, "reps": 12}, lift(60, 5), {"movementId": 7, "reps": 10}, id=2),
            result({"movementId": "m-row", "distanceMeters": 2000.256, "durationSeconds": 480}, id="r-3"),
        )
    )
    assert wodup.stored() == [
        (date(2026, 3, 9), "Back Squat", Decimal("100.00"), 5, None, None, True),
        (date(2026, 3, 9), "Back Squat", Decimal("102.06"), 3, None, None, True),
        (date(2026, 3, 9), "Back Squat", Decimal("110.00"), 0, None, None, False),
        (date(2026, 3, 10), "Pull-up", None, 12, None, None, True),
        (date(2026, 3, 10), "Back Squat", Decimal("60.00"), 5, None, None, True),
        (date(2026, 3, 10), "Pull-up", None, 10, None, None, True),
        (date(2026, 3, 10), "Row Erg", None, None, Decimal("2000.26"), 480, True),
    ]
    assert (answer["results"], answer["results_saved"], answer["sets_saved"]) == (3, 3, 7)
    assert (answer["statsRequestedVersion"], answer["refresh"]) == (1, "published")
    assert wodup.app.jobs("event_type", "source_ref", "from_date", "cardinality(exercise_ids)") == [
        ("wodup_import", "wodup_batch:b-1", date(2026, 3, 9), 3)
    ]
    assert wodup.app.state() == (1, 1)
    with wodup.database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, wodup.app.user_id)


def test_flags_give_the_tracking_of_a_placeholder(wodup):
    answer = wodup.imported(
        wodup.batch(
            result(lift(100, 5), {"movementId": 7, "reps": 5}, {"movementId": "m-row", "distanceMeters": 500})
        )
    )
    assert [(one["movement_id"], one["name"], one["tracking"]) for one in answer["unmatched_movements"]] == [
        ("7", "Pull-up", "reps_only"),
        ("m-row", "Row Erg", "distance_duration"),
        ("m-squat", "Back Squat", "weight_reps"),
    ]
    owners = wodup.database.admin("select distinct owner_user_id from public.exercises")
    assert owners == [(wodup.app.user_id,)]


def test_a_movement_that_the_batch_does_not_describe_is_not_dropped(wodup):
    answer = wodup.imported(
        wodup.batch(result(lift(100, 5, "m-new"), {"movementId": 9, "reps": 3}), movements=())
    )
    assert [(one["name"], one["tracking"]) for one in answer["unmatched_movements"]] == [
        ("WodUp movement 9", "reps_only"),
        ("WodUp movement m-new", "weight_reps"),
    ]
    assert answer["sets_saved"] == 2


def test_times_of_day(wodup):
    wodup.imported(
        wodup.batch(
            result(lift(100, 5), id="a", doneAt="2026-03-10T18:30:00+01:00"),
            result(lift(100, 5), id="b", doneAt="2026-03-10T18:30:00", timeZone="America/New_York"),
            result(lift(100, 5), id="c", doneAt="2026-03-11T00:30:00Z", timeZone="America/New_York"),
            result(lift(100, 5), id="d"),
        )
    )
    assert wodup.database.admin(
        "select session_date, started_at from public.workout_sessions order by source_ref"
    ) == [
        (date(2026, 3, 10), datetime(2026, 3, 10, 17, 30, tzinfo=UTC)),
        (date(2026, 3, 10), datetime(2026, 3, 10, 22, 30, tzinfo=UTC)),
        (date(2026, 3, 10), datetime(2026, 3, 11, 0, 30, tzinfo=UTC)),
        (date(2026, 3, 10), None),
    ]


# --- the same again


def test_the_same_batch_again_changes_nothing(wodup):
    batch = wodup.batch(result(lift(100, 5)), result(lift(60, 8), id="r-2"))
    wodup.imported(batch)
    before = wodup.everything()
    again = wodup.imported(batch)
    assert wodup.everything() == before
    assert (again["results_saved"], again["results_already_there"], again["refresh"]) == (0, 2, "not_needed")
    assert again["statsRequestedVersion"] is None


def test_the_account_is_the_same_in_capitals(wodup):
    wodup.imported(wodup.batch(result(lift(100, 5))))
    before = wodup.everything()
    wodup.imported(wodup.batch(result(lift(100, 5)), user_id=str(wodup.app.user_id).upper()))
    assert wodup.everything() == before


def test_a_grown_batch_adds_what_is_new_to_the_known_exercise(wodup):
    wodup.imported(wodup.batch(result(lift(100, 5))))
    answer = wodup.imported(wodup.batch(result(lift(100, 5)), result(lift(105, 5), id="r-2")))
    assert (answer["results_saved"], answer["results_already_there"]) == (1, 1)
    assert answer["unmatched_movements"] == []
    assert wodup.database.admin("select count(*) from public.exercises") == [(1,)]


def test_another_content_under_the_same_id_is_reported_and_left_alone(wodup):
    wodup.imported(wodup.batch(result(lift(100, 5))))
    before = wodup.everything()
    answer = wodup.imported(wodup.batch(result(lift(200, 5))))
    assert wodup.everything() == before
    assert answer["contradictions"] == [
        {
            "path": "$.days[0].results[0]",
            "reason": "result r-1 was imported before with other content and is left alone",
        }
    ]
    # The flag is not content: records are computed here.
    assert wodup.imported(wodup.batch(result(lift(100, 5)) | {"pr": False}))["contradictions"] == []


def test_a_session_deleted_since_stays_deleted(wodup):
    [session_id] = wodup.imported(wodup.batch(result(lift(100, 5))))["session_ids"]
    wodup.app.delete(session_id)
    assert wodup.imported(wodup.batch(result(lift(100, 5))))["results_already_there"] == 1
    assert wodup.stored() == []


def test_the_same_result_id_in_two_accounts(wodup):
    wodup.imported(wodup.batch(result(lift(100, 5))))
    assert wodup.imported(wodup.batch(result(lift(100, 5)), user_id=str(uuid4())))["results_saved"] == 1


def test_two_imports_at_the_same_moment_save_once(wodup):
    batch = wodup.batch(result(lift(100, 5)), result(lift(60, 8), id="r-2"))
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(wodup.imported(batch))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["results_saved"] for answer in answers) == [0, 0, 0, 2]
    assert len(wodup.stored()) == 2


# --- mappings and contradictions


def test_the_accounts_own_mapping_comes_before_the_global_one(wodup):
    own, shared = wodup.app.exercise("My Squat"), wodup.app.exercise("Squat")
    wodup.database.admin("update public.exercises set owner_user_id = null where id = :id", id=shared)
    wodup.map("m-squat", shared)
    answer = wodup.imported(wodup.batch(result(lift(100, 5))))
    assert answer["unmatched_movements"] == []
    wodup.map("m-squat", own, wodup.app.user_id)
    wodup.imported(wodup.batch(result(lift(100, 5), id="r-2")))
    assert [row[1] for row in wodup.stored()] == ["Squat", "My Squat"]


def test_identities_are_exact(wodup):
    wodup.map("M-SQUAT", wodup.app.exercise("Squat"), wodup.app.user_id)
    answer = wodup.imported(wodup.batch(result(lift(100, 5))))
    assert [one["movement_id"] for one in answer["unmatched_movements"]] == ["m-squat"]


def test_somebody_elses_exercise_is_no_match(wodup):
    other = AppAccount(wodup.database)
    wodup.map("m-squat", other.exercise("Theirs"))
    answer = wodup.imported(wodup.batch(result(lift(100, 5))))
    assert [one["movement_id"] for one in answer["unmatched_movements"]] == ["m-squat"]
    assert [row[1] for row in wodup.stored()] == ["Back Squat"]


def test_a_contradicting_set_is_reported_and_the_rest_goes_in(wodup):
    exercise = wodup.app.exercise("Air Squat", "reps_only")
    wodup.map("m-squat", exercise, wodup.app.user_id)
    batch = wodup.batch(result(lift(100, 5), lift(0, 8)), result(lift(90, 5), id="r-2"))
    answer = wodup.imported(batch)
    assert [row[2:4] for row in wodup.stored()] == [(None, 8)]
    assert (answer["results_saved"], answer["results_skipped"]) == (1, 1)
    assert (answer["sets_saved"], answer["sets_skipped"]) == (1, 2)
    assert [problem["path"] for problem in answer["contradictions"]] == [
        "$.movements[0]",
        "$.days[0].results[0].sets[0]",
        "$.days[0].results[1].sets[0]",
    ]
    assert answer["contradictions"][0]["reason"] == (
        f"movement m-squat has the flags of weight_reps, exercise {exercise} is tracked as reps_only"
    )
    before = wodup.everything()
    assert wodup.imported(batch)["results_skipped"] == 1
    assert wodup.everything() == before


def test_an_archived_exercise_takes_no_sets(wodup):
    exercise = wodup.app.exercise("Squat")
    wodup.map("m-squat", exercise, wodup.app.user_id)
    wodup.database.admin("update public.exercises set archived_at = now() where id = :id", id=exercise)
    answer = wodup.imported(wodup.batch(result(lift(100, 5), {"movementId": 7, "reps": 3})))
    assert answer["contradictions"] == [
        {"path": "$.days[0].results[0].sets[0]", "reason": f"exercise {exercise} is archived"}
    ]
    assert [row[1] for row in wodup.stored()] == ["Pull-up"]


# --- refused


def without(mapping, key):
    return {name: value for name, value in mapping.items() if name != key}


ONE = result(lift(100, 5))


BROKEN_FRAMES = (
    ({"user_id": None}, "$.user_id: is required"),
    ({"user_id": "me"}, "$.user_id: must be a uuid"),
    ({"id": []}, "$.id: must be a text or a number"),
    ({"movements": {}}, "$.movements: must be a list of movements"),
    ({"movements": [1]}, "$.movements[0]: must be an object"),
    ({"movements": [SQUAT, without(PULL_UP, "id")]}, "$.movements[1].id: is required"),
    ({"movements": [SQUAT, SQUAT]}, "$.movements[1].id: stands twice in the list"),
    ({"movements": [SQUAT | {"name": " "}]}, "$.movements[0].name: is required"),
    ({"movements": [SQUAT | {"hasLoad": "yes"}]}, "$.movements[0].hasLoad: must be true or false"),
    ({"days": None}, "$.days: must be a list of days"),
    ({"days": [1]}, "$.days[0]: must be an object"),
    ({"days": [{"day": "2026-02-30", "results": []}]}, "$.days[0].day: must be a date, YYYY-MM-DD"),
    ({"days": [{"day": "2026-03-10"}]}, "$.days[0].results: must be a list of results"),
    ({"days": [{"day": "2026-03-10", "results": [7]}]}, "$.days[0].results[0]: must be an object"),
    ({"days": [{"results": [ONE]}]}, "$.days[0].results[0].doneOn: is required"),
)


def test_a_broken_frame_is_refused_with_its_path(wodup):
    for change, message in BROKEN_FRAMES:
        assert wodup.refusal(wodup.batch(ONE) | change) == ("22023", message)
    assert wodup.stored() == []


BROKEN_RESULTS = (
    ([without(ONE, "id")], "$.days[0].results[0].id: is required"),
    ([ONE, ONE], "$.days[0].results[1].id: stands twice in the batch"),
    ([without(ONE, "sets")], "$.days[0].results[0].sets: must be a list of sets"),
    ([result()], "$.days[0].results[0].sets: must have 1 to 2000 sets"),
    ([ONE | {"doneOn": "10.03.2026"}], "$.days[0].results[0].doneOn: must be a date, YYYY-MM-DD"),
    (
        [ONE | {"doneAt": "2026-03-10T18:30:00"}],
        "$.days[0].results[0].doneAt: must be a time with its offset, like 2026-01-31T18:30:00+01:00",
    ),
    (
        [ONE | {"doneAt": "2026-03-10T99:30:00", "timeZone": "UTC"}],
        "$.days[0].results[0].doneAt: must be a time with its offset, like 2026-01-31T18:30:00+01:00",
    ),
    (
        [ONE | {"timeZone": "Mars/Olympus"}],
        "$.days[0].results[0].timeZone: must be the name of a time zone, like Europe/Berlin",
    ),
    ([result(1)], "$.days[0].results[0].sets[0]: must be an object"),
    ([result(without(lift(1, 1), "movementId"))], "$.days[0].results[0].sets[0].movementId: is required"),
    (
        [ONE, result(lift(1, 1), lift(1, 1.5), id=2)],
        "$.days[0].results[1].sets[1].reps: must be a whole number",
    ),
    ([result(lift(1, -1))], "$.days[0].results[0].sets[0].reps: must be from 0 to 1000000"),
    ([result(lift("heavy", 1))], "$.days[0].results[0].sets[0].load: must be a number"),
    ([result(lift(-5, 1))], "$.days[0].results[0].sets[0].load: must be from 0 to 22046"),
    ([result(lift(10000, 1))], "$.days[0].results[0].sets[0].load: must be from 0 to 9999.99"),
    (
        [result(without(lift(100, 5), "loadUnit"))],
        "$.days[0].results[0].sets[0].loadUnit: must be kg or lb: a load has a unit",
    ),
    ([result(lift(9, 5, unit="stone"))], "$.days[0].results[0].sets[0].loadUnit: must be kg or lb"),
    (
        [result({"movementId": 7, "durationSeconds": 1e9})],
        "$.days[0].results[0].sets[0].durationSeconds: must be from 0 to 604800",
    ),
)


def test_a_broken_result_is_refused_with_its_path_and_nothing_is_stored(wodup):
    for results, message in BROKEN_RESULTS:
        assert wodup.refusal(wodup.batch(*results)) == ("22023", message)
    assert wodup.stored() == []
    assert wodup.app.state() == (0, 0)


def test_no_object_is_refused(wodup):
    for batch in (None, [], 1, "x"):
        assert wodup.refusal(batch) == ("22023", "$: must be an object")


def test_only_service_and_administrators_import(wodup):
    call = "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))"
    batch = json.dumps(wodup.batch(ONE))
    with pytest.raises(DBAPIError) as refused:
        wodup.database.as_account(wodup.app.user_id)(call, batch=batch)
    assert refused.value.orig.pgcode == "42501"
    admin = wodup.database.as_account(uuid4(), admin=True)
    assert admin.value(call, batch=batch)["results_saved"] == 1


# --- the command


@pytest.fixture
def batch_file(tmp_path):
    def write(content):
        path = tmp_path / "batch.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def test_the_command_prints_the_account(wodup, batch_file, capsys):
    file = batch_file(
        without(wodup.batch(result(lift(100, 5), {"movementId": 7, "load": 5, "loadUnit": "kg"})), "user_id")
    )
    import_file(file, "wodup", None, wodup.app.user_id, "UTC", wodup.database.url)
    printed = capsys.readouterr().out
    assert "1 sessions saved, 0 already there, 0 not stored, of 1 results" in printed
    assert "1 sets taken + 1 skipped" in printed
    assert 'unmatched movement m-squat became the exercise "Back Squat" (weight_reps' in printed
    assert "which is tracked as reps_only ($.days[0].results[0].sets[1])" in printed
    assert "refresh: published" in printed


def test_a_bad_file_is_one_line_and_writes_nothing(wodup, batch_file):
    for content, unit, problem in (
        ("{", None, "is not JSON"),
        ("[]", None, "found another kind of value"),
        ("[" * 100_000, None, "is nested too deeply"),
        ('{"days": NaN}', None, "NaN is no number"),
        ({"user_id": str(uuid4())}, None, "is the batch of account"),
        ({"days": 1}, None, r"is refused: \$.days: must be a list of days; nothing of it was stored"),
        ({"days": []}, "kg", "leave --unit out"),
    ):
        with pytest.raises(OperatorError, match=problem) as refused:
            import_file(batch_file(content), "wodup", unit, wodup.app.user_id, "UTC", wodup.database.url)
        assert "\n" not in str(refused.value)
    assert wodup.stored() == []


def test_the_batch_that_the_docs_show_is_one(wodup):
    text = (Path(__file__).parents[2] / "docs" / "importing.md").read_text()
    batch = json.loads(text.partition("```json")[2].partition("```")[0])

    answer = wodup.imported(batch)

    assert (answer["results_saved"], answer["sets_saved"], answer["refresh"]) == (1, 1, "published")
