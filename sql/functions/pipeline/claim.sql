-- public.stats_projection_claim_v1(lock_owner)
--   -> {response: claimed | idle | at_capacity | paused, run_id, lease_token, user_id, phase, has_more, has_capacity,
--       retry_not_before}
-- Promises: at most active_lease_cap runs in flight and one an account, under any number of claims at once. The run
--   takes the account's every pending and exhausted row, so its target_version leaves no generation behind.
--   Recovers at most one run whose lease ran out and whose rows nobody holds, and readmits one that has waited its time.
--   Where the cap is above 1, one slot is kept from accounts that are computed in batches. Passes by what others hold,
--   however much of it stands in front, and holds a bounded number of locks. retry_not_before: a run that was to come
--   back finds its account still held, and waits until then. `phase` says which stage is next: claimed is
--   for compute, computed for publish. Raises 25000 outside of READ COMMITTED.
-- Locks: claim, worker (try), run row (skip locked), write (try), state row, job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, user_stats_refresh_state, private outputs
-- Next: pipeline/due_jobs.sql, then pipeline/compute.sql
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
    v_run public.user_stats_projection_runs;
    v_slots record;
    v_readmitted record;
begin
    perform stats_private.require_read_committed();
    if stats_private.stage_is_paused('claim') then
        return jsonb_build_object('response', 'paused');
    end if;
    -- A statement of its own: what follows must see what the previous claim committed.
    perform stats_private.lock_claim();
    v_run := stats_private.recover_one_expired_run();
    select s.* into v_slots from stats_private.slots() s;
    if v_run.id is not null then
        return stats_private.claimed(
            v_run, stats_private.more_is_due(0, '-infinity', v_slots.longest_wait), v_slots.in_flight < v_slots.cap);
    elsif v_slots.in_flight >= v_slots.cap then
        return jsonb_build_object('response', 'at_capacity');
    end if;
    v_readmitted := stats_private.readmit_waiting_run(v_slots.longest_wait);
    v_run := v_readmitted.run;
    return case
        when v_run.id is not null then stats_private.claimed(
            v_run, stats_private.more_is_due(0, '-infinity', v_slots.longest_wait),
            v_slots.in_flight + 1 < v_slots.cap)
        else coalesce(
            stats_private.claim_due_account(
                p_lock_owner, v_slots.longest_wait, v_slots.in_flight + 1 < v_slots.cap),
            jsonb_build_object('response', 'idle'))
    end || case
        when v_readmitted.waits_until is null then '{}'
        else jsonb_build_object('retry_not_before', v_readmitted.waits_until)
    end;
end;
$$;

create or replace function stats_private.claimed(
    p_run public.user_stats_projection_runs, p_has_more boolean, p_has_capacity boolean
)
returns jsonb
language plpgsql stable
as $$
begin
    return jsonb_build_object(
        'response', 'claimed', 'run_id', p_run.id, 'lease_token', p_run.lease_token, 'user_id', p_run.user_id,
        'target_version', p_run.target_version, 'phase', p_run.phase, 'has_more', p_has_more,
        'has_capacity', p_has_capacity);
end;
$$;

-- Takes the first account of the queue that can be had, and answers as claim does; null where there is none.
create or replace function stats_private.claim_due_account(
    p_lock_owner text, p_longest_wait interval, p_has_capacity boolean
)
returns jsonb
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_accounts uuid [];
    v_run public.user_stats_projection_runs;
begin
    -- Two in one look: the second tells whether more is due. Locked is only what is taken.
    select array_agg(f.user_id order by f.place, f.due_at) into v_accounts
    from stats_private.first_two_due(v_now, v_now + p_longest_wait) f;
    if v_accounts is null then
        return null;
    elsif not stats_private.try_worker_lock(v_accounts[1]) then
        return stats_private.claim_next_free_account(p_lock_owner, v_now, p_longest_wait, p_has_capacity);
    end if;
    v_run := stats_private.claim_account(v_accounts[1], p_lock_owner);
    if v_run.id is null then
        return stats_private.claim_next_free_account(p_lock_owner, v_now, p_longest_wait, p_has_capacity);
    end if;
    return stats_private.claimed(
        v_run,
        case
            when cardinality(v_accounts) = 1 then false
            when v_accounts[2] <> v_accounts[1] and not v_run.needs_batches then true
            -- Two rows of one account; or the run took a slot that the second one may need for its batches.
            else stats_private.more_is_due(0, '-infinity', p_longest_wait)
        end,
        p_has_capacity);
end;
$$;

-- The same where others hold the first account, or a row of it: passes it by, and whatever else they hold.
create or replace function stats_private.claim_next_free_account(
    p_lock_owner text, p_now timestamptz, p_longest_wait interval, p_has_capacity boolean
)
returns jsonb
language plpgsql
as $$
declare
    v_latest timestamptz := p_now + p_longest_wait;
    v_run public.user_stats_projection_runs;
    v_range record;
    v_due_from timestamptz;
    v_job record;
    v_tried integer := 0;
