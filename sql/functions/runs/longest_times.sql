-- The longest times that the settings explain: of a wait for the next attempt, and of a lease.
-- Promises: a later time was written by a clock that ran ahead; who reads one counts it as over.
-- Locks: none
-- Writes: nothing

-- The longest time that a job or a run may have to wait for its next attempt.
create or replace function stats_private.longest_wait()
returns interval
language plpgsql stable
as $$
begin
    return (select stats_private.longest_wait(s) from public.stats_projection_worker_settings s);
end;
$$;

-- The same of settings that were read already.
create or replace function stats_private.longest_wait(p_settings public.stats_projection_worker_settings)
returns interval
language sql immutable
as $$
    select greatest(p_settings.max_attempts::double precision * p_settings.retry_backoff_seconds, 30)
        * interval '1 second'
$$;

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
