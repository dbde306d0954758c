-- How an attempt ends without a publication.
-- Promises: the run ends as failed with its reason, its private outputs go, and its jobs either wait again or stay
--   failed for an operator; no generation is lost. An attempt that was given back is given back a bounded number of
--   times in a row. The caller holds the run row and the jobs' (try_lock_jobs) and has declared its token.
-- Locks: run row, job rows (of this run; skip locked for others of the account)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, private outputs

-- The attempt failed: back to pending after attempts x backoff, or at the cap failed for good.
-- p_backoff false: at once (the worker died; nothing is known against the account).
create or replace function stats_private.fail_attempt(
    p_run public.user_stats_projection_runs, p_sqlstate text, p_error text, p_backoff boolean default true
)
returns jsonb
language plpgsql
as $$
declare
    v_settings public.stats_projection_worker_settings;
    v_exhausted boolean;
    v_retry_not_before timestamptz;
begin
    select s.* into v_settings from public.stats_projection_worker_settings s;
    v_exhausted := p_run.attempts >= v_settings.max_attempts;
    if p_backoff and not v_exhausted then
        v_retry_not_before := clock_timestamp()
            + p_run.attempts * (v_settings.retry_backoff_seconds * interval '1 second');
    end if;
    perform stats_private.close_run_as_failed(p_run, p_error);
    update public.user_exercise_stats_refresh_jobs j
    set status = case when v_exhausted then 'failed' else 'pending' end,
        run_id = null,
        locked_at = null,
        lock_owner = null,
        error_message = p_error,
        retry_not_before = v_retry_not_before,
        metadata = j.metadata - 'rejections' || jsonb_build_object('last_error', jsonb_build_object(
            'sqlstate', p_sqlstate, 'message', p_error, 'run_id', p_run.id, 'attempt', p_run.attempts,
            'at', clock_timestamp())),
        updated_at = clock_timestamp()
    where j.run_id = p_run.id and j.status = 'processing';
    perform stats_private.put_off_pending(p_run.user_id, v_retry_not_before);
    return jsonb_build_object(
        'response', 'failed', 'run_id', p_run.id, 'user_id', p_run.user_id, 'sqlstate', p_sqlstate,
        'error', p_error, 'attempts', p_run.attempts, 'exhausted', v_exhausted,
        'retry_not_before', v_retry_not_before);
end;
$$;

-- The attempt was overtaken by something that was seen to be so (p_reason): it is given back, and waits 1 s for each
-- time in a row. max_attempts of them in a row are a failed attempt, whatever explains each one.
create or replace function stats_private.reject_run(p_run public.user_stats_projection_runs, p_reason text)
returns jsonb
language plpgsql
as $$
declare
    v_in_a_row integer;
begin
    select coalesce(max((j.metadata ->> 'rejections')::integer), 0) + 1 into v_in_a_row
    from public.user_exercise_stats_refresh_jobs j
    where j.run_id = p_run.id and j.status = 'processing';
    if v_in_a_row >= (select s.max_attempts from public.stats_projection_worker_settings s) then
        return stats_private.fail_attempt(p_run, '55000', format('%s: %s times in a row', p_reason, v_in_a_row));
    end if;
    perform stats_private.give_back_attempt(p_run, p_reason, v_in_a_row);
    return jsonb_build_object('retry_not_before', (
        select max(j.retry_not_before) from public.user_exercise_stats_refresh_jobs j
        -- status || '': by the account's index (pipeline/claim_account.sql).
        where j.user_id = p_run.user_id and j.status || '' = 'pending'));
end;
$$;

-- Back to pending, after 1 s x p_rejections (0: at once, and nothing is counted), and the attempt is given back.
create or replace function stats_private.give_back_attempt(
    p_run public.user_stats_projection_runs, p_reason text, p_rejections integer
)
returns void
language plpgsql
as $$
declare
    v_retry_not_before timestamptz;
begin
    if p_rejections > 0 then
        v_retry_not_before := clock_timestamp() + p_rejections * interval '1 second';
    end if;
    perform stats_private.close_run_as_failed(p_run, p_reason);
    update public.user_exercise_stats_refresh_jobs j
    set status = 'pending',
        run_id = null,
        locked_at = null,
        lock_owner = null,
        attempts = greatest(j.attempts - 1, 0),
        retry_not_before = v_retry_not_before,
        metadata = j.metadata
            || jsonb_build_object('last_rejection', jsonb_build_object(
                'reason', p_reason, 'run_id', p_run.id, 'at', clock_timestamp()))
            || case when p_rejections > 0 then jsonb_build_object('rejections', p_rejections) else '{}' end,
        updated_at = clock_timestamp()
    where j.run_id = p_run.id and j.status = 'processing';
    perform stats_private.put_off_pending(p_run.user_id, v_retry_not_before);
end;
$$;

create or replace function stats_private.close_run_as_failed(p_run public.user_stats_projection_runs, p_error text)
returns void
language plpgsql
as $$
begin
    perform stats_private.delete_outputs(p_run.id);
    update public.user_stats_projection_runs r
    set phase = 'failed', error = p_error, completed_at = clock_timestamp(), updated_at = clock_timestamp()
    where r.id = p_run.id;
end;
$$;
