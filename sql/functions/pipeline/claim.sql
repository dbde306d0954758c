-- public.stats_projection_claim_v1(lock_owner)
--   -> {response: claimed | idle | at_capacity | paused, run_id, lease_token, user_id, has_more, has_capacity}
-- Promises: at most active_lease_cap runs in flight and one an account, under any number of claims at once. The run
--   takes the account's every pending and exhausted row, so its target_version leaves no generation behind.
--   Recovers at most one run whose lease ran out and whose row nobody holds, and readmits one whose backoff is over.
--   Where the cap is above 1, one slot is kept from accounts that are computed in batches. A call tries a bounded
--   number of accounts, and so holds a bounded number of locks.
-- Locks: claim, worker (try), run row (skip locked), write (try), state row, job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, user_stats_refresh_state, private outputs
-- Next: pipeline/compute.sql
create or replace function public.stats_projection_claim_v1(p_lock_owner text)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- The queue is read from its front in the order of its index, and the runs in flight by theirs, whatever the
-- statistics say: they are of a quieter time when much begins to wait, or of a table that was still empty.
set enable_sort = off
set enable_bitmapscan = off
set enable_seqscan = off
-- Up to PostgreSQL 17 a plan without an alternative to what is off counts as so dear that each call compiles it.
set jit = off
as $$
declare
    v_cap integer;
    v_run public.user_stats_projection_runs;
    v_user_id uuid;
begin
    if stats_private.stage_is_paused('claim') then
        return jsonb_build_object('response', 'paused');
    end if;
    -- A statement of its own: what follows must see what the previous claim committed.
    perform stats_private.lock_claim();
    select s.active_lease_cap into v_cap from public.stats_projection_worker_settings s;
    v_run := stats_private.recover_one_expired_run();
    if v_run.id is not null then
        return stats_private.claimed(v_run);
    elsif stats_private.runs_in_flight() >= v_cap then
        return jsonb_build_object('response', 'at_capacity');
    end if;
    v_run := stats_private.readmit_one_run();
    if v_run.id is not null then
        return stats_private.claimed(v_run);
    end if;
    -- Not all: each account that is tried and not taken costs a lock until the commit.
    for v_user_id in select d.user_id from stats_private.due_accounts() d limit 50 loop
        v_run := stats_private.claim_account(v_user_id, p_lock_owner);
        if v_run.id is not null then
            return stats_private.claimed(v_run);
        end if;
    end loop;
    return jsonb_build_object('response', 'idle');
end;
$$;

create or replace function stats_private.claimed(p_run public.user_stats_projection_runs)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'response', 'claimed', 'run_id', p_run.id, 'lease_token', p_run.lease_token, 'user_id', p_run.user_id,
        'target_version', p_run.target_version,
        'has_more', exists (select from stats_private.due_accounts()),
        'has_capacity', stats_private.runs_in_flight() < (
            select s.active_lease_cap from public.stats_projection_worker_settings s))
$$;

-- Looks after one run whose worker died: its lease is over and nobody holds its row. Returns it where it goes on with
-- its own token (batches) in the slot that it still has; otherwise the attempt ends here and the account is due again.
create or replace function stats_private.recover_one_expired_run()
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
begin
    select r.* into v_run
    from public.user_stats_projection_runs r
    where r.phase in ('claimed', 'computed') and r.lease_until <= clock_timestamp()
        -- Nobody could work on it: a pause must not use up attempts.
        and not stats_private.stage_is_paused(case r.phase when 'claimed' then 'compute' else 'publish' end)
    order by r.lease_until
    limit 1
    for update skip locked;
    if not found or not stats_private.try_lock_jobs(v_run.id) then
        return null;
    elsif stats_private.resume_expired_batches(v_run) then
        -- One that backed off has given its slot away and waits for a free one, below.
        if v_run.retry_not_before is not null then
            return null;
        end if;
        return v_run;
    end if;
    perform stats_private.fail_attempt(
        v_run, '55000',
        'lease ran out: the worker ' || coalesce(v_run.lock_owner, '(unnamed)') || ' stopped answering',
        p_backoff => false);
    return null;
end;
$$;

-- Locks the run's jobs without waiting; false where somebody holds one of them.
create or replace function stats_private.try_lock_jobs(p_run_id uuid)
returns boolean
language sql
as $$
    with locked as (
        select j.id from public.user_exercise_stats_refresh_jobs j
        where j.run_id = p_run_id and j.status = 'processing'
        for update skip locked
    )
    select (select count(*) from locked) = (
        select count(*) from public.user_exercise_stats_refresh_jobs j
        where j.run_id = p_run_id and j.status = 'processing')
$$;

-- Counts what the cap counts: every run that is claimed or computed, not those that wait for their retry time.
create or replace function stats_private.runs_in_flight()
returns bigint
language sql stable
as $$
    select count(*)
    from public.user_stats_projection_runs r
    where r.phase in ('claimed', 'computed') and r.retry_not_before is null
$$;

-- True where one more account in batches would take the slot that is kept for the small ones.
create or replace function stats_private.batch_slots_are_taken()
returns boolean
language sql stable
as $$
    select s.active_lease_cap > 1 and s.active_lease_cap - 1 <= (
        select count(*)
        from public.user_stats_projection_runs r
        where r.phase in ('claimed', 'computed') and r.retry_not_before is null and r.needs_batches)
    from public.stats_projection_worker_settings s
$$;

