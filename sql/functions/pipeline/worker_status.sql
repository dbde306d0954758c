-- public.stats_projection_worker_status_v1() -> what waits, what runs, what failed, and the settings row
-- Promises: one snapshot. Service and administrators only (42501).
-- Locks: none
-- Writes: nothing
create or replace function public.stats_projection_worker_status_v1()
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = 'only service and administrators read the worker status';
    end if;
    return jsonb_build_object(
        'jobs', (
            select jsonb_build_object(
                'pending_users', count(distinct j.user_id) filter (where j.status = 'pending'),
                'pending', count(*) filter (where j.status = 'pending'),
                'processing', count(*) filter (where j.status = 'processing'),
                'exhausted', count(*) filter (where j.status = 'failed'),
                'oldest_wait_seconds', extract(epoch from now() - min(j.created_at) filter (where j.status = 'pending')))
            from public.user_exercise_stats_refresh_jobs j
            where j.status in ('pending', 'processing', 'failed')),
        'leases', (
            select jsonb_build_object(
                'active', count(*) filter (where r.lease_until > clock_timestamp()),
                'expired', count(*) filter (where r.lease_until <= clock_timestamp()))
            from public.user_stats_projection_runs r
            where r.phase in ('claimed', 'computed')),
        'last_hour', (
            select jsonb_build_object(
                'completed', count(*) filter (where r.phase = 'completed'),
                'failed', count(*) filter (where r.phase = 'failed'),
                'compute_ms_p50', percentile_cont(0.5) within group (order by r.compute_ms),
                'publish_ms_p50', percentile_cont(0.5) within group (order by r.publish_ms))
            from public.user_stats_projection_runs r
            where r.completed_at > now() - interval '1 hour'),
        'accounts', (
            select jsonb_build_object(
                'all', count(*),
                'stale', count(*) filter (where s.applied_version < s.requested_version),
                'requested', coalesce(sum(s.requested_version), 0),
                'applied', coalesce(sum(s.applied_version), 0))
            from public.user_stats_refresh_state s),
        'settings', (select to_jsonb(s) - 'id' from public.stats_projection_worker_settings s));
end;
$$;
