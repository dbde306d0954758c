-- public.refresh_stats_now_v1(user_id)
--   -> {response: published | deferred | the stage's own answer, statsRequestedVersion, user_id, reason, ...}
-- Promises: the refresh that a person asks for: requests a generation over the account's whole history and makes one
--   attempt at it in this transaction. Where a run is in flight, a stage is paused or the account is computed in
--   batches the answer is `deferred` and the request stands; a failed attempt waits for its retry as any other does.
--   Service and administrators only (42501).
-- Locks: worker (try), run row (its own: inserted here), write, state row, job rows (skip locked), read models,
--   canonical rows (key share, by the foreign keys), rollover rows (the account's)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs,
--   read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state
-- Next: pipeline/refresh_at_once.sql
create or replace function public.refresh_stats_now_v1(user_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := user_id;
    v_is_ours boolean;
    v_generation bigint;
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501',
            message = 'only the service and administrators refresh at once; enqueue a refresh instead';
    end if;
    -- Before the write lock: everybody takes the two in this order.
    v_is_ours := stats_private.try_worker_lock(v_user_id);
    v_generation := public.enqueue_user_exercise_stats_refresh_job(
        v_user_id, null, '{}', 'manual_refresh', p_reason => 'refresh_stats_now_v1');
    return stats_private.refresh_at_once(v_user_id, v_is_ours, 'refresh_stats_now_v1')
        || jsonb_build_object('user_id', v_user_id, 'statsRequestedVersion', v_generation);
end;
$$;
