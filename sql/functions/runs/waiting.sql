-- A run that others hold up: it waits, gives its slot away, and comes back through claim (runs/readmit.sql).
-- Promises: contention costs no attempt and no finished work: outputs and token stay. The waits of a run grow from 1 s to
--   30 s. No wait is longer than longest_wait() says: a retry time beyond it was written by a clock that ran ahead and
--   counts as over.
-- Locks: run row (the caller holds it), job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs

-- The run waits; the caller holds its row and has declared its token. The lease covers the wait, one compute and one
-- publication.
create or replace function stats_private.wait_for_others(
    p_run public.user_stats_projection_runs, p_sqlstate text, p_error text
)
returns jsonb
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
begin
    update public.user_stats_projection_runs r
    set busy_waits = p_run.busy_waits + 1,
        busy_since = coalesce(r.busy_since, clock_timestamp()),
        retry_not_before = clock_timestamp() + w.wait,
        lease_until = clock_timestamp() + greatest(
            s.lease_seconds * interval '1 second',
            w.wait + (s.compute_budget_ms + s.publish_budget_ms) * interval '1 millisecond'),
        error = format('%s: %s', p_sqlstate, p_error),
        updated_at = clock_timestamp()
    from public.stats_projection_worker_settings s
    cross join lateral (
        select least(power(2, least(p_run.busy_waits, 5)), 30) * interval '1 second' as wait
    ) w
    where r.id = p_run.id
    returning r.* into v_run;
    perform stats_private.put_off_pending(v_run.user_id, v_run.retry_not_before);
    return jsonb_build_object(
        'response', 'busy', 'run_id', v_run.id, 'user_id', v_run.user_id, 'sqlstate', p_sqlstate, 'error', p_error,
        'retry_not_before', v_run.retry_not_before, 'busy_waits', v_run.busy_waits);
end;
$$;

-- The account's other rows can't be claimed before: they stand with it, out of the way of those that can. One that a
-- save holds stays where it is.
create or replace function stats_private.put_off_pending(p_user_id uuid, p_until timestamptz)
returns void
language sql
as $$
    update public.user_exercise_stats_refresh_jobs j
    set retry_not_before = p_until
    where j.id in (
        select o.id from public.user_exercise_stats_refresh_jobs o
        -- status || '': by the account's index (pipeline/claim_account.sql).
        where o.user_id = p_user_id and o.status || '' = 'pending'
            and coalesce(o.retry_not_before, '-infinity') < p_until
        for update skip locked)
$$;
