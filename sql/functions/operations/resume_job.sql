-- public.stats_projection_resume_job_v1(job_id) -> {job_id, user_id, status}
-- Promises: an exhausted job waits again with fresh attempts. Raises 42501 (service and administrators only), P0002 (no
--   such job) and 55000 where it is not exhausted.
-- Locks: job rows (the one named)
-- Writes: user_exercise_stats_refresh_jobs
create or replace function public.stats_projection_resume_job_v1(p_job_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_job public.user_exercise_stats_refresh_jobs;
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = 'only service and administrators resume a job';
    end if;
    select j.* into v_job from public.user_exercise_stats_refresh_jobs j where j.id = p_job_id for update;
    if not found then
        raise exception using errcode = 'P0002', message = format('job_id: there is no job %s', p_job_id);
    elsif v_job.status <> 'failed' then
        raise exception using errcode = '55000',
            message = format('job %s is %s; only an exhausted job (failed) is resumed', p_job_id, v_job.status);
    end if;
    update public.user_exercise_stats_refresh_jobs j
    set status = 'pending', attempts = 0, retry_not_before = null, updated_at = clock_timestamp()
    where j.id = p_job_id;
    perform pg_notify('stats_refresh_dirty', '');
    return jsonb_build_object('job_id', p_job_id, 'user_id', v_job.user_id, 'status', 'pending');
end;
$$;
