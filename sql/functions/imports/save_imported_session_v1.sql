-- public.save_imported_session_v1(payload, workout) -> receipt
-- Promises: saves a session of a file as save_session_v5 saves its payload, and remembers with it what the import left:
--   workout is {source, source_ref, sets, content} of the file (imports/remember_imported_workouts_v1.sql). Both commit
--   together or not at all; a replay remembers nothing, and
--   session_exists in its receipt says whether the session is still there. Raises as save_session_v5.
-- Locks: write, state row, job rows (skip locked), canonical rows
-- Writes: workout_sessions, session_exercise_part, session_sets, stats_mutation_receipts,
--   user_stats_refresh_state, user_exercise_stats_refresh_jobs, imported_workouts
create or replace function public.save_imported_session_v1(p_payload jsonb, p_workout jsonb)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_receipt jsonb;
begin
    perform stats_private.require_argument('workout', jsonb_typeof(p_workout) is distinct from 'object');
    v_receipt := public.save_session_v5(p_payload);
    if (v_receipt ->> 'replayed')::boolean then
        return v_receipt || jsonb_build_object('session_exists', exists (
            select from public.workout_sessions w where w.id = (v_receipt ->> 'session_id')::uuid));
    else
        perform stats_private.remember_imported_workouts(
            (p_payload ->> 'expected_user_id')::uuid, p_workout ->> 'source',
            jsonb_build_array(p_workout || jsonb_build_object(
                'session_id', v_receipt -> 'session_id', 'session_date', p_payload -> 'session_date',
                'started_at', p_payload -> 'started_at', 'left_at', v_receipt -> 'updated_at')));
    end if;
    return v_receipt;
end;
$$;
