"""A history that is imported again, from a later export or another app, is one history."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

import pytest
from support.app import AppAccount, Stages
from support.histories import stored_sets

from importers.formats import read_history
from importers.saving import import_history

STRONG = (
    "Date,Workout Name,Duration,Exercise Name,Set Order,Weight,Reps,Distance,Seconds,Notes,Workout Notes,RPE"
)
HEVY = (
    "title,start_time,end_time,description,exercise_title,superset_id,exercise_notes,set_index,set_type,weight_kg,reps,"
    "distance_km,duration_seconds,rpe"
)
FITNOTES = "Date,Exercise,Category,Weight (kgs),Reps,Distance,Distance Unit,Time"
HEADERS = {"strong": STRONG, "hevy": HEVY, "fitnotes": FITNOTES}


class Account:
    """One account that imports files."""

    def __init__(self, database, folder):
        self.database = database
        self.user = uuid4()
        self._folder = folder
        self._me = database.as_account(self.user)

    def imports(self, format, *rows, **options):
        file = self._folder / f"{format}.csv"
        file.write_text("\n".join([HEADERS[format], *rows]) + "\n")
        report = import_history(
            self.database.engine, self.user, format, read_history(file, format, "kg"), **options
        )
        assert report.sets_taken + len(report.skipped) == report.data_rows
        return report

    def sessions(self):
        return self._me(
            "select session_date::text, to_char(started_at at time zone 'UTC', 'HH24:MI:SS'), title"
            " from public.workout_sessions order by session_date, started_at"
        )

    def sets(self):
        return [(name, weight, reps) for name, _, weight, reps, *_ in stored_sets(self.database, self.user)]

    def volume(self):
        return sum(weight * reps for _, weight, reps in self.sets() if weight)

    def edit(self, weight):
        """Correct the weight of the only set here."""
        [[session_id, day, exercise_id]] = self._me(
            "select w.id, w.session_date, p.exercise_id"
            " from public.workout_sessions w join public.session_exercise_part p on p.session_id = w.id"
        )
        AppAccount(self.database, self.user).save(
            session_id=str(session_id),
            session_date=str(day),
            exercises=[{"exercise_id": exercise_id, "sets": [{"weight_kg": weight, "reps": 5}]}],
        )

    def delete_all(self):
        for (session_id,) in self._me("select id from public.workout_sessions"):
            self._me(
                "select public.delete_session_v5(:s, :me, gen_random_uuid())", s=session_id, me=self.user
            )

    def set_tracking(self, name, tracking):
        exercise_id = self._me.value("select id from public.exercises where name = :name", name=name)
        self._me(
            "select public.upsert_exercise_v1(:name, :tracking, :me, :x)",
            name=name, tracking=tracking, me=self.user, x=exercise_id,
        )  # fmt: skip

    def tracking(self, name):
        return self._me.value("select tracking from public.exercises where name = :name", name=name)

    def records(self, name, kind):
        Stages(self.database).drain()
        return [
            value
            for (value,) in self.database.admin(
                "select r.value from public.user_exercise_records r join public.exercises x on x.id = r.exercise_id"
                " where r.user_id = :user and x.name = :name and r.kind = :kind order by r.day",
                user=self.user, name=name, kind=kind,
            )
        ]  # fmt: skip


@pytest.fixture
def account(database, tmp_path):
    return Account(database, tmp_path)


def outcome(report):
    return (
        report.sessions_saved,
        report.sessions_updated,
        report.sessions_already_there,
        report.sessions_differing,
    )


def strong(start, exercise, weight, reps, title="Legs", number=1, seconds=0):
    return f'{start},"{title}",30m,"{exercise}",{number},{weight},{reps},0,{seconds},"","",'


def hevy(start, exercise, weight, reps, title="Push"):
    end = start.replace(":00", ":30")
    return f'"{title}","{start}","{end}","","{exercise}",,"",0,"normal",{weight},{reps},,,'


# 1: a phone's zone


def test_a_zone_that_changed_makes_no_second_session(account):
    account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 105, 5))
    report = account.imports("strong", strong("2026-01-05 17:00:10", "Squat", 105, 5))
    assert outcome(report) == (0, 1, 0, 0)
    assert account.sessions() == [("2026-01-05", "17:00:10", "Legs")]
    assert account.volume() == 525


def test_180_workouts_that_an_hour_moved_stay_180(account):
    def export(hour):
        return [
            strong(f"2026-{n // 28 + 1:02}-{n % 28 + 1:02} {hour}:00:10", "Squat", 60 + n, 5)
            for n in range(180)
        ]

    account.imports("strong", *export(18))
    assert outcome(account.imports("strong", *export(17))) == (0, 180, 0, 0)
    assert outcome(account.imports("strong", *export(17))) == (0, 0, 180, 0)
    assert len(account.sessions()) == 180


@pytest.mark.parametrize("later", ["2026-03-03 18:00:10", "2026-03-02 19:15:10", "2026-03-03 20:00:10"])
def test_a_file_with_nothing_but_another_workout_is_not_shifted(account, later):
    account.imports("strong", '2026-03-02 18:00:10,"Legs",30m,"Squat",1,100,5,0,0,"","",')
    report = account.imports("strong", f'{later},"Push",30m,"Bench",1,60,8,0,0,"","",')
    assert outcome(report)[:2] == (1, 0)
    assert account.sets() == [("Squat", 100, 5), ("Bench", 60, 8)]


def test_daylight_saving_shifts_a_part(account):
    def export(winter, summer):
        return [
            strong(f"2026-{month:02}-{day:02} {winter if month < 4 else summer}:00:10", "Squat", 2 * day + month, 5)
            for month in range(1, 7)
            for day in (3, 9, 17)
        ]  # fmt: skip

    account.imports("strong", *export(18, 18))
    assert outcome(account.imports("strong", *export(17, 16))) == (0, 18, 0, 0)
    assert {start for _, start, _ in account.sessions()} == {"17:00:10", "16:00:10"}


# 2: a title, lost seconds


@pytest.mark.parametrize(
    ("start", "title"),
    [("2026-01-05 18:00:10", "Heavy Legs"), ("2026-01-05 18:00:00", "Legs"), ("2026-01-06 18:00:10", "Legs")],
)
def test_a_title_lost_seconds_or_the_next_day_make_no_second_session(account, start, title):
    account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 105, 5))
    assert outcome(account.imports("strong", strong(start, "Squat", 105, 5, title=title))) == (0, 1, 0, 0)
    assert account.sessions() == [(start[:10], start[11:], title)]


# 3: assistance


def assisted_days():
    return [
        hevy(f"{3 + n} Mar 2026, 18:00", "Pull Up (Assisted)", kg, 8) for n, kg in enumerate((30, 20, 40))
    ]


def test_assistance_is_assistance(account):
    account.imports("hevy", *assisted_days())
    assert account.tracking("Pull Up (Assisted)") == "assisted_reps"
    assert account.records("Pull Up (Assisted)", "least_assistance") == [Decimal(30), Decimal(20)]
    assert account.records("Pull Up (Assisted)", "e1rm") == []


def test_assistance_that_an_earlier_release_took_for_loads_becomes_assistance(account):
    account.imports("hevy", *assisted_days())
    account.database.admin("update public.exercises set tracking = 'weight_reps'")
    assert outcome(account.imports("hevy", *assisted_days())) == (0, 0, 3, 0)
    assert account.tracking("Pull Up (Assisted)") == "assisted_reps"
    assert account.records("Pull Up (Assisted)", "least_assistance") == [Decimal(30), Decimal(20)]


def test_where_it_is_assisted_already_no_row_is_skipped(account):
    account.imports("hevy", hevy("1 Mar 2026, 18:00", "Pull Up", -30, 8))
    report = account.imports("hevy", hevy("2 Mar 2026, 18:00", "Pull Up", 20, 8))
    assert (report.sets_taken, len(report.skipped)) == (1, 0)
    assert account.tracking("Pull Up") == "assisted_reps"


def test_a_plain_name_with_both_signs_keeps_its_tracking(account):
    report = account.imports("strong", *both_signs())
    [skipped] = report.skipped
    assert skipped.line == 2
    assert skipped.reason.startswith(
        'a negative weight (assistance) on "Dip", which is tracked as weight_reps'
    )
    assert skipped.reason.endswith("or correct the sign, and import again")
    assert account.sets() == [("Dip", Decimal(10), 8)]


def test_a_name_with_both_signs_that_a_person_set_to_assistance_loses_none(account):
    account.imports("strong", *both_signs())
    account.set_tracking("Dip", "assisted_reps")
    report = account.imports("strong", *both_signs())
    assert list(report.skipped) == []
    assert account.sets() == [("Dip", Decimal(20), 8), ("Dip", Decimal(10), 8)]


def both_signs():
    return (
        strong("2026-01-05 18:00:10", "Dip", -20, 8),
        strong("2026-01-05 18:00:10", "Dip", 10, 8, number=2),
    )


def test_a_persons_own_tracking_wins_over_the_name(account):
    account.imports("hevy", *assisted_days())
    account.set_tracking("Pull Up (Assisted)", "weight_reps")
    account.imports("hevy", *assisted_days())
    assert account.tracking("Pull Up (Assisted)") == "weight_reps"


# 4: an exercise that shows more later


def test_a_belt_added_later_fits(account):
    january = strong("2026-01-05 18:00:10", "Pull Up", 0, 8)
    account.imports("strong", january)
    february = strong("2026-02-05 18:00:10", "Pull Up", 10, 5)
    report = account.imports("strong", january, february)
    assert outcome(report) == (1, 0, 1, 0)
    assert account.sets() == [("Pull Up", None, 8), ("Pull Up", Decimal(10), 5)]
    assert account.tracking("Pull Up") == "bodyweight_reps"


@pytest.mark.parametrize(
    ("first", "later", "tracking"),
    [
        ((0, 0, 60), (20, 0, 45), "weight_duration"),
        ((0, 8, 0), (-20, 8, 0), "assisted_reps"),
    ],
)
def test_an_exercise_that_an_import_made_widens(account, first, later, tracking):
    def row(day, numbers):
        weight, reps, seconds = numbers
        return strong(f"2026-01-{day:02} 18:00:10", "Hold", weight, reps, seconds=seconds)

    account.imports("strong", row(5, first))
    report = account.imports("strong", row(5, first), row(6, later))
    assert outcome(report) == (1, 0, 1, 0)
    assert account.tracking("Hold") == tracking
    assert len(account.sets()) == 2


def test_what_a_person_has_set_does_not_widen(account):
    account.imports("strong", strong("2026-01-05 18:00:10", "Plank", 0, 0, seconds=60))
    account.set_tracking("Plank", "duration")
    report = account.imports("strong", strong("2026-01-06 18:00:10", "Plank", 20, 0, seconds=45))
    assert account.tracking("Plank") == "duration"
    [skipped] = report.skipped
    assert "upsert_exercise_v1" in skipped.reason


# 5: changed in the app since

NOON = "2026-03-03,Squat,Legs,100.0,5,,,"
EVENING = "2026-03-03,Bench,Chest,80.0,5,,,"


def test_what_the_evening_adds_comes_in(account):
    account.imports("fitnotes", NOON)
    report = account.imports("fitnotes", NOON, EVENING)
    assert (outcome(report), report.sets_taken) == ((0, 1, 0, 0), 2)
    assert [name for name, _, _ in account.sets()] == ["Squat", "Bench"]


def test_a_typo_corrected_in_the_app_is_corrected_here(account):
    account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 100, 877777))
    assert outcome(account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 100, 7))) == (0, 1, 0, 0)
    assert account.sets() == [("Squat", Decimal(100), 7)]


def test_a_set_deleted_in_the_app_goes(account):
    one, two = (strong("2026-01-05 18:00:10", "Squat", 100, 5 + n, number=n) for n in (1, 2))
    account.imports("strong", one, two)
    assert outcome(account.imports("strong", one)) == (0, 1, 0, 0)
    assert account.sets() == [("Squat", Decimal(100), 6)]


@pytest.mark.parametrize("hour", [18, 16])
def test_the_old_name_keeps_no_records(account, hour):
    days = [(day, 100 + day) for day in range(1, 10)]
    account.imports("strong", *(strong(f"2026-01-{d:02} 18:00:10", "Squat", kg, 5) for d, kg in days))
    assert account.records("Squat", "weight")
    renamed = [strong(f"2026-01-{d:02} {hour}:00:10", "Low Bar", kg, 5) for d, kg in days]
    assert outcome(account.imports("strong", *renamed)) == (0, 9, 0, 0)
    assert account.records("Squat", "weight") == []
    assert len(account.sessions()) == 9


def test_what_was_edited_here_stays_and_is_told(account):
    account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 100, 5))
    account.edit(90)
    for weight in (100, 105):
        report = account.imports("strong", strong("2026-01-05 17:00:10", "Squat", weight, 5))
        assert outcome(report) == (0, 0, 0, 1)
        assert [(row.line, row.reason) for row in report.skipped] == [
            (2, "differs from what is stored here, edited here: that stays")
        ]
    assert account.sets() == [("Squat", Decimal(90), 5)]


def test_what_was_deleted_here_stays_deleted(account):
    account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 100, 5))
    account.delete_all()
    account.database.admin("delete from public.stats_mutation_receipts")
    for start, title, rows in [
        ("2026-01-05 18:00:10", "Legs", 1),
        ("2026-01-05 17:00:10", "Legs", 1),
        ("2026-01-05 17:00:10", "Legs", 2),
        ("2026-01-05 15:30:10", "Heavy", 2),
    ]:
        report = account.imports(
            "strong", *(strong(start, "Squat", 100, 4 + n, title=title, number=n) for n in range(1, rows + 1))
        )
        assert account.sessions() == []
        assert {row.reason for row in report.skipped} == {"deleted here: it stays deleted"}


def test_keep_updates_nothing(account):
    account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 100, 5))
    report = account.imports("strong", strong("2026-01-05 18:00:10", "Squat", 105, 5), keep=True)
    assert outcome(report) == (0, 0, 0, 1)
    assert account.sets() == [("Squat", Decimal(100), 5)]


def test_an_older_file_changes_nothing(account):
    one, two = (strong("2026-01-05 18:00:10", "Squat", 100, 5 + n, number=n) for n in (1, 2))
    last = strong("2026-01-09 18:00:10", "Squat", 110, 5)
    account.imports("strong", one, two, last)
    assert outcome(account.imports("strong", one)) == (0, 0, 1, 0)
    assert len(account.sets()) == 3
    # Nothing is older about a file that ends with the same workout, but it lacks one.
    assert outcome(account.imports("strong", last.replace(",5,0,0", ",6,0,0"))) == (0, 1, 0, 0)


def test_a_dry_run_says_the_same_and_writes_nothing(account):
    def rows():
        return account.database.admin(
            "select (select count(*) from public.workout_sessions), (select count(*) from public.exercises),"
            " (select count(*) from stats_private.imported_workouts), (select array_agg(updated_at)"
            " from public.workout_sessions)"
        )

    squat = strong("2026-01-05 18:00:10", "Squat", 100, 5)
    files = [[squat], [squat.replace(",100,", ",105,"), strong("2026-01-06 18:00:10", "Bench", 80, 5)]]
    for file in files:
        before = rows()
        dry = account.imports("strong", *file, dry_run=True)
        assert (rows(), dry.is_dry_run) == (before, True)
        assert outcome(account.imports("strong", *file)) == outcome(dry)


def test_what_an_earlier_release_imported_is_known(account):
    """It kept neither the sets nor a hash of what it had saved."""
    squat = strong("2026-01-05 18:00:10", "Squat", 100, 5)
    bench = strong("2026-01-07 18:00:10", "Bench", 80, 5)
    account.imports("strong", squat, bench)
    account.database.admin("update stats_private.imported_workouts set sets = null, content = null")
    assert outcome(account.imports("strong", squat, bench)) == (0, 0, 2, 0)
    account.database.admin("update stats_private.imported_workouts set sets = null, content = null")
    moved = [row.replace("18:00:10", "17:00:10") for row in (squat, bench)]
    assert outcome(account.imports("strong", moved[0], moved[1].replace(",80,", ",85,"))) == (0, 2, 0, 0)
    account.database.admin("update stats_private.imported_workouts set sets = null, content = null")
    account.delete_all()
    account.imports("strong", *moved)
    assert account.sessions() == []


# 6: two apps


def test_one_stored_session_answers_for_one_workout(account):
    account.imports("strong", strong("2026-03-03 20:00:10", "Push Up", 0, 20))
    report = account.imports(
        "hevy",
        *(hevy(f"{day} Mar 2026, {hour}:00", "Push Up", "", 20) for day in (3, 4) for hour in ("08", "20")),
    )
    assert outcome(report) == (3, 0, 1, 0)
    assert len(account.sessions()) == 4


def test_zones_that_are_half_an_hour_off_make_no_double(account):
    account.imports("strong", strong("2026-03-03 18:00:10", "Squat", 100, 5))
    report = account.imports("hevy", hevy("3 Mar 2026, 12:30", "Squat", 100, 5))
    assert outcome(report) == (0, 0, 1, 0)
    assert account.sessions() == [("2026-03-03", "18:00:10", "Legs")]
    assert {row.reason for row in report.skipped} == {
        "the same workout is already there from strong, 5 h 30 min apart"
    }


def test_a_name_is_one_exercise_whatever_app_it_came_from(account):
    account.imports("strong", strong("2026-03-03 18:00:10", "Squat", 100, 5))
    account.imports("hevy", hevy("9 Mar 2026, 12:30", "Squat", 110, 5))
    assert account.database.admin("select count(*) from public.exercises") == [(1,)]
    assert account.records("Squat", "weight") == [Decimal(100), Decimal(110)]


def test_a_workout_that_another_app_brought_and_was_deleted_stays_deleted(account):
    account.imports("strong", strong("2026-03-03 18:00:10", "Squat", 100, 5))
    account.imports("hevy", hevy("3 Mar 2026, 18:00", "Squat", 100, 5))
    account.delete_all()
    account.imports("hevy", hevy("3 Mar 2026, 18:00", "Squat", 100, 5))
    assert account.sessions() == []


# 9: supersets


def test_supersets_are_kept(account):
    rows = [hevy("3 Mar 2026, 18:00", name, 100, 5).replace(",,", ",0,", 1) for name in ("Squat", "Bench")]
    account.imports("hevy", *rows, hevy("3 Mar 2026, 18:00", "Row", 60, 5))
    assert account.database.admin("select superset from public.session_exercise_part order by position") == [
        (1,),
        (1,),
        (None,),
    ]
