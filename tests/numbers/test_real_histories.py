"""Whole real histories, imported as people import them: every read model equals the reckoning."""

from __future__ import annotations

import pytest

from importers.formats import read_history
from importers.saving import import_history
from ops.sample_history import PROVIDER, sample_history


@pytest.mark.parametrize(
    ("format", "file", "unit"),
    [
        ("strong", "strong-kg-de-10months.csv", "kg"),
        ("strong", "strong-kg-olympic-lifting.csv", "kg"),
        ("strong", "strong-zh-lb-3years.csv", "lb"),
        ("strong", "strong-semicolon-numbered-small.csv", None),
        ("hevy", "hevy-kg-small.csv", None),
    ],
)
def test_a_real_export_and_what_happens_to_it_afterwards(
    database, app_account, settle, published, rebuild, real_file, format, file, unit
):
    history = read_history(real_file(file), format, unit)
    import_history(database.engine, app_account.user_id, format, history)

    _edit_move_and_delete(database, app_account, settle, published, rebuild)


def test_the_sample_history_and_what_happens_to_it_afterwards(
    database, app_account, settle, published, rebuild
):
    import_history(database.engine, app_account.user_id, PROVIDER, sample_history())

    _edit_move_and_delete(database, app_account, settle, published, rebuild)


def _edit_move_and_delete(database, account, settle, published, rebuild):
    settle(account.user_id)
    sessions = database.admin(
        "select id::text, session_date from public.workout_sessions where user_id = :user order by session_date, id",
        user=account.user_id,
    )
    edited, _ = sessions[len(sessions) // 2]
    moved, day = sessions[len(sessions) // 3]
    deleted, _ = sessions[-5]

    account.save_payload(_stored(database, account, edited, factor=2))
    settle(account.user_id)
    account.save_payload(_stored(database, account, moved) | {"session_date": f"{day.year + 1}-02-28"})
    settle(account.user_id)
    account.delete(deleted)
    settle(account.user_id)

    incremental = published(account.user_id)
    rebuild(account.user_id)
    assert published(account.user_id) == incremental


def _stored(database, account, session_id: str, factor: int = 1) -> dict:
    """The payload that saves a stored session again, with its reps times `factor`."""
    [[blocks, day, title, started_at]] = database.admin(
        """
        select
            jsonb_agg(jsonb_build_object('exercise_id', p.exercise_id, 'sets', p.sets) order by p.position),
            min(w.session_date)::text, min(w.title), min(w.started_at)::text
        from public.workout_sessions w
        join (
            select p.session_id, p.exercise_id, p.position, coalesce(jsonb_agg(jsonb_build_object(
                'set_type', s.set_type, 'weight_kg', s.weight_kg, 'reps', s.reps * :factor,
                'distance_m', s.distance_m, 'duration_seconds', s.duration_seconds,
                'is_completed', s.is_completed) order by s.set_no) filter (where s.part_id is not null), '[]') as sets
            from public.session_exercise_part p
            left join public.session_sets s on s.part_id = p.id
            group by p.id
        ) p on p.session_id = w.id
        where w.id = cast(:session as uuid)
        """,
        session=session_id,
        factor=factor,
    )
    return account.payload(
        *blocks, session_id=session_id, session_date=day, title=title, started_at=started_at
    )
