"""Meet results: which lifts become manual records, ties, failed lifts, a second time, what is reported."""

from __future__ import annotations

import csv
import threading
from datetime import date
from decimal import Decimal
from uuid import uuid4

import pytest
from reckoning.compare import assert_account_equals_reckoning

from core.errors import OperatorError
from ops.importing import import_file

HEADER = "LifterId,Date,Equipment,Best3SquatKg,Best3BenchKg,Best3DeadliftKg\n"
LIFTS = {"Squat": "Best3SquatKg", "Bench Press": "Best3BenchKg", "Deadlift": "Best3DeadliftKg"}


@pytest.fixture
def listed(tmp_path):
    """Return what writes a list of `rows`."""

    def write(rows, header=HEADER):
        file = tmp_path / "meets.csv"
        file.write_text(header + rows)
        return file

    return write


def take(app_account, file, lifter=None, **options):
    given = {"unit": None, "user": app_account.user_id, "timezone": "UTC"} | options
    import_file(file, "meets", database_url=app_account.database.url, lifter=lifter, **given)


def records(app_account):
    return app_account.database.admin(
        "select x.name, r.achieved_on, r.one_rm_kg, r.source from public.user_manual_pr_records r"
        " join public.exercises x on x.id = r.exercise_id"
        " where r.user_id = :user order by r.achieved_on, x.name, r.one_rm_kg",
        user=app_account.user_id,
    )


def test_each_good_lift_is_a_record_of_its_equipment(app_account, listed, capsys):
    take(
        app_account,
        listed(
            "L1,2024-03-09,Raw,180,-110,212.5\nL1,2024-05-04,Single-ply,200,,\nL1,2024-06-01,Raw,180,,0\n"
        ),
    )

    assert records(app_account) == [
        ("Deadlift (Raw)", date(2024, 3, 9), Decimal("212.50"), "manual"),
        ("Squat (Raw)", date(2024, 3, 9), Decimal("180.00"), "manual"),
        ("Squat (Single-ply)", date(2024, 5, 4), Decimal("200.00"), "manual"),
        ("Squat (Raw)", date(2024, 6, 1), Decimal("180.00"), "manual"),  # a tie is a record of that day
    ]
    printed = capsys.readouterr().out
    assert "4 tested 1RMs recorded, 0 already there" in printed
    assert "3 rows taken + 0 skipped = 3 data rows" in printed


def test_rows_of_others_broken_rows_and_bomb_outs_are_accounted_for(app_account, listed, capsys):
    take(
        app_account,
        listed(
            "L2,2024-03-09,Raw,1,2,3\n"
            "L1,2024-03-09,Raw,180,,\n"
            "L1,2024-03-10,Raw,-180,,\n"
            "L1,09.03.2024,Raw,180,,\n"
            "L1,2024-03-11,Raw,heavy,,\n"
            "L1,2024-03-11,,180,,\n"
            "L1,2024-03-12,Raw,180\n"
            "L1,2024-03-13,Raw,10000,,\n"
            "L1,1066-10-14,Raw,180,,\n"
        ),
        lifter="L1",
    )
    printed = capsys.readouterr().out
    assert "skipped 1: no good lift (line 4)" in printed
    assert 'skipped 1: Date "09.03.2024" is not like 2024-12-31 (line 5)' in printed
    assert 'skipped 1: Best3SquatKg "heavy" is not a number (line 6)' in printed
    assert 'skipped 1: Equipment "" must have 1 to 40 characters (line 7)' in printed
    assert "skipped 1: 4 columns instead of 6 (line 8)" in printed
    assert 'skipped 1: Best3SquatKg "10000" is too large (line 9)' in printed
    assert (
        "Squat (Raw) of 1066-10-14 refused by the database: achieved_on: must be from 1900-01-01" in printed
    )
    assert "1 rows taken + 7 skipped + 1 of other lifters = 9 data rows" in printed
    assert len(records(app_account)) == 1


