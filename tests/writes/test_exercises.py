"""Exercises: the account's own, the catalog's, archiving, and what an external identity stands for."""

import json

import pytest
from support.app import AppAccount

from writes.refusals import refused, writes_nothing

UPSERT = "select public.upsert_exercise_v1(:name, :tracking, :user, :id, :global)"
ARCHIVE = "select public.archive_exercise_v1(:id, :user)"
RESOLVE = "select public.resolve_external_exercise_v1(:provider, :external_id, :name, :tracking, :user)"


@pytest.fixture
def upsert(app_account):
    def call(name="Squat", tracking="weight_reps", id=None, is_global=False):
        return app_account.call(UPSERT, name=name, tracking=tracking, id=id, **{"global": is_global})

    return call


@pytest.fixture
def catalog(database):
    """Change the catalog as an administrator."""
    admin = AppAccount(database)

    def call(name="Squat", tracking="weight_reps", id=None, archive=False):
        caller = database.as_account(admin.user_id, admin=True)
        if archive:
            return caller.value(ARCHIVE, id=id, user=admin.user_id)
        return caller.value(
            UPSERT, name=name, tracking=tracking, id=id, user=admin.user_id, **{"global": True}
        )

    return call


def rows(database):
    return database.admin(
        "select name, tracking, owner_user_id, archived_at is not null from public.exercises order by name"
    )


def test_a_personal_exercise_is_made_and_renamed_without_a_generation(database, app_account, upsert):
    made = upsert("Squat")
    renamed = upsert("Back squat", id=made["exercise_id"])

    assert (made["created"], renamed["created"]) == (True, False)
    assert rows(database) == [("Back squat", "weight_reps", app_account.user_id, False)]
    assert app_account.state() == (0, 0)


def test_another_tracking_is_a_generation_with_its_own_event(app_account, upsert):
    made = upsert("Squat")

    changed = upsert("Squat", "bodyweight_reps", id=made["exercise_id"])

    assert changed["statsRequestedVersion"] == 1
    assert app_account.jobs("event_type", "from_date", "exercise_ids") == [
        ("exercise_changed", None, [made["exercise_id"]])
    ]


def test_the_catalog_is_for_administrators(database, app_account, upsert, catalog):
    made = catalog("Squat", id="squat")
    assert (made["exercise_id"], made["global"]) == ("squat", True)

    with writes_nothing(database):
        with refused("42501", "global: only an administrator changes the catalog"):
            upsert("Mine", id="squat", is_global=True)
        with refused("P0002", "exercise_id: this account has no such exercise"):
            upsert("Mine", id="squat")
        with refused("42501", "exercise_id: only an administrator changes the catalog"):
            app_account.call(ARCHIVE, id="squat")

    assert catalog("Squat!", "duration", id="squat")["created"] is False
    assert rows(database) == [("Squat!", "duration", None, False)]


def test_a_catalog_exercise_in_use_changes_without_touching_anybodys_generation(app_account, catalog):
    """The accounts that use it come by a walk, later."""
    app_account.exercises["Squat"] = catalog("Squat", id="squat")["exercise_id"]
    app_account.save()

    changed = catalog("Squat", "bodyweight_reps", id="squat")

    assert (changed["tracking"], changed["statsRequestedVersion"]) == ("bodyweight_reps", None)
    assert app_account.state() == (1, 0)


def test_an_id_that_an_account_has_is_taken_for_the_catalog(database, upsert, catalog):
    taken = upsert()["exercise_id"]

    with writes_nothing(database), refused("22023", "exercise_id: is taken"):
        catalog("Mine now", id=taken)


def test_nonsense_is_refused_by_name(database, app_account, upsert):
    with writes_nothing(database):
        for given, message in [
            ({"name": None}, "name: is required"),
            ({"name": " "}, "name: is required"),
            ({"name": "x" * 201}, "name: must have at most 200 characters"),
            ({"tracking": None}, "tracking: is required"),
            ({"tracking": "weight"}, "tracking: is not a known way of tracking"),
            ({"id": ""}, "exercise_id: must have 1 to 200 characters"),
        ]:
            with refused("22023", message):
                upsert(**given)
        with refused("22023", "exercise_id: is required"):
            app_account.call(ARCHIVE, id=None)


def test_archiving_keeps_everything_and_can_be_repeated_and_undone(database, app_account, upsert):
    app_account.save()
    squat = app_account.exercise()

    archived = app_account.call(ARCHIVE, id=squat)
    assert archived["exercise_id"] == squat
    assert app_account.call(ARCHIVE, id=squat) == archived
    assert app_account.state() == (1, 0)
    assert rows(database) == [("Squat", "weight_reps", app_account.user_id, True)]

    upsert("Squat", id=squat)
    assert rows(database) == [("Squat", "weight_reps", app_account.user_id, False)]
    assert app_account.save()


def test_an_unused_exercise_is_archived_too(database, app_account):
    squat = app_account.exercise()
    app_account.call(ARCHIVE, id=squat)

    assert rows(database) == [("Squat", "weight_reps", app_account.user_id, True)]


