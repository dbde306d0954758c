-- public.refresh_user_exercise_stats_from(user_id, from_date, exercise_ids)
--   -> {response: published | deferred | the stage's own answer, statsRequestedVersion, user_id, ...}
-- Promises: the engine at once: requests a refresh of that scope, and where nobody is at work on the account takes it,
--   with everything else of the account that waits, through all three stages in this transaction. Otherwise, and for
--   an account that is computed in batches, the request stands and the answer is `deferred`. Applications enqueue
--   instead: this holds up the account's saves until the commit, and it is not bounded by active_lease_cap.
--   Service only (42501).
-- Locks: worker (try), run row (its own: inserted here), write, state row, job rows (skip locked), read models,
--   canonical rows (key share, by the foreign keys)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs,
--   read models, user_pr_overview_snapshot_headers
create or replace function public.refresh_user_exercise_stats_from(
    p_user_id uuid, p_from_date date default null, p_exercise_ids text [] default '{}'
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_is_ours boolean;
    v_generation bigint;
    v_run public.user_stats_projection_runs;
    v_answer jsonb;
begin
    if not stats_private.is_service() then
        raise exception using errcode = '42501', message = 'only service runs the engine; enqueue a refresh instead';
    end if;
    -- Before the write lock: everybody takes the two in this order.
    v_is_ours := stats_private.try_worker_lock(p_user_id);
    v_generation := public.enqueue_user_exercise_stats_refresh_job(
        p_user_id, p_from_date, p_exercise_ids, 'manual_refresh', p_reason => 'refresh_user_exercise_stats_from');
    v_answer := jsonb_build_object(
        'response', 'deferred', 'user_id', p_user_id, 'statsRequestedVersion', v_generation);
    if not v_is_ours or exists (
        select from public.user_stats_projection_runs r
        where r.user_id = p_user_id and r.phase in ('claimed', 'computed'))
    then
        return v_answer;
    end if;
    v_run := stats_private.claim_account(p_user_id, 'refresh_user_exercise_stats_from');
    if v_run.id is null or v_run.needs_batches then
        return v_answer;
    end if;
    v_answer := v_answer || public.stats_projection_compute_v1(v_run.id, v_run.lease_token);
    if v_answer ->> 'response' = 'computed' then
        v_answer := v_answer || public.stats_projection_publish_v1(v_run.id, v_run.lease_token);
    end if;
    return v_answer;
end;
$$;
