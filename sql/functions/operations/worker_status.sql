-- public.stats_projection_worker_status_v1() -> what waits, what runs, what failed, and the settings row
--   {alerts, jobs, leases, last_hour, accounts, rollover, maintenance, catalog_walks, messages_are_english,
--    paused_stages, settings}
-- Promises: one snapshot. Service and administrators only (42501); 55000 where row security hides rows from these
--   functions. Ages and timings are null where there is nothing to measure.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_projection_worker_status_v1()
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.require_operator('the worker status');
    return (
        select jsonb_build_object(
            'alerts', stats_private.alerts(),
            'jobs', stats_private.status_of_jobs(),
            'leases', stats_private.status_of_leases(),
            'last_hour', stats_private.status_of_last_hour(),
            'accounts', stats_private.status_of_accounts(),
            'rollover', stats_private.status_of_rollover(),
            'maintenance', stats_private.status_of_maintenance(),
            'catalog_walks', (
                select count(*) from public.stats_catalog_scopes w
                where cardinality(w.walking_exercise_ids) > 0 or cardinality(w.pending_exercise_ids) > 0),
            'messages_are_english', stats_private.messages_are_english(),
            'paused_stages', to_jsonb(s.paused_stages),
            'settings', to_jsonb(s) - 'id')
        from public.stats_projection_worker_settings s);
end;
$$;

-- The queue. A job that waits for its retry time is pending too; `exhausted` ones wait for an operator or a new save.
create or replace function stats_private.status_of_jobs()
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'pending_users', count(distinct j.user_id) filter (where j.status = 'pending'),
        'pending', count(*) filter (where j.status = 'pending'),
        'pending_by_priority', jsonb_build_object(
            '0', jsonb_build_object(
                'users', count(distinct j.user_id) filter (where j.status = 'pending' and j.priority = 0),
                'jobs', count(*) filter (where j.status = 'pending' and j.priority = 0)),
            '1', jsonb_build_object(
                'users', count(distinct j.user_id) filter (where j.status = 'pending' and j.priority = 1),
                'jobs', count(*) filter (where j.status = 'pending' and j.priority = 1))),
        'backing_off', count(*) filter (where j.status = 'pending' and j.retry_not_before > clock_timestamp()),
        'processing', count(*) filter (where j.status = 'processing'),
        'exhausted', count(*) filter (where j.status = 'failed'),
        'oldest_wait_seconds', stats_private.age_seconds(min(j.created_at) filter (where j.status = 'pending')))
    from public.user_exercise_stats_refresh_jobs j
    where j.status in ('pending', 'processing', 'failed')
$$;

-- The runs in flight: each is active, expired (nobody has recovered it yet), backing off after a batch that ran over its
-- budget, or busy: held up by others.
create or replace function stats_private.status_of_leases()
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'active', count(*) filter (where r.lease_until > clock_timestamp() and r.retry_not_before is null),
        'expired', count(*) filter (where r.lease_until <= clock_timestamp() and r.retry_not_before is null),
        'backing_off', count(*) filter (where r.retry_not_before is not null and r.busy_waits = 0),
        'busy', count(*) filter (where r.retry_not_before is not null and r.busy_waits > 0),
        'longest_busy_seconds', stats_private.age_seconds(
            min(r.busy_since) filter (where r.retry_not_before is not null and r.busy_waits > 0)))
    from public.user_stats_projection_runs r
    where r.phase in ('claimed', 'computed')
$$;

-- The runs that ended within the hour: completed, failed, overtaken while they were computed (invalidated) or before
-- their publication (rejected). Timings are of the completed ones, in milliseconds.
create or replace function stats_private.status_of_last_hour()
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'completed', count(*) filter (where e.outcome = 'completed'),
        'failed', count(*) filter (where e.outcome = 'failed'),
        'invalidated', count(*) filter (where e.outcome = 'invalidated'),
        'rejected', count(*) filter (where e.outcome = 'rejected'),
        'compute_ms', stats_private.timings(array_agg(e.compute_ms) filter (where e.outcome = 'completed')),
        'publish_ms', stats_private.timings(array_agg(e.publish_ms) filter (where e.outcome = 'completed')))
    from (
        select
            r.compute_ms, r.publish_ms,
            case
                when r.phase = 'completed' then 'completed'
                when r.error like 'invalidated: %' then 'invalidated'
                when split_part(r.error, ':', 1) in ('base_moved', 'canonical_deleted', 'manifest') then 'rejected'
                else 'failed'
            end as outcome
        from public.user_stats_projection_runs r
        where r.completed_at > clock_timestamp() - interval '1 hour' and r.phase in ('completed', 'failed')
            and not stats_private.is_ahead(r.completed_at)
    ) e
$$;

-- Accounts and generations. An account is stale from the moment its oldest open job began.
create or replace function stats_private.status_of_accounts()
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'all', count(*),
        'stale', count(*) filter (where s.applied_version < s.requested_version),
        'oldest_staleness_seconds', (
            select stats_private.age_seconds(min(j.created_at))
            from public.user_exercise_stats_refresh_jobs j
            where j.status in ('pending', 'processing', 'failed')),
        'requested', coalesce(sum(s.requested_version), 0),
        'applied', coalesce(sum(s.applied_version), 0))
    from public.user_stats_refresh_state s
$$;

-- The snapshot windows. An account is due from midnight on; a reader of the UTC date is refused a day after that. One
-- that a clock which ran ahead published for days to come is due as well, and its readers are refused at once.
create or replace function stats_private.status_of_rollover()
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'due', count(*),
        'ahead', count(*) filter (where r.due_at > t.latest),
        'failing', count(*) filter (where r.failures > 0),
        'oldest_due_seconds', stats_private.age_seconds(min(r.due_at) filter (where r.due_at <= t.now)))
    from public.user_pr_overview_rollover_state r
    cross join (select clock_timestamp() as now, stats_private.latest_due_at() as latest) t
    where r.due_at <= t.now or r.due_at > t.latest
$$;

-- The maintenance jobs, each with its cursor and how its last pages went. Nobody knows the age of a success that a
-- clock which ran ahead dated. counted_until is the purge's own affair.
create or replace function stats_private.status_of_maintenance()
returns jsonb
language sql stable
as $$
    select jsonb_object_agg(c.job, to_jsonb(c) - '{job,counted_until}'::text [] || jsonb_build_object(
        'last_success_seconds', case
            when not stats_private.is_ahead(c.last_success_at) then stats_private.age_seconds(c.last_success_at)
        end))
    from public.stats_maintenance_cursors c
$$;

-- True where the server writes its errors in English, as the stages need it to tell a statement timeout from a
-- person's cancel. An error that costs no time stands for all.
create or replace function stats_private.messages_are_english()
returns boolean
language plpgsql stable
as $$
begin
    perform 1 / 0;
    return null;
exception
    when division_by_zero then
        return sqlerrm = 'division by zero';
end;
$$;

-- Count, median, 95th percentile and maximum.
create or replace function stats_private.timings(p_ms numeric [])
returns jsonb
language sql immutable
as $$
    select jsonb_build_object(
        'count', count(t.ms),
        'p50', percentile_cont(0.5) within group (order by t.ms),
        'p95', percentile_cont(0.95) within group (order by t.ms),
        'max', max(t.ms))
    from unnest(p_ms) t (ms)
$$;
