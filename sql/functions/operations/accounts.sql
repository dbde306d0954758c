-- public.stats_accounts_v1(user_id, sample) -> the accounts that have rows of any kind
-- Promises: what is published outlives the rest only where something went wrong, so each table that an account may have
--   rows in is looked through. One account or all in the order of their ids; with `sample`, so many by chance. Service
--   and administrators only (42501); 55000 where rows are hidden.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_accounts_v1(p_user_id uuid default null, p_sample integer default null)
returns setof uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.require_operator('the accounts');
    return query
        select a.user_id
        from (
            select t.user_id from public.user_stats_refresh_state t
            union
            select t.user_id from public.workout_sessions t
            union
            select t.user_id from public.user_manual_pr_records t
            union
            select t.user_id from public.user_exercise_daily_rollups t
            union
            select t.user_id from public.user_exercise_records t
            union
            select t.user_id from public.user_exercise_rep_maxes t
            union
            select t.user_id from stats_private.rep_max_steps t
            union
            select t.user_id from public.user_training_period_stats t
            union
            select t.user_id from public.user_calendar_day_summaries t
            union
            select t.user_id from public.user_pr_exercise_summary_snapshots t
            union
            select t.user_id from public.user_pr_overview_snapshot_headers t
        ) a
        where p_user_id is null or a.user_id = p_user_id
        order by case when p_sample is null then a.user_id::text else md5(random()::text) end
        limit p_sample;
end;
$$;

-- public.stats_account_standing_v1(user_id)
--   -> {requested_version, applied_version, waits_for, exhausted_job_id, orphan_snapshots, missed_window}
-- Promises: an account without generations has 0 of both. waits_for: null where nothing is to come, else what its next
--   publication waits for: in flight | pending | exhausted | policy | no job. orphan_snapshots: rows of the PR overview
--   outside the published window or without their header, {as_of_date, rows} a day. missed_window: null where the
--   published window has today, else {first, last, today, is_ahead}. Service and administrators only (42501); 55000
--   where rows are hidden.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_account_standing_v1(p_user_id uuid)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.require_operator('an account''s standing');
    return jsonb_build_object(
        'requested_version', 0, 'applied_version', 0, 'waits_for', null, 'exhausted_job_id', null,
        'orphan_snapshots', stats_private.orphan_snapshots(p_user_id),
        'missed_window', stats_private.missed_window(p_user_id)
    ) || coalesce((select to_jsonb(w) from stats_private.waits_for(p_user_id) w), '{}');
end;
$$;

-- A claim takes pending and exhausted jobs together, so an account waits for a person only where all are exhausted.
-- No row for an account without generations.
create or replace function stats_private.waits_for(p_user_id uuid)
returns table (requested_version bigint, applied_version bigint, waits_for text, exhausted_job_id uuid)
language sql stable
as $$
    select s.requested_version, s.applied_version, w.reason, case when w.reason = 'exhausted' then j.failed_id end
    from public.user_stats_refresh_state s
    cross join public.stats_projection_policy p
    cross join lateral (
        select
            array_agg(o.status) as statuses,
            (array_agg(o.id order by o.requested_version) filter (where o.status = 'failed'))[1] as failed_id
        from public.user_exercise_stats_refresh_jobs o
        where o.user_id = s.user_id and o.status in ('pending', 'processing', 'failed')
    ) j
    cross join lateral (
        select case
            when s.applied_version = s.requested_version and s.applied_policy_version = p.policy_version then null
            when 'processing' = any (j.statuses) then 'in flight'
            when 'pending' = any (j.statuses) then 'pending'
            when 'failed' = any (j.statuses) then 'exhausted'
            when s.applied_version = s.requested_version then 'policy'
            else 'no job'
        end as reason
    ) w
    where s.user_id = p_user_id
$$;

create or replace function stats_private.orphan_snapshots(p_user_id uuid)
returns jsonb
language sql stable
as $$
    select coalesce(
        jsonb_agg(jsonb_build_object('as_of_date', d.as_of_date, 'rows', d.found) order by d.as_of_date), '[]')
    from (
        select x.as_of_date, count(*) as found
        from (
            select h.as_of_date from public.user_pr_overview_snapshot_headers h
            where h.user_id = p_user_id and not exists (
                select from public.user_stats_refresh_state s
                where s.user_id = p_user_id
                    and h.as_of_date between s.published_anchor - 1 and s.published_anchor + 1)
            union all
            select x.as_of_date from public.user_pr_exercise_summary_snapshots x
            where x.user_id = p_user_id and not exists (
                select from public.user_pr_overview_snapshot_headers h
                where h.user_id = p_user_id and h.as_of_date = x.as_of_date)
        ) x
        group by x.as_of_date
    ) d
$$;

-- What a comparison with the published window can't tell: whether readers of today find it at all. Null where they do,
-- and before the first publication.
create or replace function stats_private.missed_window(p_user_id uuid)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'first', s.published_anchor - 1, 'last', s.published_anchor + 1, 'today', stats_private.utc_today(),
        'is_ahead', s.published_anchor > stats_private.utc_today())
    from public.user_stats_refresh_state s
    where s.user_id = p_user_id
        and stats_private.utc_today() not between s.published_anchor - 1 and s.published_anchor + 1
$$;
