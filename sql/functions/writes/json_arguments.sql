-- The public functions that take jsonb, for drivers that send json (psycopg 3's Json, SQLAlchemy's JSON) or plain text.
-- Promises: each answers as its sister with jsonb does. The one with text takes what has no
--   type: a literal, or the parameter of a driver that leaves types to the server; with json and jsonb alone such a call
--   would be ambiguous. Its argument has another name than the sister's, so that a call by names (PostgREST) has one
--   function to mean.
-- Locks: settings row, worker (try), run row (its own: inserted here), write, state row, job rows (skip locked),
--   canonical rows, read models, rollover rows (the account's)
-- Writes: as the sister

create or replace function public.save_session_v5(p_payload_json json)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.save_session_v5(stats_private.json_of_text(p_payload_json::text)) $$;

create or replace function public.save_session_v5(p_payload_text text)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.save_session_v5(stats_private.json_of_text(p_payload_text)) $$;

create or replace function public.import_wodup_batch_to_canonical(p_batch_json json)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.import_wodup_batch_to_canonical(stats_private.json_of_text(p_batch_json::text)) $$;

create or replace function public.import_wodup_batch_to_canonical(p_batch_text text)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.import_wodup_batch_to_canonical(stats_private.json_of_text(p_batch_text)) $$;

create or replace function public.update_stats_projection_settings_v1(p_changes_json json)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.update_stats_projection_settings_v1(stats_private.json_of_text(p_changes_json::text)) $$;

create or replace function public.update_stats_projection_settings_v1(p_changes_text text)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.update_stats_projection_settings_v1(stats_private.json_of_text(p_changes_text)) $$;

create or replace function public.enqueue_user_exercise_stats_refresh_job(
    p_user_id uuid, p_from_date date, p_exercise_ids text [], p_event_type text, p_source_ref text, p_reason text,
    p_metadata_json json, p_priority integer default 0, p_window_only boolean default false
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select public.enqueue_user_exercise_stats_refresh_job(
        p_user_id, p_from_date, p_exercise_ids, p_event_type, p_source_ref, p_reason,
        stats_private.json_of_text(p_metadata_json::text), p_priority, p_window_only)
$$;

create or replace function public.enqueue_user_exercise_stats_refresh_job(
    p_user_id uuid, p_from_date date, p_exercise_ids text [], p_event_type text, p_source_ref text, p_reason text,
    p_metadata_text text, p_priority integer default 0, p_window_only boolean default false
)
returns bigint
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select public.enqueue_user_exercise_stats_refresh_job(
        p_user_id, p_from_date, p_exercise_ids, p_event_type, p_source_ref, p_reason,
        stats_private.json_of_text(p_metadata_text), p_priority, p_window_only)
$$;
