"""Histories into a real database: what is stored, a second time, refused."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from rich.console import Console
from sqlalchemy import create_engine
from support.app import AppAccount
from support.histories import (
    DAY,
    adds_up,
    block,
    history,
    lift,
    numbered_sessions,
    session,
    stored_sessions,
    stored_sets,
)

from core.errors import OperatorError
from importers.formats import read_history
from importers.history import ImportedSet, ParsedHistory
from importers.saving import MOST_SESSIONS, import_history
from ops.importing import import_and_report, import_file
from ops.sample_history import PROVIDER, sample_history

DAY2 = DAY + timedelta(days=1)


@pytest.fixture
def user():
    return uuid4()


@pytest.mark.parametrize(
    ("name", "format", "unit", "sessions", "sets"),
    [
        ("strong-kg-de-10months.csv", "strong", "kg", 129, 2078),
        ("strong-kg-olympic-lifting.csv", "strong", "kg", 86, 1903),
        ("strong-zh-lb-3years.csv", "strong", "lb", 384, 6778),
        ("strong-semicolon-numbered-small.csv", "strong", None, 20, 266),
        ("hevy-kg-small.csv", "hevy", None, 17, 330),
    ],
)
def test_a_real_file_goes_in_whole_and_a_second_time_changes_nothing(
    database, user, real_file, name, format, unit, sessions, sets
):
    read = read_history(real_file(name), format, unit)
    report = import_history(database.engine, user, format, read)
    assert (report.sessions_saved, report.sets_taken, len(report.skipped)) == (sessions, sets, 0)
    assert report.stats_requested_version == sessions
    assert len(stored_sessions(database, user)) == sessions
    before = stored_sets(database, user)
    assert [(row[0], row[2], row[3]) for row in before] == [
        (found.exercise, done.weight_kg, done.reps)
        for one in sorted(read.sessions, key=lambda one: (one.session_date, one.source_ref))
        for found in one.blocks
        for done in found.sets
    ]

    again = import_history(database.engine, user, format, read)
    assert (again.sessions_saved, again.sessions_already_there, again.sets_taken) == (0, sessions, 0)
    assert {row.reason for row in again.skipped} == {"already there"}
    assert adds_up(again)
    assert again.stats_requested_version is None
    assert stored_sets(database, user) == before


def test_the_sample_history_goes_in_whole(database, user):
    sample = sample_history(date(2026, 3, 1))
    report = import_history(database.engine, user, PROVIDER, sample)
    assert (report.sessions_saved, report.sets_taken) == (len(sample.sessions), sample.taken)
    trackings = database.as_account(user)("select name, tracking from public.exercises")
    assert dict(trackings) == dict(sample.tracking)


def test_a_session_is_stored_as_read(database, user):
    printed = datetime(2024, 1, 8, 0, 30)
    one = session(
        block("Bench", lift(2, "62.50"), ImportedSet(3, set_type="warmup", weight_kg=Decimal(20))),
        block("Run", ImportedSet(4, distance_m=Decimal("2500.25"), duration_seconds=900)),
        block("Bench", lift(5)),
        at=printed,
    )
    read = history(one, run="distance_duration")
    import_history(database.engine, user, "strong", read, timezone="Europe/Berlin")
    # The day stays as printed; the time of day is local.
    assert stored_sessions(database, user) == [
        ("strong", "one", DAY, datetime(2024, 1, 7, 23, 30, tzinfo=UTC), "Push", 3600)
    ]
    assert stored_sets(database, user) == [
        ("Bench", "normal", Decimal("62.50"), 8, None, None, True),
        ("Bench", "warmup", Decimal("20.00"), None, None, None, True),
        ("Run", "normal", None, None, Decimal("2500.25"), 900, True),
        ("Bench", "normal", Decimal("60.00"), 8, None, None, True),
    ]


def test_assistance_is_stored_by_its_absolute_value(database, user):
    import_history(
        database.engine, user, "strong", history(session(block("Chin", lift(2, "-20"))), chin="assisted_reps")
    )
    assert stored_sets(database, user) == [("Chin", "normal", Decimal("20.00"), 8, None, None, True)]


@pytest.fixture
def set_tracking(database, user):
    """Set how the account's exercise of a name is tracked, as a person does."""

    def set_tracking(name, tracking):
        me = database.as_account(user)
        exercise = me.value("select id from public.exercises where name = :name", name=name)
        me(
            "select public.upsert_exercise_v1(:name, :tracking, :me, :x)",
            name=name,
            tracking=tracking,
            me=user,
            x=exercise,
        )

    return set_tracking


