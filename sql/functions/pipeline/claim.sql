-- public.stats_projection_claim_v1(lock_owner)
--   -> {response: claimed | idle | at_capacity | paused, run_id, lease_token, user_id, phase, has_more, has_capacity,
--       retry_not_before}
-- Promises: at most active_lease_cap runs in flight and one an account, under any number of claims at once. The run
--   takes the account's every pending and exhausted row, so its target_version leaves no generation behind.
--   Recovers at most one run whose lease ran out and whose rows nobody holds, and readmits one that has waited its time.
--   Where the cap is above 1, one slot is kept from accounts that are computed in batches. Passes by what others hold,
--   however much of it stands in front, and holds a bounded number of locks. Where nothing is due it ends the waits that
--   a clock ahead has written, for the next claim. retry_not_before: a run that was to come
--   back finds its account still held, and waits until then. `phase` says which stage is next: claimed is
--   for compute, computed for publish. Raises 25000 outside of READ COMMITTED.
-- Locks: claim, worker (try), run row (skip locked), write (try), state row, job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, user_stats_refresh_state, private outputs
-- Next: pipeline/compute.sql (the account is found by pipeline/due_jobs.sql, taken by pipeline/claim_account.sql)
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
    v_answer jsonb;
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
    v_answer := case
        when v_run.id is not null then stats_private.claimed(
            v_run, stats_private.more_is_due(0, '-infinity', v_slots.longest_wait),
            v_slots.in_flight + 1 < v_slots.cap)
        else stats_private.claim_due_account(
            p_lock_owner, v_slots.longest_wait, v_slots.in_flight + 1 < v_slots.cap)
    end;
    if v_answer is null then
        perform stats_private.end_waits_dated_ahead(v_slots.longest_wait);
        v_answer := jsonb_build_object('response', 'idle');
    end if;
    return v_answer || case
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
