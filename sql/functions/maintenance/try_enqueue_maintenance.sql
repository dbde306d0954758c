-- How a page asks for a generation of an account: it never makes a save wait for long, and never waits for one.
-- Promises: false where the account's write lock is not to be had; then nothing was asked for. An account that was
--   deleted meanwhile stays deleted. One whose attempts are used up is not revived: its exhausted row grows by the
--   scope and waits on for an operator or a new save.
-- Locks: write (try), state row, job rows (skip locked)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs
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
    if exists (select from public.user_stats_refresh_state s where s.user_id = p_user_id)
        and not stats_private.grow_exhausted_job(p_user_id, p_exercise_ids, p_event_type, p_source_ref)
    then
        perform public.enqueue_user_exercise_stats_refresh_job(
            p_user_id, p_from_date, p_exercise_ids, p_event_type, p_source_ref, replace(p_event_type, '_', ' '),
            p_priority => 1, p_window_only => p_window_only);
    end if;
    return true;
end;
$$;

-- Adds exercises over all history to the account's newest exhausted row; false where it has none, or waits for a
-- run in other rows too. A row that is locked is being claimed: what comes next begins the next row.
create or replace function stats_private.grow_exhausted_job(
    p_user_id uuid, p_exercise_ids text [], p_event_type text, p_source_ref text
)
returns boolean
language plpgsql
as $$
declare
    v_job public.user_exercise_stats_refresh_jobs;
    v_scope stats_private.refresh_scope;
    v_generation bigint;
begin
    select j.* into v_job
    from public.user_exercise_stats_refresh_jobs j
    -- status || '': by the account's index (pipeline/claim_account.sql).
    where j.user_id = p_user_id and j.status || '' = 'failed' and not exists (
        select from public.user_exercise_stats_refresh_jobs o
        where o.user_id = p_user_id and o.status in ('pending', 'processing'))
    order by j.requested_version desc
    limit 1
    for update skip locked;
    if not found then
        return false;
    end if;
    v_scope := stats_private.merge_scopes(array[
        (v_job.from_date, v_job.exercise_ids, v_job.window_only)::stats_private.refresh_scope,
        (null, p_exercise_ids, false)::stats_private.refresh_scope]);
    v_generation := stats_private.request_generation(p_user_id, (
        select t.is_canonical_write from public.stats_refresh_event_types t where t.id = p_event_type));
    update public.user_exercise_stats_refresh_jobs j
    set from_date = v_scope.from_date,
        exercise_ids = v_scope.exercise_ids,
        window_only = v_scope.window_only,
        reason = stats_private.reason_with(v_job.reason, replace(p_event_type, '_', ' ')),
        metadata = v_job.metadata || jsonb_build_object(
            'event_type', p_event_type, 'source_ref', p_source_ref, 'enqueued_at', clock_timestamp()),
        requested_version = v_generation,
        updated_at = clock_timestamp()
    where j.id = v_job.id;
    return true;
end;
$$;
