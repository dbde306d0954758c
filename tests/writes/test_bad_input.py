"""Bad input: every limit of a save answers 22023 with the JSON path of the offending field, and nothing is written."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError
from support.app import AppAccount

from writes.refusals import refused, writes_nothing

TODAY = datetime.now(UTC).date()
HUGE = 10**400
BROKEN = [
    ("session_id", ["not-a-uuid", "", 7, [], {}], "$.session_id: must be a uuid"),
    ("mutation_id", ["not-a-uuid", "", 7, [], {}], "$.mutation_id: must be a uuid"),
    ("mutation_id", [None], "$.mutation_id: is required"),
    (
        "expected_updated_at",
        ["yesterday", "2026-03-10", 5, "2026-02-30T10:00:00Z"],
        "$.expected_updated_at: must be a time",
    ),
    ("expected_updated_at", ["2026-03-10T10:00:00Z"], "$.expected_updated_at: is only for a session_id"),
    ("session_date", [None], "$.session_date: is required"),
    (
        "session_date",
        [
            "2026-02-30",
            "2026-13-01",
            "0000-01-01",
            "10.03.2026",
            "2026-3-1",
            "2026-03-10T00:00",
            "2026-03-10\n",
            "today",
            "infinity",
            "",
            20260310,
            [],
            {},
            "٢٠٢٦-٠٣-١٠",
            "2026-03-10 BC",
        ],
        "$.session_date: must be a date, YYYY-MM-DD",
    ),
    (
        "session_date",
        ["1899-12-31", "0001-01-01", "9999-12-31", str(TODAY + timedelta(days=368))],
        "$.session_date: must be from 1900-01-01 to one year from now",
    ),
    ("title", [5, [], {}, True], "$.title: must be a text"),
    ("title", ["ü" * 501], "$.title: must have at most 500 characters"),
    (
        "started_at",
        ["10:30", "2026-03-10T10:30:00", "2026-03-10T25:00:00Z", "2026-03-10T10:00+99:00", 5, "now"],
        "$.started_at: ",
    ),
    ("started_at", ["1899-12-31T23:59:59Z", "9999-12-31T00:00:00Z"], "$.started_at: must be from 1900"),
    ("duration_seconds", ["60", [], True], "$.duration_seconds: must be a number"),
    ("duration_seconds", [-1, 604801, HUGE, -HUGE], "$.duration_seconds: must be from 0 to 604800"),
    ("duration_seconds", [1.5], "$.duration_seconds: must be a whole number"),
    ("notes", [5, {}], "$.notes: must be a text"),
    ("notes", ["x" * 20001], "$.notes: must have at most 20000 characters"),
    ("source", [5], "$.source: must be a text"),
    ("source", ["x" * 101], "$.source: must have at most 100 characters"),
    ("source_ref", [[]], "$.source_ref: must be a text"),
    ("source_ref", ["x" * 501], "$.source_ref: must have at most 500 characters"),
    ("exercises", [None, {}, "bench", 5, {"exercise_id": "x"}], "$.exercises: must be a list of exercises"),
    ("exercises", [[]], "$.exercises: must name at least one exercise"),
    ("exercises", [[{"exercise_id": "x", "sets": []}] * 201], "$.exercises: must have at most 200 exercises"),
    (
        "exercises",
        [[{"exercise_id": "x", "sets": [{}] * 1001}] * 2],
        "$.exercises: must have at most 2000 sets together",
    ),
    ("exercises", [[[]], ["bench"], [5], [None]], "$.exercises[0]: must be an object"),
    ("exercises", [[{}], [{"exercise_id": 5, "sets": []}]], "$.exercises[0].exercise_id: must be a text"),
    (
        "exercises",
        [[{"exercise_id": "x"}], [{"exercise_id": "x", "sets": {}}]],
        "$.exercises[0].sets: must be a list of sets",
    ),
    ("exercises", [[{"exercise_id": "x", "sets": [], "notes": 5}]], "$.exercises[0].notes: must be a text"),
    (
        "exercises",
        [[{"exercise_id": "nobody's", "sets": []}]],
        "$.exercises[0].exercise_id: is not an exercise of this account",
    ),
]
BROKEN_SETS = [
    ("set_type", ["cluster", "Normal", 5, [], {"a": 1}], "set_type: must be normal, warmup, drop or failure"),
    ("weight_kg", ["100", "NaN", "Infinity", "1e1000000", [], {}, True], "weight_kg: must be a number"),
    ("weight_kg", [-0.01, 9999.994, 10000, HUGE, -HUGE], "weight_kg: must be from 0 to 9999.99"),
    ("reps", ["5", "NaN", "1e400", []], "reps: must be a number"),
    ("reps", [-1, 1000001, HUGE], "reps: must be from 0 to 1000000"),
    ("reps", [2.5, 0.000001], "reps: must be a whole number"),
    ("distance_m", ["100", {}], "distance_m: must be a number"),
    ("distance_m", [-1, 10000001, HUGE], "distance_m: must be from 0 to 10000000"),
    ("duration_seconds", ["60"], "duration_seconds: must be a number"),
    ("duration_seconds", [-1, 604801, HUGE], "duration_seconds: must be from 0 to 604800"),
    ("duration_seconds", [1.5], "duration_seconds: must be a whole number"),
    ("rpe", ["8", False], "rpe: must be a number"),
    ("rpe", [-1, 10.1, HUGE], "rpe: must be from 0 to 10"),
    ("is_completed", ["true", 1, []], "is_completed: must be true or false"),
]


def test_a_broken_field_is_named(database, app_account):
    valid = app_account.payload()
    with writes_nothing(database):
        for field, values, message in BROKEN:
            for value in values:
                with refused("22023", message):
                    app_account.save_payload({**valid, field: value})


def test_a_broken_field_of_a_set_is_named_with_its_place(database, app_account):
    good, two_sets = app_account.block("Squat", (100, 5)), app_account.block("Squat", (100, 5), (90, 5))
    with writes_nothing(database):
        for field, values, message in BROKEN_SETS:
            for value in values:
                two_sets["sets"][1] = {field: value}
                with refused("22023", f"$.exercises[1].sets[1].{message}"):
                    app_account.save_payload(app_account.payload(good, two_sets))


SESSION_FIELDS = (
    "expected_user_id, mutation_id, session_id, expected_updated_at, session_date, title, started_at,"
    " duration_seconds, notes, source, source_ref, exercises"
)
SET_FIELDS = "set_type, weight_kg, reps, distance_m, duration_seconds, rpe, is_completed"


def test_a_field_that_nobody_reads_is_named_with_those_that_are_known(database, app_account):
    block = app_account.block("Squat", (100, 5))
    with writes_nothing(database):
        for name, shown in [("date", "date"), ("Title", "Title"), ("", ""), ("x" * 5000, "x" * 100)]:
            for value in (None, 5, {}):
                with refused("22023", f"$.{shown}: is not a field here; known are {SESSION_FIELDS}"):
                    app_account.save_payload(app_account.payload(**{name: value}))
        with refused(
            "22023", "$.exercises[1].id: is not a field here; known are exercise_id, notes, superset, sets"
        ):
            app_account.save(block, {"id": block["exercise_id"], "sets": block["sets"]})
        for misspelt in ("weight", "Weight_kg", "weight_kg ", "kg"):
            one = {misspelt: 100, "reps": 5}
            with refused(
                "22023", f"$.exercises[1].sets[2].{misspelt}: is not a field here; known are {SET_FIELDS}"
            ):
                app_account.save(block, app_account.block("Squat", (100, 5), (100, 5), one, (100, 5)))


def test_every_known_field_is_taken(app_account):
    one = {
        "set_type": "normal",
        "weight_kg": 100,
        "reps": 5,
        "distance_m": 1,
        "duration_seconds": 60,
        "rpe": 8,
        "is_completed": True,
    }
    first = app_account.save()
    fields = {
        "session_id": first["session_id"],
        "expected_updated_at": first["updated_at"],
        "title": "t",
        "started_at": "2026-03-10T10:00:00Z",
        "duration_seconds": 60,
        "notes": "n",
        "source": "s",
        "source_ref": "r",
    }
    payload = app_account.payload({**app_account.block("Squat", one), "notes": "n"}, **fields)

    assert ", ".join(one) == SET_FIELDS
    assert set(payload) == set(SESSION_FIELDS.split(", "))
    assert app_account.save_payload(payload)["operation"] == "session_updated"


def test_payload_and_set_are_objects(database, app_account):
    block = app_account.block("Squat")
    for value in [[], "text", 5, None, True, [{"expected_user_id": "x"}]]:
        with writes_nothing(database), refused("22023", "$: must be an object"):
            app_account.save_payload(value)
        with writes_nothing(database), refused("22023", "$.exercises[0].sets[0]: must be an object"):
            app_account.save_payload(app_account.payload({**block, "sets": [value]}))


def test_a_null_payload_is_refused(database, app_account):
    with writes_nothing(database), refused("22023", "$: must be an object"):
        app_account.call("select public.save_session_v5(null)")


def test_an_exercise_without_weight_takes_none(database, app_account):
    for tracking in ["reps_only", "duration", "distance_duration"]:
        app_account.exercise(tracking, tracking)
        payload = app_account.payload(app_account.block(tracking, {"reps": 1}, {"weight_kg": 5, "reps": 1}))
        with (
            writes_nothing(database),
            refused("22023", f"$.exercises[0].sets[1].weight_kg: a {tracking} exercise has no weight"),
        ):
            app_account.save_payload(payload)


def test_five_megabytes_are_refused_whole_but_another_accounts_first_for_that(database, app_account):
    payload = app_account.payload(anything="x" * 5 * 1024 * 1024)

    with writes_nothing(database), refused("22023", "$: must be at most 2 MB"):
        app_account.save_payload(payload)
    with writes_nothing(database), refused("42501"):
        app_account.save_payload({**payload, "expected_user_id": str(uuid.uuid4())})


def test_just_below_every_limit_is_accepted(app_account):
    block = app_account.block("Squat", *[(9999.99, 1)] * 9)
    receipt = app_account.save(
        *[block] * 199,
        app_account.block(
            "Squat", *[{"reps": 1_000_000, "distance_m": 1e7, "duration_seconds": 604_800, "rpe": 10}] * 209
        ),
        title="🏋️" * 250,
        notes="ü" * 20000,
        source="s" * 100,
        source_ref="r" * 500,
        duration_seconds=604_800,
        session_date=str(TODAY + timedelta(days=365)),
        started_at="2026-03-10T23:59:60+15:59",
    )

    assert receipt["operation"] == "session_created"
    assert app_account.save(session_date="1900-01-01")["statsRequestedVersion"] == 2


def test_any_text_is_stored_as_it_came(database, app_account):
    for text in [
        "Grüße 🏋️",
        "\u202edlrow",
        "a\u0301",
        "'; drop table x; --",
        "\ud7ff\ue000",
        "%s %(x)s :x",
        "\x01\n",
    ]:
        receipt = app_account.save(title=text, notes=text)

        rows = database.admin(
            "select title, notes from public.workout_sessions where id = cast(:id as uuid)",
            id=receipt["session_id"],
        )
        assert rows == [(text, text)]


def test_what_json_or_postgres_cannot_spell_never_reaches_the_function(database, app_account):
    """The cast to jsonb refuses it before any code of ours, so the SQLSTATE is Postgres's; nothing is written."""
    for literal, code in [
        ("NaN", "22P02"),
        ("Infinity", "22P02"),
        ("-Infinity", "22P02"),
        ("1e1000000", "22003"),
        ('"\\u0000"', "22P05"),
        ('"\\ud800"', "22P02"),
    ]:
        statement = "select public.save_session_v5(cast(:payload as jsonb))"
        text = _with_weight(app_account, literal)
        with writes_nothing(database), refused(code):
            app_account.call(statement, payload=text)