def test_the_same_lift_in_two_divisions_is_one_record_and_another_weight_another(app_account, listed, capsys):
    take(
        app_account,
        listed("L1,2024-03-09,Raw,,100,\nL1,2024-03-09,Raw,,100,\nL1,2024-03-09,Raw,,102.5,\n"),
    )
    assert [kilograms for _, _, kilograms, _ in records(app_account)] == [100, Decimal("102.50")]
    assert "2 tested 1RMs recorded, 1 already there" in capsys.readouterr().out


def test_a_second_time_changes_nothing_whether_receipts_are_kept_or_not(app_account, listed, capsys):
    file = listed("L1,2024-03-09,Raw,180,110,212.5\n")
    take(app_account, file)
    before = (records(app_account), app_account.state())
    take(app_account, file)
    assert (records(app_account), app_account.state()) == before

    app_account.database.admin("delete from public.stats_mutation_receipts")
    capsys.readouterr()
    take(app_account, file)
    assert (records(app_account), app_account.state()) == before
    assert "0 tested 1RMs recorded, 3 already there" in capsys.readouterr().out


def test_what_was_deleted_does_not_come_back(app_account, listed, capsys):
    file = listed("L1,2024-03-09,Raw,180,,\n")
    take(app_account, file)
    [[record]] = app_account.database.admin("select id from public.user_manual_pr_records")
    app_account.call(
        "select public.delete_manual_pr_v1(:record, :user, :mutation)", record=record, mutation=uuid4()
    )
    capsys.readouterr()

    take(app_account, file)

    assert records(app_account) == []
    assert "1 recorded before and deleted since" in capsys.readouterr().out


def test_a_mapping_leads_to_the_exercise_that_is_there(app_account, listed, capsys):
    mine = app_account.exercise("Back Squat")
    push_up = app_account.exercise("Push-up", "reps_only")
    for name, exercise in (("Squat (Raw)", mine), ("Bench Press (Raw)", push_up)):
        app_account.database.admin(
            "insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)"
            " values ('meets', :name, :owner, :exercise)",
            name=name,
            owner=app_account.user_id,
            exercise=exercise,
        )

    take(app_account, listed("L1,2024-03-09,Raw,180,110,\nL1,2024-03-10,Raw,,110,\n"))

    assert [name for name, *_ in records(app_account)] == ["Back Squat"]
    printed = capsys.readouterr().out
    refused = "refused by the database: exercise_id: a reps_only exercise has no weight"
    assert f"note: Bench Press (Raw) of 2024-03-09 {refused} (line 2)" in printed  # its squat was taken
    assert f"skipped 1: Bench Press (Raw) of 2024-03-10 {refused} (line 3)" in printed
    assert "1 rows taken + 1 skipped = 2 data rows" in printed


def test_every_row_that_lost_a_lift_is_named(app_account, listed, capsys):
    app_account.database.admin(
        "insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)"
        " values ('meets', 'Squat (Raw)', :owner, :exercise)",
        owner=app_account.user_id,
        exercise=app_account.exercise("Push-up", "reps_only"),
    )
    take(app_account, listed("L1,2024-03-09,Raw,180,110,\nL1,2024-04-09,Raw,181,111,\n"))
    printed = capsys.readouterr().out
    for day, line in (("2024-03-09", 2), ("2024-04-09", 3)):
        assert (
            f"note: Squat (Raw) of {day} refused by the database: exercise_id: a reps_only exercise has no weight"
            f" (line {line})" in printed
        )
    assert "2 tested 1RMs recorded, 0 already there, 2 refused" in printed


def test_empty_rows_at_the_end_are_nobody_s(app_account, listed, capsys):
    take(app_account, listed("L1,2024-03-09,Raw,180,,\n,,,,,\n,,,,,\n"))
    assert len(records(app_account)) == 1
    assert "skipped 2: no LifterId (lines 3-4)" in capsys.readouterr().out


def test_a_lifter_s_spaces_do_not_count_as_they_do_not_in_the_file(app_account, listed):
    take(app_account, listed(" L1 ,2024-03-09,Raw,180,,\nL2,2024-03-09,Raw,180,,\n"), " L1 ")
    assert len(records(app_account)) == 1