-- The accounts that may be claimed now, the one that is due first in front: by priority, then age. Those that an
-- earlier claim found to need batches are left out for as long as the batches' slots are taken.
-- offset 0 keeps each question to its own account, status || '' to the account's index instead of the queue's: asked
-- of all that waits at once, the first account comes as late as the last.
create or replace function stats_private.due_accounts()
returns table (user_id uuid)
language sql stable
as $$
    select j.user_id
    from public.user_exercise_stats_refresh_jobs j
    where j.status = 'pending'
        and not exists (
            select from public.user_exercise_stats_refresh_jobs waiting
            where waiting.user_id = j.user_id and waiting.status || '' = 'pending'
                and waiting.retry_not_before > clock_timestamp()
            offset 0)
        and not exists (
            select from public.user_stats_projection_runs r
            where r.user_id = j.user_id and r.phase in ('claimed', 'computed')
            offset 0)
        and (not j.metadata ? 'needs_batches' or not (select stats_private.batch_slots_are_taken()))
    order by j.priority, j.created_at
$$;

-- Turns all of the account's open rows into one run. Returns a null run where somebody holds the account or one of
-- its rows, or where it needs batches and has to leave the last slot: then nothing was taken, and the next account is
-- tried.
create or replace function stats_private.claim_account(p_user_id uuid, p_lock_owner text)
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_jobs uuid [];
    v_target bigint;
    v_attempts integer;
    v_scope stats_private.refresh_scope;
    v_state public.user_stats_refresh_state;
    v_policy integer;
    v_invalidations integer;
    v_needs_batches boolean;
    v_run public.user_stats_projection_runs;
begin
    if not stats_private.try_worker_lock(p_user_id) then
        return null;
    end if;
    -- status || '': by the account's index. Statistics of a quiet time make the queue's look just as short, and it
    -- holds what everybody else waits for.
    with locked as (
        select j.id from public.user_exercise_stats_refresh_jobs j
        where j.user_id = p_user_id and j.status || '' in ('pending', 'failed')
        for update skip locked
    )
    select array_agg(l.id) into v_jobs from locked l;
    -- A row that an enqueuer holds may carry a generation below the target, also after its rollback: take none.
    if v_jobs is null or cardinality(v_jobs) <> (
        select count(*) from public.user_exercise_stats_refresh_jobs j
        where j.user_id = p_user_id and j.status || '' in ('pending', 'failed'))
    then
        return null;
    end if;

    select
        max(j.requested_version),
        -- A new write gives exhausted rows fresh attempts; a retry keeps counting.
        coalesce(max(j.attempts) filter (where j.status = 'pending'), 0) + 1,
        coalesce(max((j.metadata ->> 'source_invalidations')::integer), 0)
    into v_target, v_attempts, v_invalidations
    from public.user_exercise_stats_refresh_jobs j
    where j.id = any (v_jobs);
    v_scope := stats_private.merge_scopes(array(
        select (j.from_date, j.exercise_ids, j.window_only)::stats_private.refresh_scope
        from public.user_exercise_stats_refresh_jobs j
        where j.id = any (v_jobs)));
    select s.* into v_state from public.user_stats_refresh_state s where s.user_id = p_user_id;
    select p.policy_version into v_policy from public.stats_projection_policy p;
    if v_state.applied_policy_version is distinct from v_policy then
        v_scope := (null, '{}', false);
    end if;
    v_needs_batches := not v_scope.window_only and stats_private.needs_batches(
        p_user_id, v_scope.exercise_ids, v_invalidations);
    if v_needs_batches and stats_private.batch_slots_are_taken() then
        -- Noted, so that the next claims pass it by without counting its exercises again.
        update public.user_exercise_stats_refresh_jobs j
        set metadata = j.metadata || '{"needs_batches": true}'
        where j.id = any (v_jobs);
        return null;
    end if;
    if v_target <= v_state.applied_version then
        if not stats_private.try_write_lock(p_user_id) then
            return null;
        end if;
        v_target := stats_private.request_generation(p_user_id, false);
    end if;

    insert into public.user_stats_projection_runs (
        user_id, target_version, base_version, policy_version, anchor, from_date, exercise_ids, window_only,
        needs_batches, lease_until, lock_owner, attempts)
    select
        p_user_id, v_target, v_state.applied_version, v_policy, stats_private.utc_today(), v_scope.from_date,
        v_scope.exercise_ids, v_scope.window_only, v_needs_batches,
        clock_timestamp() + s.lease_seconds * interval '1 second',
        p_lock_owner, v_attempts
    from public.stats_projection_worker_settings s
    returning * into v_run;
    update public.user_exercise_stats_refresh_jobs j
    set status = 'processing',
        run_id = v_run.id,
        locked_at = clock_timestamp(),
        lock_owner = p_lock_owner,
        attempts = v_attempts,
        retry_not_before = null,
        metadata = j.metadata - 'needs_batches',
        updated_at = clock_timestamp()
    where j.id = any (v_jobs);
    return v_run;
end;
$$;

-- True where the scope has more candidate exercises than one transaction should take. An account whose batches were
-- overtaken by its own writes max_attempts times in a row is computed at once instead.
create or replace function stats_private.needs_batches(
    p_user_id uuid, p_exercise_ids text [], p_invalidations integer
)
returns boolean
language sql stable
as $$
    select p_invalidations < s.max_attempts and s.batch_size < (
        select count(*) from (
            select from stats_private.candidate_exercises(p_user_id, p_exercise_ids) limit s.batch_size + 1
        ) c)
    from public.stats_projection_worker_settings s
$$;
