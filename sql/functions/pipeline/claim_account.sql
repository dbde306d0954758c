-- stats_private.claim_account(user_id, lock_owner) -> the run, or a null one
-- Promises: one run takes all of the account's pending and exhausted rows or none, so its target_version leaves no
--   generation behind. Its scope covers theirs, and is everything where the policy changed.
-- Locks: write (try), state row, job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, user_stats_refresh_state

-- Turns all of the account's open rows into one run; the caller holds its worker lock. Returns a null run where
-- somebody holds one of its rows, or where it needs batches and has to leave the last slot: then nothing was taken, and
-- the next account is tried.
create or replace function stats_private.claim_account(p_user_id uuid, p_lock_owner text)
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_open record;
    v_scope stats_private.refresh_scope;
    v_needs_batches boolean;
    v_target bigint;
    v_run public.user_stats_projection_runs;
begin
    -- status || '': by the account's index. Statistics of a quiet time make the queue's look just as short, and it
    -- holds what everybody else waits for.
    with locked as (
        select j.* from public.user_exercise_stats_refresh_jobs j
        where j.user_id = p_user_id and j.status || '' in ('pending', 'failed')
        for update skip locked
    )
    select
        l.*, s.applied_version, s.applied_policy_version, p.policy_version, w.lease_seconds, w.max_attempts,
        w.batch_size,
        (
            select count(*) from public.user_exercise_stats_refresh_jobs j
            where j.user_id = p_user_id and j.status || '' in ('pending', 'failed')
        ) as all_jobs
    into v_open
    from (
        select
            array_agg(j.id) as jobs,
            max(j.requested_version) as target_version,
            -- A new write gives exhausted rows fresh attempts; a retry keeps counting.
            coalesce(max(j.attempts) filter (where j.status = 'pending'), 0) + 1 as attempts,
            coalesce(max((j.metadata ->> 'source_invalidations')::integer), 0) as invalidations,
            array_agg((j.from_date, j.exercise_ids, j.window_only)::stats_private.refresh_scope) as scopes
        from locked j
    ) l
    cross join public.stats_projection_policy p
    cross join public.stats_projection_worker_settings w
    left join public.user_stats_refresh_state s on s.user_id = p_user_id;
    -- A row that an enqueuer holds may carry a generation below the target, also after its rollback: take none. One
    -- that was committed after this look carries a later generation, and waits.
    if v_open.jobs is null or cardinality(v_open.jobs) <> v_open.all_jobs then
        return null;
    end if;

    v_scope := case
        when v_open.applied_policy_version is distinct from v_open.policy_version
            then (null, '{}', false)::stats_private.refresh_scope
        -- As it was merged when it was written.
        when cardinality(v_open.scopes) = 1 then v_open.scopes[1]
        else stats_private.merge_scopes(v_open.scopes)
    end;
    -- An account whose batches were overtaken by its own writes max_attempts times in a row is computed at once.
    v_needs_batches := not v_scope.window_only and v_open.invalidations < v_open.max_attempts
        and stats_private.has_more_exercises_than(v_open.batch_size, p_user_id, v_scope.exercise_ids);
    if v_needs_batches and stats_private.batch_slots_are_taken() then
        -- Noted, so that the next claims pass it by without counting its exercises again.
        update public.user_exercise_stats_refresh_jobs j
        set metadata = j.metadata || '{"needs_batches": true}'
        where j.id = any (v_open.jobs);
        return null;
    end if;
    v_target := v_open.target_version;
    if v_target <= v_open.applied_version then
        if not stats_private.try_write_lock(p_user_id) then
            return null;
        end if;
        v_target := stats_private.request_generation(p_user_id, false);
    end if;

    with run as (
        insert into public.user_stats_projection_runs (
            user_id, target_version, base_version, policy_version, anchor, from_date, exercise_ids, window_only,
            needs_batches, lease_until, lock_owner, attempts)
        values (
            p_user_id, v_target, v_open.applied_version, v_open.policy_version, stats_private.utc_today(),
            v_scope.from_date, v_scope.exercise_ids, v_scope.window_only, v_needs_batches,
            clock_timestamp() + v_open.lease_seconds * interval '1 second', p_lock_owner, v_open.attempts)
        returning *
    ),
    jobs as (
        update public.user_exercise_stats_refresh_jobs j
        set status = 'processing',
            run_id = run.id,
            locked_at = clock_timestamp(),
            lock_owner = p_lock_owner,
            attempts = v_open.attempts,
            retry_not_before = null,
            metadata = j.metadata - 'needs_batches',
            updated_at = clock_timestamp()
        from run
        where j.id = any (v_open.jobs)
    )
    select run.* into v_run from run;
    return v_run;
end;
$$;

-- True where the scope has more candidate exercises than that. One that names its exercises names each once.
create or replace function stats_private.has_more_exercises_than(
    p_most integer, p_user_id uuid, p_exercise_ids text []
)
returns boolean
language plpgsql stable
as $$
begin
    if cardinality(p_exercise_ids) > 0 then
        return cardinality(p_exercise_ids) > p_most;
    end if;
    return p_most < (
        select count(*)
        from (select from stats_private.candidate_exercises(p_user_id, p_exercise_ids) limit p_most + 1) c);
end;
$$;
