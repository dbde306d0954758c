"""An account of more than batch_size exercises is computed step by step, and ends as if computed at once."""

from __future__ import annotations

import pytest
from reckoning.compare import assert_account_equals_reckoning


def set_settings(database, **settings):
    import json

    database.as_service().value(
        "select public.update_stats_projection_settings_v1(cast(:c as jsonb))", c=json.dumps(settings)
    )


def compute_all(stages, run):
    answers = []
    while True:
        answers.append(stages.compute(run))
        if answers[-1]["response"] != "batch_pending":
            return answers


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5])
def test_batches_end_equal_to_the_reckoning(database, app_account, stages, batch_size):
    set_settings(database, batch_size=batch_size)
    for day in ("2026-03-01", "2026-03-08", "2026-11-20"):
        app_account.save(
            *(app_account.block(f"Lift {n}", (50 + n, 5), (60 + n, 3)) for n in range(7)), session_date=day
        )
    run = stages.claim()
    answers = compute_all(stages, run)
    assert [a["response"] for a in answers[:-1]] == ["batch_pending"] * (1 + -(-7 // batch_size))
    assert answers[-1]["response"] == "computed"
    assert stages.publish(run)["response"] == "published"
    with database.admin_engine.connect() as connection:
        assert_account_equals_reckoning(connection, app_account.user_id)