begin
    for v_range in select q.* from stats_private.due_ranges(p_now, v_latest) q order by q.place loop
        v_due_from := v_range.due_from;
        loop
            -- Rows first, and offset 0 keeps it so: where others hold a row, or work on its account, no lock is left.
            select x.* into v_job
            from (
                select j.id, j.user_id, d.due_at
                from public.user_exercise_stats_refresh_jobs j
                join stats_private.due_jobs(v_range.priority, v_due_from, v_range.due_until, p_now, v_latest) d
                    on d.id = j.id
                order by d.due_at
                offset 0
                for update of j skip locked
            ) x
            where stats_private.try_worker_lock(x.user_id)
            limit 1;
            exit when not found;
            v_run := stats_private.claim_account(v_job.user_id, p_lock_owner);
            if v_run.id is not null then
                return stats_private.claimed(
                    v_run, stats_private.more_is_due(v_range.priority, v_job.due_at, p_longest_wait), p_has_capacity);
            end if;
            -- To the end of what is due: the next call begins with others.
            update public.user_exercise_stats_refresh_jobs j
            set retry_not_before = clock_timestamp()
            where j.id = v_job.id and not j.metadata ? 'needs_batches';
            v_due_from := v_job.due_at;
            v_tried := v_tried + 1;
            -- Not all: each account that is tried and not taken costs a lock until the commit.
            if v_tried = 50 then
                return null;
            end if;
        end loop;
    end loop;
    return null;
end;
$$;

-- Looks after one run whose worker died: its lease is over, and nobody holds its row or its jobs'. Returns it where it
-- goes on with its own token (batches) in the slot that it still has; otherwise the attempt ends here and the account
-- is due again.
create or replace function stats_private.recover_one_expired_run()
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
begin
    select x.* into v_run
    from (
        select r.*
        from public.user_stats_projection_runs r
        -- One that waits has nobody at work: it is readmitted, whatever its lease says.
        where r.phase in ('claimed', 'computed') and r.retry_not_before is null
            and (r.lease_until <= clock_timestamp()
                or stats_private.is_ahead(r.lease_until - (select stats_private.longest_lease())))
            -- Nobody could work on it: a pause must not use up attempts.
            and not stats_private.next_stage_is_paused(r.phase)
        order by r.lease_until
        offset 0
        for update skip locked
    ) x
    where stats_private.try_lock_jobs(x.id)
    limit 1;
    if not found then
        return null;
    elsif stats_private.is_ahead(v_run.lease_until - stats_private.longest_lease()) then
        -- Begins anew: a holder that is alive goes on, one that died is recovered then. No attempt pays for the clock.
        perform stats_private.hold_lease(v_run);
        return null;
    elsif stats_private.resume_expired_batches(v_run) then
        return v_run;
    end if;
    perform set_config('lift_guild.stats_lease_token', v_run.lease_token::text, true);
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

-- The slots, and what else a claim asks of the settings. in_flight is what the cap counts: every run that is claimed or
-- computed, not those that wait for their retry time.
create or replace function stats_private.slots()
returns table (cap integer, in_flight bigint, longest_wait interval)
language sql stable
as $$
    select s.active_lease_cap, (select count(*) from stats_private.held_slots()), stats_private.longest_wait(s)
    from public.stats_projection_worker_settings s
$$;

-- The runs that hold a slot. One whose lease ran out longer ago than a stage takes has no worker: where it can't be
-- recovered, because somebody holds one of its rows, others go on without it.
create or replace function stats_private.held_slots()
returns setof public.user_stats_projection_runs
language sql stable
as $$
    select r.*
    from public.user_stats_projection_runs r
    cross join (
        select greatest(s.compute_budget_ms, s.publish_budget_ms) * interval '1 millisecond' + interval '10 seconds'
        from public.stats_projection_worker_settings s
    ) stage (longest)
    where r.phase in ('claimed', 'computed') and r.retry_not_before is null
        and (r.lease_until > clock_timestamp() - stage.longest or stats_private.next_stage_is_paused(r.phase))
$$;

-- True where nobody may take a run of that phase further.
create or replace function stats_private.next_stage_is_paused(p_phase text)
returns boolean
language sql stable
as $$ select stats_private.stage_is_paused(case p_phase when 'claimed' then 'compute' else 'publish' end) $$;

-- The longest time that a live lease has left: one that waits covers its wait, a compute and a publication, which take
-- less than lease_seconds. A longer one was written by a clock that ran ahead.
create or replace function stats_private.longest_lease()
returns interval
language plpgsql stable
as $$
begin
    return (
        select s.lease_seconds * interval '1 second' + stats_private.longest_wait(s)
        from public.stats_projection_worker_settings s);
end;
$$;

-- True where one more account in batches would take the slot that is kept for the small ones.
create or replace function stats_private.batch_slots_are_taken()
returns boolean
language sql stable
as $$
    select s.active_lease_cap > 1 and s.active_lease_cap - 1 <= (
        select count(*) from stats_private.held_slots() r where r.needs_batches)
    from public.stats_projection_worker_settings s
$$;

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