def test_a_row_that_contradicts_what_a_person_has_set_is_skipped(database, user, set_tracking):
    import_history(
        database.engine,
        user,
        "strong",
        history(session(block("Dip", ImportedSet(2, reps=8))), dip="reps_only"),
    )
    set_tracking("Dip", "reps_only")
    later = session(
        block("Dip", lift(2), ImportedSet(3, reps=9)), block("Bench", lift(4)), ref="two", day=DAY2
    )
    only_dips = session(block("Dip", lift(5)), ref="three", day=DAY2)
    report = import_history(database.engine, user, "strong", history(later, only_dips))
    assert (report.sessions_saved, report.sessions_refused, report.sets_taken) == (1, 1, 2)
    reason = 'a weight on "Dip", which is tracked as reps_only: change that with upsert_exercise_v1 and import again'
    assert [(row.line, row.reason) for row in report.skipped] == [(2, reason), (5, reason)]
    assert adds_up(report)


def test_on_an_exercise_of_assistance_every_weight_is_assistance(database, user):
    first = history(session(block("Chin", lift(2, "-20"))), chin="assisted_reps")
    import_history(database.engine, user, "strong", first)
    later = history(
        session(block("Chin", lift(2, "-15"), lift(3, "20")), ref="two", day=DAY2), chin="weight_reps"
    )
    report = import_history(database.engine, user, "strong", later)
    assert [*report.skipped] == []
    assert [stored[2] for stored in stored_sets(database, user)] == [
        Decimal("20.00"),
        Decimal("15.00"),
        Decimal("20.00"),
    ]


@pytest.mark.parametrize(
    ("known", "shown", "later"),
    [
        ("weight_reps", "duration", ImportedSet(7, duration_seconds=60)),
        ("duration", "reps_only", ImportedSet(7, reps=8)),
        ("weight_duration", "weight_reps", ImportedSet(7, weight_kg=Decimal(20), reps=8)),
        ("reps_only", "distance_duration", ImportedSet(7, distance_m=Decimal(100))),
    ],
)
def test_a_tracking_that_a_file_contradicts_is_told(database, user, known, shown, later):
    first = history(session(block("Row", ImportedSet(2, reps=5))), row=known)
    assert [*import_history(database.engine, user, "strong", first).remarks] == []
    report = import_history(
        database.engine, user, "strong", history(session(block("Row", later), ref="two"), row=shown)
    )
    [remark] = report.remarks
    assert (remark.line, remark.text) == (
        7,
        f'"Row" is tracked as {known}; the file alone would show {shown}',
    )
    assert (report.sets_taken, len(report.skipped)) == (1, 0)


def test_a_fitnotes_file_goes_in_and_a_second_time_changes_nothing(database, user, tmp_path, capsys):
    file = tmp_path / "fitnotes.csv"
    file.write_text(
        "Date,Exercise,Category,Weight (kgs),Reps,Distance,Distance Unit,Time\n"
        "2024-01-08,Bench,Chest,60,8,,,\n2024-01-08,Bench,Chest,60,8,,,\n2024-01-09,Plank,Abs,,,,,0:01:30\n"
    )
    import_file(file, "fitnotes", None, user, "UTC", database.url)
    assert "2 sessions saved, 0 already there" in capsys.readouterr().out
    before = (stored_sessions(database, user), stored_sets(database, user))
    assert len(before[1]) == 3
    import_file(file, "fitnotes", None, user, "UTC", database.url)
    assert "0 sessions saved, 2 already there" in capsys.readouterr().out
    assert (stored_sessions(database, user), stored_sets(database, user)) == before


