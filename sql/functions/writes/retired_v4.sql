-- public.save_workout_v4, public.update_completed_session_v4, public.delete_completed_session_v4: retired
-- Promises: raise LG426 with what to call instead, whatever they are given, and write nothing. Each takes one
--   unnamed jsonb, to which PostgREST maps any body, and the positions and types in which SQL clients called it.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.raise_retired(p_name text, p_successor text)
returns jsonb
language plpgsql
as $$
begin
    raise exception using errcode = 'LG426',
        message = p_name || ' is retired',
        hint = 'Call ' || p_successor || ' instead.';
end;
$$;

create or replace function public.save_workout_v4(jsonb default null)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select stats_private.raise_retired('save_workout_v4', 'save_session_v5(p_payload)') $$;

create or replace function public.update_completed_session_v4(jsonb default null)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select stats_private.raise_retired('update_completed_session_v4', 'save_session_v5(p_payload) with session_id')
$$;

create or replace function public.update_completed_session_v4(uuid, jsonb)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.update_completed_session_v4() $$;

create or replace function public.delete_completed_session_v4(jsonb default null)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    select stats_private.raise_retired(
        'delete_completed_session_v4', 'delete_session_v5(p_session_id, p_expected_user_id, p_mutation_id)')
$$;

create or replace function public.delete_completed_session_v4(uuid)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.delete_completed_session_v4() $$;

create or replace function public.delete_completed_session_v4(text)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.delete_completed_session_v4() $$;

-- What a driver sends as json or text (json_arguments.sql). Named, so that PostgREST has one function for any body.
create or replace function public.save_workout_v4(p_payload_json json)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.save_workout_v4() $$;

create or replace function public.save_workout_v4(p_payload_text text)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.save_workout_v4() $$;

create or replace function public.update_completed_session_v4(p_payload_json json)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.update_completed_session_v4() $$;

create or replace function public.update_completed_session_v4(p_payload_text text)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.update_completed_session_v4() $$;

create or replace function public.update_completed_session_v4(p_session_id uuid, p_payload_json json)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.update_completed_session_v4() $$;

create or replace function public.update_completed_session_v4(p_session_id uuid, p_payload_text text)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.update_completed_session_v4() $$;

create or replace function public.delete_completed_session_v4(p_payload_json json)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.delete_completed_session_v4() $$;