def test_two_at_once_record_each_lift_once(app_account, listed, capsys):
    file = listed("".join(f"L1,2024-03-{day:02},Raw,{100 + day},,\n" for day in range(1, 31)))
    both = [threading.Thread(target=take, args=(app_account, file)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(records(app_account)) == 30
    printed = capsys.readouterr().out
    recorded = [int(line.split()[0]) for line in printed.splitlines() if " tested 1RMs recorded" in line]
    assert len(recorded) == 2
    assert sum(recorded) == 30


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, r'has the results of several lifters \("L1", "L2", ...\): pass --lifter'),
        ({"lifter": "L3"}, 'found no good lift of lifter "L3"'),
        ({"lifter": "L2"}, 'found no good lift of lifter "L2"; line 3, for one: no good lift'),
        ({"lifter": "L1", "unit": "lb"}, "--unit lb contradicts the file, whose weights are in kg"),
        ({"lifter": "L1", "user": None}, "pass --user"),
    ],
)
def test_what_has_to_be_said_is_asked_for(app_account, listed, options, problem):
    with pytest.raises(OperatorError, match=problem):
        take(app_account, listed("L1,2024-03-09,Raw,180,,\nL2,2024-03-09,Raw,-180,,\n"), **options)
    assert records(app_account) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (HEADER, "found the header line alone"),
        ("LifterId,Best3SquatKg\nL1,100\n", "with the columns LifterId, Date, Equipment"),
        (HEADER + "L1,2024-03-09\nL1,2024-04-09\n", "line 2, for one: 2 columns instead of 6"),
        (
            HEADER.replace("Best3SquatKg", "Best3SquatKg (lb)") + "L1,2024-03-09,Raw,400,,\n",
            'the column Best3SquatKg is in "lb"; expected kilograms',
        ),
        ("id,name,equipment,primary_muscles\n", "looks like a list of exercises: pass --format catalog"),
    ],
)
def test_a_file_that_is_no_such_list_says_what_is_wrong(app_account, listed, content, problem):
    with pytest.raises(OperatorError, match=problem):
        take(app_account, listed(content, header=""))


@pytest.mark.parametrize("lifter", ["L0001", "L0174"])
def test_a_real_lifter_s_latest_tested_1rms_stand_on_the_board(
    app_account, stages, real_file, lifter, capsys
):
    file = real_file("powerlifting-meets-tested-1rm.csv")
    take(app_account, file, lifter=lifter)

    good: dict[str, list[tuple[str, Decimal]]] = {}
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            for lift, column in LIFTS.items():
                kilograms = Decimal(row[column] or 0)
                if row["LifterId"] == lifter and kilograms > 0:
                    good.setdefault(f"{lift} ({row['Equipment']})", []).append((row["Date"], kilograms))
    assert "= 6740 data rows" in capsys.readouterr().out
    stages.drain()

    board = app_account.call("select public.get_pr_overview(current_date)")
    names = dict(app_account.database.admin("select id, name from public.exercises"))
    shown = {
        names[row["exercise_id"]]: (row["one_rm_on"], Decimal(str(row["one_rm_kg"])))
        for row in board["exercises"]
    }
    assert shown == {name: max(lifts) for name, lifts in good.items()}
    with app_account.database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, app_account.user_id)
    stored = records(app_account)
    assert len(stored) == len({(name, *lift) for name, lifts in good.items() for lift in lifts})
    take(app_account, file, lifter=lifter)
    assert records(app_account) == stored


def test_no_row_of_the_real_list_stops_an_import(app_account, real_file, capsys):
    """Every fortieth lifter, into one account: each import reads the whole list."""
    file = real_file("powerlifting-meets-tested-1rm.csv")
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    good: dict[str, set[tuple[str, str, Decimal]]] = {}
    for row in rows:
        for lift, column in LIFTS.items():
            if (kilograms := Decimal(row[column] or 0)) > 0:
                name = f"{lift} ({row['Equipment']})"
                good.setdefault(row["LifterId"], set()).add((name, row["Date"], kilograms))

    lifters = sorted(good)[::40]
    for lifter in lifters:
        take(app_account, file, lifter=lifter)

    assert {(name, str(day), kilograms) for name, day, kilograms, _ in records(app_account)} == set().union(
        *(good[lifter] for lifter in lifters)
    )
    assert "refused" not in capsys.readouterr().out
