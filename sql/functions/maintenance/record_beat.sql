-- Runs fired by a beat: one at a time for each entry, one row of history for each.
-- Promises: the lock ends with the transaction; the history row commits with what the run did.
-- Locks: beat entry (try)
-- Writes: cron_run_history

-- True where this transaction may run the entry; false where the same entry already runs.
create or replace function public.stats_try_beat_lock_v1(p_entry text)
returns boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select pg_try_advisory_xact_lock(hashtextextended('stats-refresh:beat:' || p_entry, 0)) $$;

-- Adds the row of a run that has ended. Raises 22023 for an unknown status.
create or replace function public.record_stats_cron_run_v1(
    p_job_name text, p_task_id text, p_worker text, p_status text, p_response jsonb, p_error text,
    p_started_at timestamptz
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_status is null or p_status not in ('running', 'succeeded', 'failed') then
        raise exception using errcode = '22023', message = 'status: must be running, succeeded or failed';
    end if;
    insert into public.cron_run_history (job_name, task_id, worker, status, response, error, started_at, ended_at)
    values (
        p_job_name, p_task_id, p_worker, p_status, p_response, p_error, p_started_at,
        case when p_status <> 'running' then clock_timestamp() end);
end;
$$;
