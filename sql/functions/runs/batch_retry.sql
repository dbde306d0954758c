-- A batch that ran into the statement budget, and a batched run whose worker died: both go on from the last committed
-- step, a bounded number of times.
-- Promises: the predecessors' outputs stay. A run that backs off counts for no slot and comes back through claim
--   (runs/waiting.sql); its lease covers the wait, one compute and one publication.
-- Locks: run row, job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs

-- True while the run has retries left: max_attempts of them, over all its batches.
create or replace function stats_private.batch_may_retry(p_run public.user_stats_projection_runs)
returns boolean
language sql stable
as $$
    select coalesce((p_run.payload #>> '{_batch,retries}')::integer, 0) < s.max_attempts
    from public.stats_projection_worker_settings s
$$;

-- Counts one retry of the batch and lets the run wait retries x backoff.
create or replace function stats_private.retry_batch(
    p_run public.user_stats_projection_runs, p_sqlstate text, p_error text
)
returns jsonb
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
begin
    update public.user_stats_projection_runs r
    set retry_not_before = clock_timestamp() + w.wait,
        lease_until = clock_timestamp() + greatest(
            s.lease_seconds * interval '1 second',
            w.wait + (s.compute_budget_ms + s.publish_budget_ms) * interval '1 millisecond'),
        payload = jsonb_set(r.payload, '{_batch,retries}', to_jsonb(w.retries)),
        error = format('%s: %s', p_sqlstate, p_error),
        updated_at = clock_timestamp()
    from public.stats_projection_worker_settings s
    cross join lateral (
        select (p_run.payload #>> '{_batch,retries}')::integer + 1 as retries
    ) n
    cross join lateral (
        select n.retries, n.retries * (s.retry_backoff_seconds * interval '1 second') as wait
    ) w
    where r.id = p_run.id
    returning r.* into v_run;
    perform stats_private.put_off_pending(v_run.user_id, v_run.retry_not_before);
    return stats_private.batch_pending(v_run) || jsonb_build_object(
        'response', 'retry_pending', 'retry_not_before', v_run.retry_not_before, 'sqlstate', p_sqlstate,
        'error', p_error);
end;
$$;

-- Lets a batched run whose lease ran out go on with its own token and cursor; false where it has to begin anew: its
-- inputs moved or its retries are used up. The caller holds the claim lock and the run row.
create or replace function stats_private.resume_expired_batches(p_run public.user_stats_projection_runs)
returns boolean
language plpgsql
as $$
begin
    if p_run.phase <> 'claimed' or not p_run.payload ? '_batch' or not stats_private.batch_may_retry(p_run)
        or stats_private.invalidation_of(
            p_run, (select p.policy_version from public.stats_projection_policy p)) is not null
    then
        return false;
    end if;
    perform stats_private.hold_lease(p_run);
    update public.user_stats_projection_runs r
    set payload = jsonb_set(
        r.payload, '{_batch,retries}', to_jsonb((p_run.payload #>> '{_batch,retries}')::integer + 1))
    where r.id = p_run.id;
    return true;
end;
$$;
