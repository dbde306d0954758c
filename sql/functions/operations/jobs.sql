-- public.stats_projection_jobs_v1(statuses, limit) -> {total, jobs}: the refresh jobs, the one that is due first in front
-- Promises: jobs in `statuses` (of pending, processing, failed), at most `limit` (1 to 1000) of them; total counts all.
--   A job has its last error and, as failed_in, the stage where that happened (null where its run is gone by now).
--   Service and administrators only (42501); 22023 for other statuses and limits; 55000 where rows are hidden.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_projection_jobs_v1(
    p_statuses text [] default '{pending,processing,failed}', p_limit integer default 50
)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.require_operator('the jobs');
    if p_statuses is null or not p_statuses <@ array['pending', 'processing', 'failed'] then
        raise exception using errcode = '22023', message = 'statuses: must be of pending, processing, failed';
    elsif p_limit is null or p_limit not between 1 and 1000 then
        raise exception using errcode = '22023', message = 'limit: must be a whole number from 1 to 1000';
    end if;
    return (
        select jsonb_build_object(
            'total', (
                select count(*) from public.user_exercise_stats_refresh_jobs j where j.status = any (p_statuses)),
            'jobs', coalesce(jsonb_agg(to_jsonb(d) order by d.priority, d.created_at, d.id), '[]'))
        from (
            select j as job
            from public.user_exercise_stats_refresh_jobs j
            where j.status = any (p_statuses)
            order by j.priority, j.created_at, j.id
            limit p_limit
        ) shown
        cross join lateral stats_private.job_for_operator(shown.job) d);
end;
$$;

-- A run that is tried again, after a batch that ran over its budget or a wait for others, has its error itself; an
-- attempt that failed leaves it in the job, which names its run. A run has its outputs from the end of its compute on.
create or replace function stats_private.job_for_operator(
    p_job public.user_exercise_stats_refresh_jobs,
    out id uuid, out user_id uuid, out status text, out priority integer, out requested_version bigint,
    out attempts integer, out event_type text, out created_at timestamptz, out age_seconds numeric,
    out retry_in_seconds numeric, out error text, out failed_in text
)
language sql stable
as $$
    select
        p_job.id, p_job.user_id, p_job.status, p_job.priority, p_job.requested_version, p_job.attempts, p_job.event_type,
        p_job.created_at,
        stats_private.age_seconds(p_job.created_at),
        round(extract(epoch from greatest(p_job.retry_not_before, retrying.retry_not_before) - clock_timestamp()), 1),
        coalesce(retrying.error, p_job.error_message),
        case
            when retrying.phase = 'computed' then 'publish'
            when retrying.id is not null then 'compute'
            when failed.payload ? 'outputs' then 'publish'
            when failed.id is not null then 'compute'
        end
    from (select p_job.run_id) one
    left join public.user_stats_projection_runs retrying on retrying.id = one.run_id and retrying.error is not null
    left join public.user_stats_projection_runs failed
        on p_job.error_message is not null and failed.user_id = p_job.user_id
        and failed.id::text = p_job.metadata #>> '{last_error,run_id}'
$$;
