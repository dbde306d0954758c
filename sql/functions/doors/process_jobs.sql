-- public.process_user_exercise_stats_refresh_jobs(limit, validate_integrity, lock_owner)
--   -> {processed_count, completed_count, failed_count, deferred_count, has_more, remaining_user_count,
--       global_worker_busy, results: [{user_id, outcome, response, reason, generation, ...}]}
-- Promises: looks at the `limit` accounts (0 to 100, 10 where null) that have been due longest, passes by those that
--   somebody holds or computes, and processes one: claim, compute and publish in this transaction. An account in
--   batches is claimed and deferred: the workers go on with it. validate_integrity compares the publication with a
--   rebuild before anybody sees it. has_more: the same call would take another account now, so a loop on it ends.
--   remaining_user_count: all accounts that wait, whether or not they can be taken. An overlapping call answers
--   global_worker_busy and does nothing. Not bounded by active_lease_cap. Service and administrators only (42501);
--   22023 for a lock_owner of more than 200 characters; 25000 outside of READ COMMITTED.
-- Locks: batch (try), worker (try), run row (its own: inserted here), write, state row, job rows (skip locked),
--   read models, canonical rows (key share, by the foreign keys), rollover rows (the account's)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs,
--   read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state
-- Next: doors/process_account.sql
create or replace function public.process_user_exercise_stats_refresh_jobs(
    p_limit integer default 10, p_validate_integrity boolean default false, p_lock_owner text default null
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit integer := stats_private.limit_of_door(p_limit);
    v_owner text := stats_private.owner_of_door(p_lock_owner, 'process_user_exercise_stats_refresh_jobs');
    v_is_ours boolean;
    v_user_id uuid;
    v_result jsonb;
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501',
            message = 'only the service and administrators process the jobs of all accounts';
    end if;
    perform stats_private.require_read_committed();
    v_is_ours := stats_private.try_batch_lock();
    if v_is_ours and stats_private.stages_run() then
        foreach v_user_id in array stats_private.accounts_due_longest(v_limit) loop
            v_result := stats_private.process_account(v_user_id, coalesce(p_validate_integrity, false), v_owner);
            exit when v_result is not null;
        end loop;
    end if;
    return stats_private.counts_of_result(v_result) || jsonb_build_object(
        -- What could not be had a moment ago is not asked again.
        'has_more', v_result is not null and stats_private.another_can_be_taken(v_limit, v_owner),
        'remaining_user_count', (
            select count(distinct j.user_id) from public.user_exercise_stats_refresh_jobs j
            where j.status = 'pending'),
        'global_worker_busy', not v_is_ours);
end;
$$;

-- The accounts that have been due longest, in the order in which they are claimed.
create or replace function stats_private.accounts_due_longest(p_limit integer)
returns uuid []
language plpgsql
-- The queue is read from its front in the order of its index, whatever the statistics say (pipeline/claim.sql).
set enable_sort = off
set enable_bitmapscan = off
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_latest timestamptz := v_now + stats_private.longest_wait();
begin
    return array(
        select a.user_id
        from (
            select
                f.user_id, f.place, f.due_at,
                row_number() over (partition by f.user_id order by f.place, f.due_at) as row_of_account
            from (
                select q.place, d.due_at, d.user_id
                from stats_private.due_ranges(v_now, v_latest) q
                cross join lateral (
                    select d.due_at, d.user_id
                    from stats_private.due_jobs(q.priority, q.due_from, q.due_until, v_now, v_latest) d
                    order by d.due_at
                    -- Rows: an account has one, and a few where somebody held it while it was saved.
                    limit 4 * p_limit
                ) d
            ) f
        ) a
        where a.row_of_account = 1
        order by a.place, a.due_at
        limit p_limit);
end;
$$;

-- True where one of the accounts due longest can be taken now: takes it, and gives it back.
create or replace function stats_private.another_can_be_taken(p_limit integer, p_lock_owner text)
returns boolean
language plpgsql
as $$
declare
    v_user_id uuid;
begin
    foreach v_user_id in array stats_private.accounts_due_longest(p_limit) loop
        if (stats_private.take_account(v_user_id, p_lock_owner)).id is not null then
            raise exception using errcode = 'SR003', message = 'an account can be taken';
        end if;
    end loop;
    return false;
exception
    when sqlstate 'SR003' then
        return true;
end;
$$;
