-- How a maintenance page starts and ends: one row a job says where it stands and how it went.
-- Promises: a page that another worker runs is left to it; a failed one rolls back, is counted, and keeps its cursor.
-- Locks: cursor row (skip locked)
-- Writes: stats_maintenance_cursors

-- Returns the job's cursor row, locked; null where the stage is paused or another worker has it (see p_refusal).
create or replace function stats_private.begin_page(
    p_job text, out page public.stats_maintenance_cursors, out refusal text
)
language plpgsql
as $$
begin
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

-- The page succeeded: remembers its cursor. A null cursor ends the lap.
create or replace function stats_private.end_page(p_job text, p_cursor text)
returns void
language sql
as $$
    update public.stats_maintenance_cursors c
    set cursor = p_cursor,
        laps = c.laps + (p_cursor is null)::integer,
        lap_started_at = case
            when p_cursor is null then null
            else coalesce(c.lap_started_at, clock_timestamp())
        end,
        last_success_at = clock_timestamp(),
        attempt_count = 0,
        last_error = null,
        next_retry_at = null,
        updated_at = clock_timestamp()
    where c.job = p_job
$$;

-- The page failed: counts it and keeps the cursor, so that the next page begins where this one did.
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

-- Asks for a generation of an account on behalf of maintenance; false where its write lock is not to be had: a page
-- never makes a save wait, and never waits for one.
create or replace function stats_private.try_enqueue_maintenance(
    p_user_id uuid, p_from_date date, p_exercise_ids text [], p_event_type text, p_source_ref text,
    p_window_only boolean
)
returns boolean
language plpgsql
as $$
begin
    if not stats_private.try_write_lock(p_user_id) then
        return false;
    end if;
    perform public.enqueue_user_exercise_stats_refresh_job(
        p_user_id, p_from_date, p_exercise_ids, p_event_type, p_source_ref, replace(p_event_type, '_', ' '),
        p_priority => 1, p_window_only => p_window_only);
    return true;
end;
$$;