def test_an_administrator_archives_for_everybody(database, app_account, catalog):
    app_account.exercises["Squat"] = catalog("Squat", id="squat")["exercise_id"]
    catalog(id="squat", archive=True)

    with writes_nothing(database), refused("22023", "$.exercises[0].exercise_id: is archived"):
        app_account.save()


def test_an_external_identity_is_exact_and_found_again(app_account):
    def resolve(external_id, tracking="weight_reps"):
        return app_account.call(
            RESOLVE, provider="strong", external_id=external_id, name="Squat (Barbell)", tracking=tracking
        )

    first = resolve("Squat (Barbell)")
    again = resolve("Squat (Barbell)", "duration")
    other = resolve("squat (barbell)")

    assert first == {
        "exercise_id": first["exercise_id"],
        "tracking": "weight_reps",
        "archived": False,
        "created": True,
    }
    assert again == {**first, "created": False}
    assert other["exercise_id"] != first["exercise_id"]


def test_the_accounts_own_mapping_goes_before_the_global_one(database, app_account, catalog):
    catalog("Squat", id="squat")
    database.admin(
        "insert into public.exercise_external_mappings (provider, external_id, exercise_id)"
        " values ('strong', 'Squat', 'squat'), ('strong', 'Bench', 'squat')"
    )
    database.admin(
        "insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)"
        " values ('strong', 'Bench', :user, :own)",
        user=app_account.user_id,
        own=app_account.exercise("Bench"),
    )

    def resolve(name):
        return app_account.call(RESOLVE, provider="strong", external_id=name, name=name, tracking="duration")

    assert resolve("Squat") == {
        "exercise_id": "squat",
        "tracking": "weight_reps",
        "archived": False,
        "created": False,
    }
    assert resolve("Bench")["exercise_id"] == app_account.exercise("Bench")


def test_an_external_identity_says_whether_its_exercise_is_archived(app_account):
    def resolve():
        return app_account.call(
            RESOLVE, provider="strong", external_id="Squat", name="Squat", tracking="weight_reps"
        )

    squat = resolve()["exercise_id"]
    app_account.call(ARCHIVE, id=squat)
    assert resolve() == {
        "exercise_id": squat,
        "tracking": "weight_reps",
        "archived": True,
        "created": False,
    }


@pytest.fixture
def mapped_to_anothers(database, app_account):
    """Map an identity for all, or for the account alone, to an exercise of another account."""
    other = AppAccount(database)

    def map(provider, external_id, owner):
        database.admin(
            "insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)"
            " values (:provider, :external_id, :owner, :theirs)",
            provider=provider,
            external_id=external_id,
            owner=app_account.user_id if owner == "the account" else None,
            theirs=other.exercise("Theirs"),
        )
        return other.exercise("Theirs")

    return map


@pytest.mark.parametrize("owner", ["all", "the account"])
def test_a_mapping_to_anothers_exercise_is_none(database, app_account, mapped_to_anothers, owner):
    theirs = mapped_to_anothers("strong", "Squat", owner)

    def resolve():
        return app_account.call(
            RESOLVE, provider="strong", external_id="Squat", name="Squat", tracking="weight_reps"
        )

    made = resolve()
    assert (made["created"], made["exercise_id"] != theirs) == (True, True)
    assert resolve() == {**made, "created": False}
    assert app_account.save(exercises=[{"exercise_id": made["exercise_id"], "sets": [{"reps": 5}]}])


@pytest.mark.parametrize("owner", ["all", "the account"])
def test_a_batch_too_takes_a_mapping_to_anothers_exercise_for_none(
    database, app_account, mapped_to_anothers, owner
):
    theirs = mapped_to_anothers("wodup", "m", owner)

    def imported(result):
        sets = [{"movementId": "m", "reps": 5}]
        batch = {
            "user_id": str(app_account.user_id),
            "days": [{"day": "2026-03-10", "results": [{"id": result, "sets": sets}]}],
        }
        return database.as_service().value(
            "select public.import_wodup_batch_to_canonical(cast(:batch as jsonb))", batch=json.dumps(batch)
        )

    [made] = imported("r-1")["unmatched_movements"]
    assert made["exercise_id"] != theirs
    assert (imported("r-2")["unmatched_movements"], imported("r-2")["results_already_there"]) == ([], 1)
    assert database.admin("select distinct exercise_id from public.session_exercise_part") == [
        (made["exercise_id"],)
    ]


def test_an_external_identity_is_refused_where_it_is_none(database, app_account):
    with writes_nothing(database):
        for given, message in [
            ({"provider": None}, "provider: is required"),
            ({"external_id": ""}, "external_id: is required"),
            ({"provider": "x" * 101}, "provider: must have at most 100 characters"),
            ({"external_id": "x" * 501}, "external_id: must have at most 500 characters"),
            ({"tracking": "weight"}, "tracking: is not a known way of tracking"),
            ({"name": None}, "name: is required"),
        ]:
            with refused("22023", message):
                app_account.call(
                    RESOLVE,
                    **{
                        "provider": "strong",
                        "external_id": "x",
                        "name": "X",
                        "tracking": "duration",
                        **given,
                    },
                )