def test_a_number_of_130000_digits_is_just_too_large(database, app_account):
    text = _with_weight(app_account, "1e130000")
    with writes_nothing(database), refused("22023", "$.exercises[0].sets[0].weight_kg: must be from 0"):
        app_account.call("select public.save_session_v5(cast(:payload as jsonb))", payload=text)


def _with_weight(account, literal):
    """A payload's JSON text with `literal` where a weight stands."""
    return json.dumps(account.payload(account.block("Squat", ("HERE", 5)))).replace('"HERE"', literal)


def test_weights_are_rounded_at_the_boundary(database, app_account):
    # 225 lb, and the same lift typed in kilograms.
    app_account.save(app_account.block("Squat", (225 * 0.45359237, 5), (102.06, 5), (0.004, 5)))

    assert database.admin("select weight_kg from public.session_sets order by set_no") == [
        (Decimal("102.06"),),
        (Decimal("102.06"),),
        (Decimal("0.00"),),
    ]


json_texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    json_texts,
    st.sampled_from(
        ["2026-03-10", "2026-02-30", "normal", "NaN", "1e400", str(uuid.UUID(int=7)), HUGE, -1, 1.5]
    ),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(json_texts, inner, max_size=3),
    max_leaves=8,
)


def fields(**known):
    """An object in which any of the known fields may be anything, or missing."""
    return st.fixed_dictionaries({}, optional={name: value | anything for name, value in known.items()})


