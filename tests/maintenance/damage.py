"""Damage by hand: a row of a read model removed, altered or added."""

from __future__ import annotations

READ_MODELS = {
    "public.user_exercise_daily_rollups": ("reps = reps + 1", "day = day + 3650"),
    "public.user_exercise_records": ("value = value + 1", "day = day + 3650"),
    "public.user_exercise_rep_maxes": ("weight_kg = weight_kg + 1", "reps = 12"),
    "stats_private.rep_max_steps": ("weight_kg = weight_kg + 1", "day = day + 3650"),
    "public.user_training_period_stats": (
        "volume_kg = volume_kg + 1",
        "period_start = (period_start + interval '10 years')::date",
    ),
    "public.user_calendar_day_summaries": ("titles = array['somebody else''s']", "day = day + 3650"),
    "public.user_pr_exercise_summary_snapshots": (
        "best_weight_kg = best_weight_kg + 1",
        "as_of_date = as_of_date - 9",
    ),
    "public.user_pr_overview_snapshot_headers": ("exercises = exercises + 1", "as_of_date = as_of_date - 9"),
}
"""For each read model an assignment that alters a row, and one that makes a further row of a copy."""
ONE_ROW = "ctid = (select min(x.ctid) from {table} x where x.user_id = :user)"


def remove(database, table, account):
    database.admin(f"delete from {table} where {ONE_ROW.format(table=table)}", user=account.user_id)


def remove_all(database, table, account):
    database.admin(f"delete from {table} where user_id = :user", user=account.user_id)


def alter(database, table, account):
    database.admin(
        f"update {table} set {READ_MODELS[table][0]} where {ONE_ROW.format(table=table)}",
        user=account.user_id,
    )


def add(database, table, account):
    column, _, value = READ_MODELS[table][1].partition(" = ")
    columns = [
        name
        for (name,) in database.admin(
            "select attname from pg_catalog.pg_attribute"
            " where attrelid = cast(:table as regclass) and attnum > 0 and not attisdropped order by attnum",
            table=table,
        )
    ]
    values = [value if name == column else name for name in columns]
    database.admin(
        f"insert into {table} ({', '.join(columns)}) select {', '.join(values)} from {table}"
        f" where {ONE_ROW.format(table=table)}",
        user=account.user_id,
    )