def test_a_refused_session_is_reported_and_the_rest_goes_in(database, user):
    read = history(
        session(block("Bench", lift(2)), ref="first"),
        session(block("Bench", lift(3), lift(4)), ref="second", day=date(1066, 10, 14)),
        session(block("Bench", lift(5)), ref="third"),
    )
    report = import_history(database.engine, user, "strong", read)
    assert (report.sessions_saved, report.sessions_refused) == (2, 1)
    assert [row.line for row in report.skipped] == [3, 4]
    assert all("session_date" in row.reason for row in report.skipped)
    assert adds_up(report)
    assert [row[1] for row in stored_sessions(database, user)] == ["first", "third"]


def test_an_exercise_without_a_possible_name_costs_its_own_rows(database, user):
    read = history(session(block("x" * 1000, lift(2)), block("Bench", lift(3))))
    report = import_history(database.engine, user, "strong", read)
    assert report.sets_taken == 1
    [skipped] = report.skipped
    assert skipped.line == 2
    assert "exercise refused" in skipped.reason


def test_what_somebody_stores_meanwhile_under_the_same_reference_is_already_there(database, user):
    """An app that brings sessions of the other app itself; another import would wait for its turn."""
    count = 2 * MOST_SESSIONS + 3
    app = AppAccount(database, user)

    def meanwhile(done, total):
        if done == MOST_SESSIONS:
            for n in range(MOST_SESSIONS, count):
                app.save(source="strong", source_ref=f"ref {n:02}")

    report = import_history(database.engine, user, "strong", numbered_sessions(count), meanwhile)

    assert (report.sessions_saved, report.sessions_already_there, report.sessions_refused) == (10, 13, 0)
    assert {row.reason for row in report.skipped} == {"already there"}
    assert adds_up(report)
    assert len(stored_sessions(database, user)) == count


def test_a_refused_session_takes_no_other_of_its_transaction_with_it(database, user):
    days = [DAY] * (2 * MOST_SESSIONS)
    days[3] = days[5] = days[15] = date(1066, 10, 14)
    read = history(
        *(session(block("Bench", lift(n)), ref=f"ref {n:02}", day=day) for n, day in enumerate(days))
    )
    report = import_history(database.engine, user, "strong", read)
    assert (report.sessions_saved, report.sessions_refused) == (2 * MOST_SESSIONS - 3, 3)
    assert [row.line for row in report.skipped] == [3, 5, 15]
    assert [row[1] for row in stored_sessions(database, user)] == [
        f"ref {n:02}" for n in range(2 * MOST_SESSIONS) if n not in (3, 5, 15)
    ]
    assert report.stats_requested_version == report.sessions_saved
    receipts = database.admin(
        "select count(*), count(distinct mutation_id) from public.stats_mutation_receipts where user_id = :user",
        user=user,
    )
    assert receipts == [(report.sessions_saved, report.sessions_saved)]


@pytest.fixture
def archive(database, user):
    """Archive the account's exercise of a name, or bring it back."""

    def archive(name, back=False):
        me = database.as_account(user)
        exercise = me.value("select id from public.exercises where name = :name", name=name)
        if back:
            me(
                "select public.upsert_exercise_v1(:name, 'weight_reps', :me, :x)",
                name=name,
                me=user,
                x=exercise,
            )
        else:
            me("select public.archive_exercise_v1(:x, :me)", x=exercise, me=user)

    return archive


ARCHIVED = '"Bench" is archived: bring it back with upsert_exercise_v1'


def test_an_archived_exercise_costs_its_own_rows(database, user, archive):
    import_history(
        database.engine, user, "strong", history(session(block("Squat", lift(2)), block("Bench", lift(3))))
    )
    archive("Bench")
    later = history(
        session(block("Squat", lift(2)), block("Bench", lift(3), lift(4)), ref="two", day=DAY2),
        session(block("Bench", lift(5)), ref="three", day=DAY2 + timedelta(days=1)),
        session(
            block("Bench", lift(6)),
            block("Squat", lift(7)),
            block("Bench", lift(8)),
            ref="four",
            day=DAY2 + timedelta(days=2),
        ),
    )
    report = import_history(database.engine, user, "strong", later)
    assert (report.sessions_saved, report.sessions_refused, report.sets_taken) == (2, 1, 2)
    assert [(row.line, row.reason) for row in report.skipped] == [(n, ARCHIVED) for n in (3, 4, 5, 6, 8)]
    assert adds_up(report)
    assert [row[1] for row in stored_sessions(database, user)] == ["one", "two", "four"]

    again = import_history(database.engine, user, "strong", later)
    assert (again.sessions_saved, again.sessions_already_there, again.sessions_refused) == (0, 2, 1)
    assert adds_up(again)


