"""The readers: contract 4, one generation in one answer, staleness told, and a refusal rather than another day."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event
from uuid import uuid4

import pytest
from interleavings.scene import admin_session, start_publish
from sqlalchemy.exc import DBAPIError
from support.races import DEADLINE, session, wait_until_blocked

from tasks.transaction import account

TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)

PR = "select public.get_pr_overview(:today)"
HOME = "select public.get_home_overview(:today)"
VOLUME = "select public.get_volume_overview(:today, 'day')"
DETAIL = "select public.get_pr_detail(:exercise, :today)"
MONTH = "select public.get_calendar_month(:today)"
ALL = [PR, HOME, VOLUME, DETAIL, MONTH]
OF_THE_WINDOW = [PR, HOME]


@pytest.fixture
def read(app_account):
    """Ask one of the readers as the account itself, about today."""

    def read(statement, **parameters):
        named = {"today": TODAY, "exercise": app_account.exercise("Squat")} | parameters
        return app_account.call(statement, **{k: v for k, v in named.items() if f":{k}" in statement})

    return read


def save(account, day, *sets, **fields):
    return account.save(account.block("Squat", *sets), session_date=str(day), **fields)


def refusal_of(read, statement, **parameters) -> tuple[str, str]:
    """The SQLSTATE and the detail with which a reader refuses."""
    with pytest.raises(DBAPIError) as refused:
        read(statement, **parameters)
    return refused.value.orig.pgcode, refused.value.orig.diag.message_detail


def hint_of(read, statement, **parameters) -> str:
    """What a reader that refuses tells the caller to do."""
    with pytest.raises(DBAPIError) as refused:
        read(statement, **parameters)
    return refused.value.orig.diag.message_hint


@pytest.mark.parametrize("statement", ALL)
def test_an_answer_says_what_it_is(app_account, stages, read, statement):
    version = save(app_account, TODAY, (100, 5))["statsRequestedVersion"]
    stages.drain()

    answer = read(statement)

    assert answer["contract"] == 4
    assert answer["user_id"] == str(app_account.user_id)
    assert answer["as_of"] == str(TODAY.replace(day=1) if statement == MONTH else TODAY)
    assert (answer["generation"], answer["requested_version"], answer["stale"]) == (version, version, False)
    age = datetime.now(UTC) - datetime.fromisoformat(answer["generated_at"])
    assert age < timedelta(minutes=1)


@pytest.mark.parametrize("statement", ALL)
def test_an_answer_is_stale_while_a_newer_save_waits(app_account, stages, read, statement):
    published = save(app_account, TODAY, (100, 5))["statsRequestedVersion"]
    stages.drain()
    newer = save(app_account, TODAY, (200, 5))["statsRequestedVersion"]

    answer = read(statement)

    assert (answer["generation"], answer["requested_version"], answer["stale"]) == (published, newer, True)
    stages.drain()
    assert read(statement)["stale"] is False


def test_the_home_overview_has_the_periods_of_the_day_and_the_last_thirty_days(app_account, stages, read):
    exercise_id = app_account.exercise("Squat")
    save(app_account, TODAY - timedelta(days=30), (50, 5), title="Too long ago")
    save(app_account, TODAY - timedelta(days=29), (60, 5), title="First of the thirty")
    session = save(app_account, TODAY, (100, 5), title="Today", duration_seconds=60)["session_id"]
    save(app_account, TODAY + timedelta(days=1), (110, 5), title="Tomorrow")
    stages.drain()

    answer = read(HOME)

    assert [period["grain"] for period in answer["periods"]] == ["day", "week", "month", "quarter", "year"]
    assert answer["periods"][0] == {
        "grain": "day",
        "period_start": str(TODAY),
        "sessions": 1,
        "active_days": 1,
        "duration_seconds": 60,
        "exercises": 1,
        "working_sets": 1,
        "reps": 5,
        "volume_kg": 500,
        "distance_m": 0,
        "record_count": 4,
    }
    assert [day["titles"] for day in answer["days"]] == [["First of the thirty"], ["Today"]]
    weight = [record for record in answer["records"] if record["kind"] == "weight"]
    assert weight[0] == {
        "exercise_id": exercise_id,
        "kind": "weight",
        "day": str(TODAY),
        "value": 100,
        "previous_value": 60,
        "is_baseline": False,
        "session_id": session,
    }
    assert [record["value"] for record in weight] == [100, 60]


def test_the_home_overview_has_no_period_without_a_session(app_account, stages, read):
    save(app_account, YESTERDAY, (100, 5))
    stages.drain()

    grains = {period["grain"] for period in read(HOME)["periods"]}

    assert "day" not in grains
    assert "year" in grains or TODAY.timetuple().tm_yday == 1


def test_the_volume_overview_has_the_latest_periods_up_to_the_day_oldest_first(app_account, stages, read):
    for days in (500, 3, 0):
        save(app_account, TODAY - timedelta(days=days), (100, 5))
    save(app_account, TODAY + timedelta(days=1), (100, 5))
    stages.drain()

    days = [period["period_start"] for period in read(VOLUME)["periods"]]
    assert days == [str(TODAY - timedelta(days=n)) for n in (500, 3, 0)]
    years = read("select public.get_volume_overview(:today, 'year')")
    assert years["grain"] == "year"
    assert sum(period["sessions"] for period in years["periods"]) >= 3
    past = read(VOLUME, today=TODAY - timedelta(days=400))
    assert len(past["periods"]) == 1
    assert refusal_of(read, "select public.get_volume_overview(:today, 'decade')")[0] == "22023"


def test_the_detail_of_an_exercise_is_as_it_was_on_the_day(app_account, stages, read):
    first, second = TODAY - timedelta(days=20), TODAY - timedelta(days=10)
    session = save(app_account, first, (100, 3))["session_id"]
    save(app_account, second, (120, 2))
    stages.drain()

    then = read(DETAIL, today=second - timedelta(days=1))
    assert [day["day"] for day in then["days"]] == [str(first)]
    assert {record["day"] for record in then["records"]} == {str(first)}
    assert then["rep_maxes"] == [
        {"reps": reps, "weight_kg": 100, "achieved_on": str(first), "session_id": session}
        for reps in (1, 2, 3)
    ]
    now = read(DETAIL)
    assert [day["top_weight_kg"] for day in now["days"]] == [100, 120]
    assert [(rep_max["reps"], rep_max["weight_kg"]) for rep_max in now["rep_maxes"]] == [
        (1, 120),
        (2, 120),
        (3, 100),
    ]


def test_the_detail_of_an_exercise_that_was_never_done_is_empty(app_account, stages, read):
    save(app_account, TODAY, (100, 5))
    stages.drain()

    answer = read(DETAIL, exercise="no-such-exercise")

    assert answer["days"] == answer["records"] == answer["rep_maxes"] == []


def test_a_calendar_month_has_the_days_of_the_whole_month(app_account, stages, read):
    for day in ("2024-01-31", "2024-02-01", "2024-02-29", "2024-03-01"):
        save(app_account, day, (100, 5))
    stages.drain()

    answer = read("select public.get_calendar_month('2024-02-17')")

    assert [day["day"] for day in answer["days"]] == ["2024-02-01", "2024-02-29"]
    assert answer["as_of"] == "2024-02-01"
    assert refusal_of(read, "select public.get_calendar_month(null)")[0] == "22023"


@pytest.mark.parametrize("statement", ALL)
def test_nothing_is_answered_before_the_first_publication(app_account, stages, read, statement):
    assert refusal_of(read, statement) == ("55000", "building")
    save(app_account, TODAY, (100, 5))
    stages.compute(stages.claim())
    assert refusal_of(read, statement) == ("55000", "building")


@pytest.mark.parametrize("statement", ALL)
def test_an_account_without_any_save_is_told_from_one_that_waits_for_its_first_snapshot(
    app_account, read, statement
):
    assert hint_of(read, statement).startswith("Nothing has been saved for this account yet")
    save(app_account, TODAY, (100, 5))
    assert hint_of(read, statement).startswith("The first refresh of this account is on its way")


@pytest.mark.parametrize("statement", OF_THE_WINDOW)
def test_a_refused_day_of_a_published_account_comes_with_what_to_do(
    database, app_account, stages, read, statement
):
    save(app_account, TODAY, (100, 5))
    stages.drain()
    assert hint_of(read, statement, today=TODAY + timedelta(days=2)).startswith("Only the UTC date")
    database.admin("delete from public.user_pr_overview_snapshot_headers")
    assert hint_of(read, statement).startswith("The window moves by itself")


@pytest.mark.parametrize("statement", OF_THE_WINDOW)
def test_a_day_outside_the_window_is_refused(app_account, stages, read, statement):
    save(app_account, TODAY, (100, 5))
    stages.drain()

    for days in (-1, 0, 1):
        assert read(statement, today=TODAY + timedelta(days=days))["stale"] is False
    for days in (-2, 2, -400):
        assert refusal_of(read, statement, today=TODAY + timedelta(days=days)) == ("55000", "not_in_window")
    assert refusal_of(read, statement, today=None)[0] == "22023"


@pytest.mark.parametrize("statement", ALL)
@pytest.mark.parametrize("day", ["infinity", "-infinity"])
def test_what_is_no_day_of_the_calendar_is_refused(app_account, stages, read, statement, day):
    save(app_account, TODAY, (100, 5))
    stages.drain()

    with pytest.raises(DBAPIError) as refused:
        read(statement, today=day)

    assert refused.value.orig.pgcode == "22023"
    assert "must be a day of the" in refused.value.orig.diag.message_primary


@pytest.mark.parametrize("statement", OF_THE_WINDOW)
@pytest.mark.parametrize("day", ["4713-01-01 BC", "0001-01-01", "9999-12-31", "5874897-12-31"])
def test_a_day_of_another_age_is_not_in_the_window(app_account, stages, read, statement, day):
    save(app_account, TODAY, (100, 5))
    stages.drain()

    assert refusal_of(read, statement, today=day) == ("55000", "not_in_window")


def test_a_month_beyond_the_years_of_four_digits_is_refused(app_account, stages, read):
    save(app_account, TODAY, (100, 5))
    stages.drain()

    assert [read(MONTH, today=day)["days"] for day in ("0001-01-01", "9999-12-31")] == [[], []]
    for day in ("4713-01-01 BC", "10000-01-01", "5874897-12-31"):
        assert refusal_of(read, MONTH, today=day) == ("22023", None)


@pytest.mark.parametrize("statement", OF_THE_WINDOW)
def test_a_window_that_has_passed_is_behind(database, app_account, stages, read, statement):
    save(app_account, TODAY, (100, 5))
    stages.drain()
    database.admin("update public.user_pr_overview_snapshot_headers set as_of_date = as_of_date - 10")

    assert refusal_of(read, statement) == ("55000", "behind")


@pytest.mark.parametrize("statement", OF_THE_WINDOW)
def test_a_header_of_another_generation_is_no_answer(database, app_account, stages, read, statement):
    save(app_account, TODAY, (100, 5))
    stages.drain()
    database.admin("update public.user_pr_overview_snapshot_headers set generation = generation - 1")

    assert refusal_of(read, statement) == ("55000", "behind")


@pytest.mark.parametrize("statement", [VOLUME, DETAIL, MONTH])
def test_what_is_not_of_the_window_is_answered_when_it_has_passed(
    database, app_account, stages, read, statement
):
    save(app_account, TODAY, (100, 5))
    stages.drain()
    database.admin("update public.user_pr_overview_snapshot_headers set as_of_date = as_of_date - 10")

    assert read(statement)["stale"] is False


@pytest.mark.parametrize("statement", ALL)
def test_only_the_account_itself_and_service_and_administrators_read_it(
    database, app_account, stages, statement
):
    save(app_account, TODAY, (100, 5))
    stages.drain()
    statement = statement.removesuffix(")") + ", p_user_id => :account)"
    parameters = {"account": app_account.user_id, "today": TODAY, "exercise": app_account.exercise("Squat")}
    parameters = {name: value for name, value in parameters.items() if f":{name}" in statement}

    with pytest.raises(DBAPIError) as refused:
        database.as_account(uuid4()).value(statement, **parameters)
    assert refused.value.orig.pgcode == "42501"
    for caller in (
        database.as_account(app_account.user_id),
        database.as_account(uuid4(), admin=True),
        database.as_service(),
    ):
        assert caller.value(statement, **parameters)["user_id"] == str(app_account.user_id)


@pytest.mark.parametrize("statement", ALL, ids=["PR", "home", "volume", "detail", "month"])
def test_an_answer_is_of_one_generation_while_publications_hammer_the_account(
    app_account, stages, read, statement
):
    """Each save puts another weight on the bar, and every part of an answer shows the weight of its generation."""
    save(app_account, YESTERDAY, (50, 1))
    session = save(app_account, TODAY, (100, 1))
    weights = {session["statsRequestedVersion"]: 100}
    stages.drain()
    finished = Event()

    def hammer():
        try:
            for weight in range(101, 126):
                saved = save(app_account, TODAY, (weight, 1), session_id=session["session_id"])
                weights[saved["statsRequestedVersion"]] = weight
                assert [run["response"] for run in stages.drain()] == ["published"]
        finally:
            finished.set()

    def keep_reading():
        generations = []
        while not finished.is_set():
            answer = read(statement)
            assert weights_in(statement, answer) == {weights[answer["generation"]]}, answer
            generations.append(answer["generation"])
        return generations

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(keep_reading) for _ in range(2)]
        threads.submit(hammer).result(120)
        for reader in readers:
            generations = reader.result(30)
            assert generations == sorted(generations)
            assert len(set(generations)) > 5


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        (PR, "public.user_pr_exercise_summary_snapshots"),
        (HOME, "public.user_calendar_day_summaries"),
        (HOME, "public.user_exercise_records"),
        (VOLUME, "public.user_training_period_stats"),
        (DETAIL, "public.user_exercise_records"),
        (DETAIL, "stats_private.rep_max_steps"),
        (MONTH, "public.user_calendar_day_summaries"),
    ],
    ids=["PR", "home-days", "home-records", "volume", "detail-records", "detail-rep_maxes", "month"],
)
def test_a_publication_in_the_middle_of_an_answer_does_not_show_in_it(
    database, app_account, stages, statement, table
):
    """The reader has its generation and waits for one of its tables, until the next generation is there."""
    save(app_account, YESTERDAY, (50, 1))
    first = save(app_account, TODAY, (100, 1))
    stages.drain()
    save(app_account, TODAY, (120, 1), session_id=first["session_id"])
    stages.compute(run := stages.claim())
    parameters = {"today": TODAY, "exercise": app_account.exercise("Squat")}
    parameters = {name: value for name, value in parameters.items() if f":{name}" in statement}

    with session(database, "reader", account(app_account.user_id)) as reader:
        with admin_session(database, "publish") as publication:
            publication.run(f"lock table {table} in access exclusive mode")
            reading = reader.start(statement, **parameters)
            wait_until_blocked(database, reader, by=publication)
            assert start_publish(publication, run).result(DEADLINE)["response"] == "published"
            publication.commit()
        answer = reading.result(DEADLINE)

    assert (answer["generation"], weights_in(statement, answer)) == (first["statsRequestedVersion"], {100})


def weights_in(statement, answer) -> set[float]:
    """Every value in the answer that is the weight on today's bar, lifted once."""
    today = str(TODAY)
    if statement == PR:
        return {exercise["best_weight_kg"] for exercise in answer["exercises"]}
    if statement == VOLUME:
        return {period["volume_kg"] for period in answer["periods"] if period["period_start"] == today}
    days = {day["volume_kg"] for day in answer["days"] if day["day"] == today}
    if statement == MONTH:
        return days
    if statement == HOME:
        return (
            days
            | {record["value"] for record in answer["records"] if record["kind"] != "reps"}
            | {period["volume_kg"] for period in answer["periods"] if period["grain"] == "day"}
        )
    return (
        days
        | {record["value"] for record in answer["records"] if not record["is_baseline"]}
        | {rep_max["weight_kg"] for rep_max in answer["rep_maxes"]}
    )
