-- What a clock that ran ahead leaves in the pipeline: retry times and leases that lie further off than any right clock
-- would have set them.
-- Promises: longest_wait() and longest_lease() bound what the stages set by the settings of now. A lease further off
--   begins anew: a holder that is alive goes on, one that died is recovered as usual, and no attempt is used up by the
--   clock.
-- Locks: run row (skip locked: a stage at work renews its own lease)
-- Writes: user_stats_projection_runs

-- The longest time that a job or a run may have to wait for its next attempt.
create or replace function stats_private.longest_wait()
returns interval
language sql stable
as $$
    select greatest(s.max_attempts::double precision * s.retry_backoff_seconds, 30) * interval '1 second'
    from public.stats_projection_worker_settings s
$$;

-- The longest time that a live lease has left: one that waits covers its wait, a compute and a publication, which take
-- less than lease_seconds.
create or replace function stats_private.longest_lease()
returns interval
language sql stable
as $$
    select s.lease_seconds * interval '1 second' + stats_private.longest_wait()
    from public.stats_projection_worker_settings s
$$;

-- Renews the leases of runs in flight that no right clock wrote. For the claim, before it recovers runs.
create or replace function stats_private.shorten_leases_ahead()
returns void
language plpgsql
as $$
declare
    v_longest interval := stats_private.longest_lease();
    v_run public.user_stats_projection_runs;
begin
    for v_run in
        select r.*
        from public.user_stats_projection_runs r
        where r.phase in ('claimed', 'computed') and stats_private.is_ahead(r.lease_until - v_longest)
        for update skip locked
    loop
        perform stats_private.hold_lease(v_run);
    end loop;
end;
$$;
