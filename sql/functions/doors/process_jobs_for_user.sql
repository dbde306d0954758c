-- public.process_user_exercise_stats_refresh_jobs_for_user(user_id, limit, validate_integrity, lock_owner)
--   -> {processed_count, completed_count, failed_count, deferred_count, remaining_count, has_more, worker_timed_out,
--       results: [{user_id, outcome, response, reason, generation, ...}]}
-- Promises: claim, compute and publish of one account in this transaction, where it is due and nobody else is at work on
--   it; `limit` 0 or less: only the counts. remaining_count: its pending and processing rows, so a row that a worker
--   holds is not taken for a drained queue; has_more: there are some. They may have to wait for a retry or a worker, so
--   a caller loops a bounded number of times. A statement_timeout undoes the work, leaves the job pending without a
--   lost attempt, and is answered with worker_timed_out; a person's cancel (57014 of another text) is raised. Own account
--   (also where user_id is null), another one for the service and administrators (42501); 22023 for a lock_owner of more
--   than 200 characters; 25000 outside of READ COMMITTED. Not bounded by active_lease_cap.
-- Locks: worker (try), run row (its own: inserted here), write, state row, job rows (skip locked), read models,
--   canonical rows (key share, by the foreign keys), rollover rows (the account's)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs,
--   read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state
-- Next: doors/process_account.sql
create or replace function public.process_user_exercise_stats_refresh_jobs_for_user(
    p_user_id uuid,
    p_limit integer default 10,
    p_validate_integrity boolean default false,
    p_lock_owner text default null
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.account_of_call(p_user_id);
    v_owner text := stats_private.owner_of_door(p_lock_owner, 'process_user_exercise_stats_refresh_jobs_for_user');
    v_result jsonb;
    v_timed_out boolean := false;
    v_remaining integer;
begin
    perform stats_private.require_read_committed();
    if stats_private.limit_of_door(p_limit) > 0 and stats_private.stages_run()
        and stats_private.account_is_due(v_user_id)
    then
        begin
            v_result := stats_private.process_account(v_user_id, coalesce(p_validate_integrity, false), v_owner);
            -- Compute and publish note a timeout as a failed attempt; here it is the caller's limit, not the work's.
            if v_result ->> 'sqlstate' = '57014' then
                raise exception using errcode = 'SR004', message = 'the statement_timeout ended the work';
            end if;
        exception
            when sqlstate 'SR004' then
                v_timed_out := true;
            when query_canceled then
                if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                    raise;
                end if;
                v_timed_out := true;
        end;
    end if;
    select count(*) into v_remaining
    from public.user_exercise_stats_refresh_jobs j
    where j.user_id = v_user_id and j.status || '' in ('pending', 'processing');
    return stats_private.counts_of_result(case when not v_timed_out then v_result end) || jsonb_build_object(
        'remaining_count', v_remaining, 'has_more', v_remaining > 0, 'worker_timed_out', v_timed_out);
end;
$$;

-- True where the account has a pending row and none that waits for its retry time (as pipeline/due_jobs.sql says).
create or replace function stats_private.account_is_due(p_user_id uuid)
returns boolean
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    return (
        select coalesce(bool_and(
            j.retry_not_before is null or j.retry_not_before not between v_now and v_now + stats_private.longest_wait()),
            false)
        from public.user_exercise_stats_refresh_jobs j
        -- status || '': by the account's index (pipeline/claim_account.sql).
        where j.user_id = p_user_id and j.status || '' = 'pending');
end;
$$;
