-- How a maintenance page starts and ends: one row a job says where it stands and how it went.
-- Promises: a page that another worker runs is left to it; a failed one rolls back, is counted, and keeps its cursor.
-- Locks: cursor row (skip locked)
-- Writes: stats_maintenance_cursors

-- Returns the job's cursor row, locked; or why there is no page to run: `paused`, or `idle` where another worker has it.
create or replace function stats_private.begin_page(
    p_job text, out page public.stats_maintenance_cursors, out refusal text
)
language plpgsql
as $$
begin
    perform stats_private.require_read_committed();
    if stats_private.stage_is_paused('maintenance') then
        refusal := 'paused';
        return;
    end if;
    select c.* into page from public.stats_maintenance_cursors c where c.job = p_job for update skip locked;
    if not found then
        refusal := 'idle';
    end if;
end;
$$;

-- The page succeeded: remembers its cursor. A page without the row's lock never waits for it: who has it writes the
-- same success.
create or replace function stats_private.end_page(p_job text, p_cursor text, p_lap_ended boolean default false)
returns void
language sql
as $$
    update public.stats_maintenance_cursors c
    set cursor = p_cursor,
        laps = c.laps + p_lap_ended::integer,
        lap_started_at = case
            when p_cursor is not null then coalesce(c.lap_started_at, clock_timestamp())
        end,
        last_success_at = clock_timestamp(),
        attempt_count = 0,
        last_error = null,
        next_retry_at = null,
        updated_at = clock_timestamp()
    where c.job in (select l.job from public.stats_maintenance_cursors l where l.job = p_job for update skip locked)
$$;

-- The page failed: counts it and keeps the cursor, so that the next page begins where this one did. next_retry_at is
-- a guess that nothing waits for: the schedule, which SQL does not know, says when the next page comes.
create or replace function stats_private.fail_page(p_job text, p_sqlstate text, p_error text)
returns jsonb
language plpgsql
as $$
begin
    update public.stats_maintenance_cursors c
    set attempt_count = c.attempt_count + 1,
        last_error = format('%s: %s', p_sqlstate, p_error),
        next_retry_at = clock_timestamp() + interval '1 minute',
        updated_at = clock_timestamp()
    where c.job = p_job;
    return jsonb_build_object(
        'response', 'failed', 'job', p_job, 'sqlstate', p_sqlstate, 'error', p_error, 'has_more', false);
end;
$$;

-- When a page has to stop taking accounts: it keeps the write lock of each to its commit, and a save of the first one
-- waits until then.
create or replace function stats_private.page_ends_at()
returns timestamptz
language sql volatile
as $$
    select clock_timestamp() + least(s.maintenance_budget_ms / 2, 250) * interval '1 millisecond'
    from public.stats_projection_worker_settings s
$$;