@pytest.mark.parametrize("archived_at", ["the second import", "the first import"])
def test_a_session_deleted_since_stays_deleted_whatever_is_archived(database, user, archive, archived_at):
    import_history(database.engine, user, "strong", history(session(block("Bench", lift(2)), ref="before")))
    read = history(
        session(block("Squat", lift(2)), block("Bench", lift(3))), session(block("Row", lift(4)), ref="two")
    )
    if archived_at == "the first import":
        archive("Bench")
    import_history(database.engine, user, "strong", read)
    me = database.as_account(user)
    for session_id in me("select id from public.workout_sessions where source_ref in ('one', 'two')"):
        me(
            "select public.delete_session_v5(:session, :me, gen_random_uuid())",
            session=session_id[0],
            me=user,
        )
    archive("Bench", back=archived_at == "the first import")

    report = import_history(database.engine, user, "strong", read)
    assert (report.sessions_saved, report.sessions_already_there, report.sessions_refused) == (0, 2, 0)
    assert {row.line: row.reason for row in report.skipped} == dict.fromkeys(
        [2, 3, 4], "deleted here: it stays deleted"
    )
    assert adds_up(report)
    assert [row[1] for row in stored_sessions(database, user)] == ["before"]


@pytest.mark.parametrize("archived_first", [False, True])
def test_what_another_app_brought_is_known_whatever_is_archived(database, user, archive, archived_first):
    import_history(database.engine, user, "hevy", history(session(block("Bench", lift(2)), ref="before")))
    database.admin("update public.exercise_external_mappings set owner_user_id = null")
    database.admin("update public.workout_sessions set session_date = '2020-01-01'")
    if archived_first:
        archive("Bench")
    read = history(session(block("Squat", lift(2)), block("Bench", lift(3))))
    import_history(database.engine, user, "hevy", read)
    if not archived_first:
        archive("Bench")
    database.admin(
        "insert into public.exercise_external_mappings (provider, external_id, exercise_id)"
        " select 'strong', external_id, exercise_id from public.exercise_external_mappings"
    )

    report = import_history(database.engine, user, "strong", read)
    assert (report.sessions_saved, report.sessions_already_there) == (0, 1)
    assert {row.reason for row in report.skipped} == {
        "the same sets of the same day are already there from hevy"
    }
    assert adds_up(report)


def test_a_transaction_is_bounded_by_its_sessions_and_its_sets(database, user):
    many_sets = [session(block("Bench", *map(lift, range(300))), ref=f"long {n}") for n in range(3)]
    short = [session(block("Bench", lift(1000 + n)), ref=f"short {n:02}") for n in range(MOST_SESSIONS + 1)]
    progress = []
    import_history(
        database.engine, user, "strong", history(*many_sets, *short), lambda *done: progress.append(done)
    )
    # 300 sets and 300 are more than a transaction takes.
    assert progress == [(1, 14), (2, 14), (12, 14), (14, 14)]
    commits = database.admin(
        "select count(distinct xmin::text) from public.workout_sessions where user_id = :user", user=user
    )
    assert commits == [(len(progress),)]


def test_a_session_deleted_since_stays_deleted(database, user):
    read = history(session(block("Bench", lift(2))))
    import_history(database.engine, user, "strong", read)
    me = database.as_account(user)
    session_id = me.value("select id from public.workout_sessions")
    me("select public.delete_session_v5(:session, :owner, gen_random_uuid())", session=session_id, owner=user)
    report = import_history(database.engine, user, "strong", read)
    assert (report.sessions_saved, report.sessions_already_there) == (0, 1)
    assert [row.reason for row in report.skipped] == ["deleted here: it stays deleted"]
    assert stored_sessions(database, user) == []


