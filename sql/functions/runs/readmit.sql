-- Runs that go on: the one whose worker died, and the one that has waited its time.
-- Promises: a claim looks after both before it takes anything new. Who waits longest past its time comes back first; a
--   run whose account is still held waits again without taking a slot. A run that somebody holds is passed by.
-- Locks: run row (skip locked), write (try), job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, private outputs

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

-- Readmits the run that has waited longest past its time, whatever it waited for; null where none is due. waits_until:
-- when the first of those comes back that have to wait again. The caller holds the claim lock and has seen a free slot;
-- the one that is kept from batches is not for them.
create or replace function stats_private.readmit_waiting_run(
    p_longest_wait interval, out run public.user_stats_projection_runs, out waits_until timestamptz
)
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_latest timestamptz := v_now + p_longest_wait;
begin
    -- Not all: each of them that waits again is written.
    for v_tried in 1..50 loop
        select x.* into run
        from (values ('-infinity'::timestamptz, v_now), (v_latest, 'infinity')) t (after, until)
        cross join lateral (
            select r.*
            from public.user_stats_projection_runs r
            where r.phase in ('claimed', 'computed') and r.retry_not_before > t.after and r.retry_not_before <= t.until
                and (not r.needs_batches or not (select stats_private.batch_slots_are_taken()))
            order by r.retry_not_before
            for update skip locked
        ) x
        limit 1;
        exit when not found;
        perform stats_private.hold_lease(run);
        -- A publication would stand in its slot until its lock_timeout, and others behind it.
        if run.phase = 'claimed' or stats_private.try_write_lock(run.user_id) then
            update public.user_stats_projection_runs r set retry_not_before = null where r.id = run.id;
            return;
        end if;
        waits_until := least(
            waits_until,
            (stats_private.wait_for_others(run, '55P03', 'a writer holds the account') ->> 'retry_not_before')
                ::timestamptz);
    end loop;
    run := null;
end;
$$;
