-- public.save_session_v5(payload) -> receipt
-- Promises: creates, or with session_id replaces, one completed session of the signed-in account. Rows, receipt
--   and dirty range commit together or not at all; the same mutation_id again answers the stored receipt with
--   replayed = true and writes nothing; the same are the same values, however spelled (session_values.sql). Waits for
--   no compute; for a publication at most its budget.
--   Raises 42501 (not the signed-in account), 22023 (a field breaks a rule or is unknown: its JSON path),
--   P0002 (no such session of this account), 40001 (the session changed since expected_updated_at), and 55P03 or 40001
--   as lock_account.sql says.
-- Locks: write, state row, job rows (skip locked), canonical rows
-- Writes: workout_sessions, session_exercise_part, session_sets, stats_mutation_receipts,
--   user_stats_refresh_state, user_exercise_stats_refresh_jobs
-- Next: queue/enqueue_job.sql
create or replace function public.save_session_v5(p_payload jsonb)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_mutation_id uuid;
    v_session_id uuid;
    v_problem text;
    v_session jsonb;
    v_payload_hash bytea;
    v_replayed jsonb;
    v_old public.workout_sessions;
    v_exercise_ids text [];
    v_operation text;
    v_updated_at timestamptz;
    v_generation bigint;
begin
    v_user_id := stats_private.owner_of_payload(p_payload);
    perform stats_private.require_size(p_payload);
    v_mutation_id := stats_private.payload_mutation_id(p_payload);
    v_problem := stats_private.session_problem(p_payload);
    if v_problem is null then
        v_session := stats_private.session_values(p_payload);
        v_payload_hash := stats_private.payload_hash('save_session_v5', stats_private.payload_text(v_session));
    end if;

    -- A statement of its own: what follows must see what the previous holder committed.
    perform stats_private.lock_account(v_user_id);
    v_replayed := stats_private.replayed_receipt(
        v_user_id, v_mutation_id, v_payload_hash, 'save_session_v5', p_payload);
    if v_replayed is not null then
        return v_replayed;
    elsif v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;

    v_session_id := (v_session ->> 'session_id')::uuid;
    if v_session_id is null then
        v_operation := 'session_created';
        v_session_id := gen_random_uuid();
    else
        v_operation := 'session_updated';
        v_old := stats_private.session_to_change(v_session_id, v_user_id, v_session ->> 'expected_updated_at');
    end if;

    v_exercise_ids := stats_private.exercise_ids_of(v_old.id, v_session);
    v_generation := public.enqueue_user_exercise_stats_refresh_job(
        v_user_id,
        -- The earlier of the old and the new day: with the new one alone the old day would keep what has left it.
        least(v_old.session_date, (v_session ->> 'session_date')::date),
        v_exercise_ids, v_operation, 'session:' || v_session_id, replace(v_operation, '_', ' '));
    v_problem := stats_private.exercises_problem(v_session -> 'exercises', v_user_id, v_old.id);
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;
    v_updated_at := stats_private.write_session(v_session_id, v_user_id, v_session, v_old);
    return stats_private.store_receipt(
        v_user_id, v_mutation_id, v_payload_hash, v_operation, v_session_id, v_generation,
        jsonb_build_object('session_id', v_session_id, 'updated_at', v_updated_at));
end;
$$;
