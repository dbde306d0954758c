-- public.remember_imported_workouts_v1(source, workouts, expected_user_id)
-- Promises: remembers workouts of a file that an import found there and did not write, each {session_id, source_ref,
--   session_date, started_at, sets, content?}: the next file is compared with them, and a session that is deleted later
--   stays deleted. Whether a session is as an import left it stays as it was. Raises 42501, 22023,
--   and 55P03 or 40001 as lock_account.sql says.
-- Locks: write, state row
-- Writes: imported_workouts
create or replace function public.remember_imported_workouts_v1(
    p_source text, p_workouts jsonb, p_expected_user_id uuid
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.owner_of_write(p_expected_user_id::text);
begin
    perform stats_private.require_argument('source', coalesce(p_source, '') = '');
    perform stats_private.require_argument('workouts', jsonb_typeof(p_workouts) is distinct from 'array');
    perform stats_private.lock_account(v_user_id);
    perform stats_private.remember_imported_workouts(v_user_id, p_source, p_workouts);
end;
$$;

-- Remembers workouts of a source; what is null or left out of content and left_at stays as it was.
create or replace function stats_private.remember_imported_workouts(p_user_id uuid, p_source text, p_workouts jsonb)
returns void
language sql
as $$
    insert into stats_private.imported_workouts as i (
        user_id, source, session_id, source_ref, session_date, started_at, sets, content, left_at, imported_at)
    select
        p_user_id, p_source, w.session_id, w.source_ref, w.session_date, w.started_at, w.sets, w.content, w.left_at,
        clock_timestamp()
    from jsonb_to_recordset(p_workouts) w (
        session_id uuid, source_ref text, session_date date, started_at timestamptz, sets text, content text,
        left_at timestamptz)
    on conflict (user_id, source, session_id) do update set
        source_ref = excluded.source_ref,
        session_date = excluded.session_date,
        started_at = excluded.started_at,
        sets = excluded.sets,
        content = coalesce(excluded.content, i.content),
        left_at = coalesce(excluded.left_at, i.left_at),
        imported_at = excluded.imported_at
$$;