def test_the_whole_command(database, user, tmp_path, capsys):
    file = tmp_path / "strong.csv"
    file.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n"
        "2024-01-08 18:30:00,Push,Bench,1,135,8\n"
        "2024-01-08 18:30:00,Push,Bench,2,135,8.5\n"
    )
    import_file(file, "strong", "lb", user, "UTC", database.url)
    printed = capsys.readouterr().out
    assert "1 sessions saved, 0 already there" in printed
    assert "1 sets taken + 1 rows skipped = 2 data rows" in printed
    assert 'skipped 1: Reps "8.5" is not a whole number (line 3)' in printed
    assert stored_sets(database, user) == [("Bench", "normal", Decimal("61.23"), 8, None, None, True)]


def test_a_wrong_file_or_unit_writes_nothing(database, user, tmp_path):
    file = tmp_path / "strong.csv"
    file.write_text("hello\n")
    for unit in ("kg", None):
        with pytest.raises(OperatorError):
            import_file(file, "strong", unit, user, "UTC", database.url)
    assert database.admin("select count(*) from public.exercises") == [(0,)]
    assert stored_sessions(database, user) == []


def test_a_dry_run_of_the_command_says_so_and_writes_nothing(database, user, tmp_path, capsys):
    file = tmp_path / "strong.csv"
    file.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n2024-01-08 18:30:00,Push,Bench,1,60,8\n"
    )
    import_file(file, "strong", "kg", user, "UTC", database.url, dry_run=True)
    printed = capsys.readouterr().out
    assert "dry run: nothing was written" in printed
    assert "1 sessions saved, 0 already there, 0 updated, 0 differing" in printed
    assert (stored_sessions(database, user), stored_sets(database, user)) == ([], [])
    with pytest.raises(OperatorError, match="--keep and --dry-run are for histories; this is a WodUp batch"):
        import_file(file, "wodup", None, user, "UTC", database.url, dry_run=True)


def test_the_right_unit_corrects_what_was_imported_with_a_wrong_one(database, user, tmp_path, capsys):
    file = tmp_path / "strong.csv"
    file.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n2024-01-08 18:30:00,Push,Bench,1,60,8\n"
    )
    import_file(file, "strong", "kg", user, "UTC", database.url)
    import_file(file, "strong", "lb", user, "UTC", database.url)
    assert "0 sessions saved, 0 already there, 1 updated" in capsys.readouterr().out
    assert stored_sets(database, user) == [("Bench", "normal", Decimal("27.22"), 8, None, None, True)]


def test_a_file_of_which_nothing_can_be_stored_is_an_error(database, user, tmp_path):
    file = tmp_path / "strong.csv"
    file.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n1066-10-14 09:00:00,Hastings,Bench,1,60,8\n"
    )
    with pytest.raises(OperatorError, match="nothing of it could be stored"):
        import_file(file, "strong", "kg", user, "UTC", database.url)


def test_a_database_that_is_not_migrated_says_so(postgres_server, user):
    with pytest.raises(OperatorError, match="run stats-refresh migrate"):
        import_history(create_engine(postgres_server.url()), user, "sample", sample_history())


def test_the_same_workout_in_two_accounts(database):
    read = history(session(block("Bench", lift(2))))
    users = [uuid4(), uuid4()]
    for user in users:
        assert import_history(database.engine, user, "strong", read).sessions_saved == 1
    assert all(len(stored_sessions(database, user)) == 1 for user in users)


def test_the_printed_account_takes_names_for_text(database, user):
    console = Console(file=io.StringIO(), width=200)
    bad = session(block("[red]Dip[/red] :smile:", lift(2)), ref="x")
    read = history(bad)
    tracked = ParsedHistory(read.sessions, (), 1, {"[red]Dip[/red] :smile:": "reps_only"})
    import_and_report(database.engine, user, "strong", tracked, console=console)
    printed = console.file.getvalue()
    assert 'a weight on "[red]Dip[/red] :smile:"' in printed
    assert "0 sets taken + 1 rows skipped = 1 data rows" in printed


def test_the_printed_account_has_nothing_that_a_terminal_obeys(database, user):
    console = Console(file=io.StringIO(), width=200)
    name = "\x1b]0;title\x07Dip\x1b[31m"
    read = history(session(block(name, lift(2)), ref="x"))
    tracked = ParsedHistory(read.sessions, (), 1, {name: "reps_only"})
    import_and_report(database.engine, user, "strong", tracked, console=console)
    printed = console.file.getvalue()
    assert "Dip" in printed
    assert all(character.isprintable() or character == "\n" for character in printed)
