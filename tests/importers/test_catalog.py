"""A list of exercises: what becomes a global exercise, how it is tracked, a second time, what is reported."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from support.app import AppAccount
from support.races import session

from core.errors import OperatorError
from core.processes import wait_until
from ops.importing import import_file
from tasks.transaction import account

HEADER = "id,name,category,equipment,force,tracking\n"


@pytest.fixture
def listed(tmp_path):
    """Return what writes a list of `rows`."""

    def write(rows, header=HEADER):
        file = tmp_path / "exercises.csv"
        file.write_text(header + rows)
        return file

    return write


def add(database, file, **options):
    given = {"unit": None, "user": None, "timezone": "UTC"} | options
    import_file(file, "catalog", database_url=database.url, **given)


def catalog(database):
    return database.admin(
        'select id, name, tracking, owner_user_id::text from public.exercises order by id collate "C"'
    )


@pytest.mark.parametrize(
    ("category", "equipment", "force", "tracking"),
    [
        ("strength", "barbell", "push", "weight_reps"),
        ("powerlifting", "other", "", "weight_reps"),
        ("strength", "body only", "pull", "bodyweight_reps"),
        ("strength", "", "", "bodyweight_reps"),
        ("plyometrics", "other", "push", "bodyweight_reps"),
        ("plyometrics", "medicine ball", "push", "weight_reps"),
        ("strength", "Body Only", "Static", "duration"),
        ("strongman", "other", "static", "weight_duration"),
        ("stretching", "foam roll", "", "duration"),
        ("cardio", "machine", "", "distance_duration"),
    ],
)
def test_how_it_is_tracked_follows_from_what_the_list_says(
    database, listed, category, equipment, force, tracking
):
    add(database, listed(f"Some_Id,Some Name,{category},{equipment},{force},\n"))
    assert catalog(database) == [("Some_Id", "Some Name", tracking, None)]


def test_a_column_tracking_says_it_otherwise(database, listed):
    add(database, listed("Push_Up,Push-up,strength,body only,push,reps_only\n"))
    assert catalog(database) == [("Push_Up", "Push-up", "reps_only", None)]


def test_broken_rows_are_reported_with_their_reason_and_the_rest_goes_in(database, listed, capsys):
    rows = (
        "Squat,Squat,strength,barbell,push,\n"
        ",No Id,strength,barbell,push,\n"
        "No_Name,,strength,barbell,push,\n"
        "Squat,Squat again,strength,barbell,push,\n"
        "Short,Short,strength\n"
        "Odd,Odd,strength,barbell,push,heaviness\n"
        f"{'x' * 201},Long,strength,barbell,push,\n"
        '"Press, Military",Military Press,strength,barbell,push,\n'
    )
    add(database, listed(rows))

    printed = capsys.readouterr().out
    assert "skipped 1: no id (line 3)" in printed
    assert "skipped 1: no name (line 4)" in printed
    assert "skipped 1: has the id of line 2 (line 5)" in printed
    assert "skipped 1: 3 columns instead of 6 (line 6)" in printed
    assert 'skipped 1: tracking "heaviness" is none of weight_reps, bodyweight_reps' in printed
    assert "has more than 200 characters (line 8)" in printed
    assert "2 exercises added (2 weight_reps), 0 already there" in printed
    assert "2 exercises + 6 rows skipped = 8 data rows" in printed
    assert [exercise[0] for exercise in catalog(database)] == ["Press, Military", "Squat"]


def test_what_is_there_is_left_as_it_is_and_differences_are_told(database, listed, capsys):
    add(database, listed("Squat,Squat,strength,barbell,push,\nPlank,Plank,strength,body only,static,\n"))
    database.admin("update public.exercises set archived_at = now(), name = 'Hold' where id = 'Plank'")
    before = database.admin("select x::text from public.exercises x order by 1")
    capsys.readouterr()

    add(
        database,
        listed("Squat,Squat,strength,barbell,push,\nPlank,Plank,strength,body only,static,reps_only\n"),
    )

    assert database.admin("select x::text from public.exercises x order by 1") == before
    printed = capsys.readouterr().out
    assert (
        'note: Plank is left as it is: name "Hold" there, "Plank" here; tracking "duration" there, "reps_only" here;'
        " archived there (line 3)" in printed
    )
    assert "0 exercises added, 2 already there" in printed


def test_an_account_s_own_exercise_of_that_id_stays_its_own(database, listed, capsys):
    owner = AppAccount(database)
    mine = owner.exercise("Mine")
    file = listed(f"{mine},Taken,strength,barbell,push,\nSquat,Squat,strength,barbell,push,\n")

    add(database, file)

    assert (
        "skipped 1: exercise refused by the database: exercise_id: is taken (line 2)"
        in capsys.readouterr().out
    )
    assert {(exercise[0], exercise[1]) for exercise in catalog(database)} == {
        (mine, "Mine"),
        ("Squat", "Squat"),
    }


@pytest.mark.parametrize("administrator", [UUID(int=0), uuid4()], ids=["another import", "a person"])
def test_what_is_added_meanwhile_is_left_as_it_is(database, listed, capsys, administrator):
    with (
        session(database, "administrator", account(administrator, admin=True)) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        other.run(
            "select public.upsert_exercise_v1('Theirs', 'reps_only', :user, 'Squat', true)",
            user=administrator,
        )
        importing = thread.submit(add, database, listed("Squat,Ours,strength,barbell,push,\n"))
        assert wait_until(lambda: somebody_waits(database), 20)
        other.commit()
        importing.result(20)

    assert catalog(database) == [("Squat", "Theirs", "reps_only", None)]
    printed = capsys.readouterr().out
    assert "0 exercises added, 1 already there" in printed
    assert 'Squat is left as it is: name "Theirs" there, "Ours" here; tracking "reps_only" there' in printed


def somebody_waits(database):
    return bool(
        database.admin(
            "select from pg_catalog.pg_stat_activity"
            " where wait_event_type = 'Lock' and datname = pg_catalog.current_database()"
        )
    )


def test_two_at_once_add_each_exercise_once(database, listed, capsys):
    file = listed("".join(f"E{n},Exercise {n},strength,barbell,push,\n" for n in range(60)))
    both = [threading.Thread(target=add, args=(database, file)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()

    assert len(catalog(database)) == 60
    printed = capsys.readouterr().out
    added = [int(line.split()[0]) for line in printed.splitlines() if " exercises added" in line]
    assert len(added) == 2
    assert sum(added) == 60


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"user": uuid4()}, "belong to no account: leave --user out"),
        ({"unit": "kg"}, "has no weights: leave --unit out"),
        ({"lifter": "L1"}, "--lifter is only for --format meets"),
    ],
)
def test_options_that_make_no_sense_are_refused(database, listed, options, problem):
    with pytest.raises(OperatorError, match=problem):
        add(database, listed("Squat,Squat,strength,barbell,push,\n"), **options)
    assert catalog(database) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (HEADER, "found the header line alone"),
        (
            f"{HEADER},Nameless,strength,barbell,push,\n",
            "none of its 1 rows is an exercise; line 2, for one: no id",
        ),
        ("id,name\nSquat,Squat\n", "with the columns id, name, category, equipment"),
        ("LifterId,Best3SquatKg\n", "looks like a list of meet results: pass --format meets"),
    ],
)
def test_a_file_that_is_no_such_list_says_what_is_wrong(database, listed, content, problem):
    with pytest.raises(OperatorError, match=problem):
        add(database, listed(content, header=""))


def test_the_real_list_goes_in_whole_and_a_second_time_changes_nothing(database, real_file, capsys):
    file = real_file("exercise-catalog.csv")
    add(database, file)

    assert "873 exercises + 0 rows skipped = 873 data rows" in capsys.readouterr().out
    stored = catalog(database)
    assert Counter(tracking for _, _, tracking, _ in stored) == {
        "weight_reps": 600, "duration": 130, "bodyweight_reps": 126, "distance_duration": 14, "weight_duration": 3,
    }  # fmt: skip
    assert ("Barbell_Squat", "Barbell Squat", "weight_reps", None) in stored
    assert ("Plank", "Plank", "duration", None) in stored
    # Nobody uses them yet: nothing is to be recomputed.
    assert database.admin("select count(*) from public.stats_catalog_scopes") == [(0,)]

    before = database.admin("select x::text from public.exercises x order by 1")
    add(database, file)
    assert "0 exercises added, 873 already there" in capsys.readouterr().out
    assert database.admin("select x::text from public.exercises x order by 1") == before


def test_an_account_trains_with_the_catalog(database, real_file, stages):
    add(database, real_file("exercise-catalog.csv"))
    app = AppAccount(database)
    app.save({"exercise_id": "Barbell_Squat", "sets": [{"weight_kg": 100, "reps": 5}]})
    stages.drain()

    [on_board] = app.call("select public.get_pr_overview(current_date)")["exercises"]
    assert on_board["exercise_id"] == "Barbell_Squat"