def payloads(account: AppAccount, session_id: str):
    sets = fields(
        set_type=st.sampled_from(["normal", "warmup"]),
        weight_kg=st.integers(0, 300),
        reps=st.integers(0, 20),
        distance_m=st.integers(0, 300),
        duration_seconds=st.integers(0, 300),
        rpe=st.integers(0, 10),
        is_completed=st.booleans(),
    )
    exercises = fields(
        exercise_id=st.sampled_from([account.exercise(), account.exercise("Plank", "duration"), "nobody's"]),
        notes=json_texts,
        sets=st.lists(sets | anything, max_size=3),
    )
    times = st.datetimes(min_value=datetime(2020, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat)
    # Mostly the right account: what is wrong with it would hide all the rest.
    return st.builds(
        lambda frame, user: frame | user,
        fields(
            mutation_id=st.uuids().map(str),
            session_id=st.sampled_from([session_id, str(uuid.uuid4())]),
            expected_updated_at=times,
            session_date=st.dates().map(str),
            title=json_texts,
            started_at=times,
            duration_seconds=st.integers(0, 300),
            notes=json_texts,
            source=json_texts,
            source_ref=json_texts,
            exercises=st.lists(exercises | anything, min_size=1, max_size=3),
        ),
        st.one_of(
            *[st.just({"expected_user_id": str(account.user_id)})] * 9,
            st.fixed_dictionaries({"expected_user_id": anything}),
        ),
    )


def test_any_json_gives_a_receipt_or_a_refusal_that_writes_nothing(database, app_account):
    session_id = app_account.save()["session_id"]
    outcomes = set()

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(payloads(app_account, session_id) | anything)
    def any_json(payload):
        saves = app_account.state()[0]
        try:
            receipt = app_account.save_payload(payload)
        except DBAPIError as error:
            code, message = error.orig.pgcode, error.orig.diag.message_primary
            outcomes.add(code)
            assert code in {"22023", "42501", "P0002", "40001"}, message
            assert code != "22023" or message.startswith("$"), message
            assert app_account.state()[0] == saves
        else:
            outcomes.add("receipt")
            assert receipt["replayed"] or receipt["statsRequestedVersion"] == saves + 1

    any_json()

    assert {"22023", "42501"} <= outcomes
    receipts = database.admin("select count(*) from public.stats_mutation_receipts")
    assert receipts == [(app_account.state()[0],)]
