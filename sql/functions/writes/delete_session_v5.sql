-- public.delete_session_v5(session_id, expected_user_id, mutation_id) -> receipt
-- Promises: deletes one session of the signed-in account; what was published of it loses its link at once and the
--   rest with the next generation. Receipt and dirty range commit with it; the same mutation_id again replays.
--   Raises 42501, 22023, P0002 where the account has no such session, and 55P03 or 40001 as lock_account.sql says.
-- Locks: write, state row, job rows (skip locked), canonical rows, read models (their links to the session)
-- Writes: workout_sessions, session_exercise_part, session_sets, stats_mutation_receipts,
--   user_stats_refresh_state, user_exercise_stats_refresh_jobs, read models' session links
create or replace function public.delete_session_v5(p_session_id uuid, p_expected_user_id uuid, p_mutation_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_payload_hash bytea;
    v_replayed jsonb;
    v_old public.workout_sessions;
    v_generation bigint;
begin
    v_user_id := stats_private.owner_of_write(p_expected_user_id::text);
    perform stats_private.require_argument('mutation_id', p_mutation_id is null);
    perform stats_private.require_argument('session_id', p_session_id is null);
    v_payload_hash := stats_private.payload_hash('delete_session_v5', p_session_id::text);

    perform stats_private.lock_account(v_user_id);
    v_replayed := stats_private.replayed_receipt(v_user_id, p_mutation_id, v_payload_hash);
    if v_replayed is not null then
        return v_replayed;
    end if;

    v_old := stats_private.session_to_change(p_session_id, v_user_id, null);
    v_generation := public.enqueue_user_exercise_stats_refresh_job(
        v_user_id, v_old.session_date, stats_private.exercise_ids_of(p_session_id, null), 'session_deleted',
        'session:' || p_session_id, 'session deleted');
    perform stats_private.delete_session_parts(p_session_id);
    delete from public.workout_sessions w where w.id = p_session_id;
    return stats_private.store_receipt(
        v_user_id, p_mutation_id, v_payload_hash, 'session_deleted', p_session_id, v_generation,
        jsonb_build_object('session_id', p_session_id, 'updated_at', clock_timestamp()));
end;
$$;
