-- public.purge_stats_history_v1(limit) -> {response: purged | paused | failed, deleted: {...}, behind}
-- Promises: removes at most limit (1 to 5,000) rows of each kind that only grows: history of the three one-second jobs
--   (ended more than 7 days ago, succeeded or failed; other jobs, running and recent rows stay), completed jobs and
--   ended runs (7 days), receipts (30 days), the catalog's log (30 days), and private outputs of tokens that no run in
--   flight has. `behind` says that a full page went and more may wait. Ages are judged by time_of_purge, which a clock
--   that jumps ahead moves by two days at most. What such a clock dated in days to come has been kept long enough, except
--   for receipts: those stay, so that no repeated write is taken for a new one.
-- Locks: cursor row (skip locked), run row (skip locked), job rows (skip locked), private outputs (skip locked)
-- Writes: cron_run_history, user_exercise_stats_refresh_jobs, user_stats_projection_runs, stats_mutation_receipts,
--   exercise_catalog_changes, private outputs, stats_maintenance_cursors
create or replace function public.purge_stats_history_v1(p_limit integer default 5000)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_begun record;
    v_limit integer := least(greatest(p_limit, 1), 5000);
    v_now timestamptz;
    v_deleted jsonb;
    v_history record;
    v_sqlstate text;
    v_error text;
begin
    select b.* into v_begun from stats_private.begin_page('history') b;
    if v_begun.refusal is not null then
        return jsonb_build_object('response', v_begun.refusal, 'behind', false);
    end if;
    begin
        v_now := stats_private.time_of_purge(v_begun.page);
        select h.* into v_history
        from stats_private.purge_run_history(v_now, coalesce((v_begun.page).cursor::bigint, 0), v_limit) h;
        v_deleted := jsonb_build_object('cron_run_history', v_history.deleted)
            || stats_private.purge_finished_work(v_now, v_limit)
            || jsonb_build_object('private_outputs', stats_private.purge_orphan_outputs(v_limit));
        update public.stats_maintenance_cursors c set counted_until = v_now where c.job = 'history';
        perform stats_private.end_page('history', v_history.judged_to::text);
        return jsonb_build_object(
            'response', 'purged', 'deleted', v_deleted,
            'behind', v_history.more or exists (
                select from jsonb_each(v_deleted) d where d.value::integer >= v_limit));
    exception
        when query_canceled or others then
            if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
    end;
    return stats_private.fail_page('history', v_sqlstate, v_error) || '{"behind": false}';
end;
$$;

-- The time by which a page judges ages: that of the page before plus twice the time since then, two days at most, and
-- never later than the clock. So a clock that jumps months ahead makes nothing old, and a page that comes after a pause
-- of many days lags behind the clock for as many days at most: twice the time makes it up.
create or replace function stats_private.time_of_purge(p_page public.stats_maintenance_cursors)
returns timestamptz
language sql stable
as $$
    select least(
        now(),
        p_page.counted_until
        + 2 * greatest(least(now() - p_page.last_success_at, interval '1 day'), interval '0'))
$$;

-- Goes by primary key. What lies before the cursor was judged for good, removed or kept, and is not read again; the
-- page reads four times as many rows as it may remove, so that kept ones between them cost no page. The cursor stops at
-- the first row whose time may come. One that says `running` for 7 days never will: its scheduler died. One of days to
-- come is old by its place: it is reached when those before it are, and must not hold up those behind it.
create or replace function stats_private.purge_run_history(
    p_now timestamptz, p_after bigint, p_limit integer, out deleted bigint, out judged_to bigint, out more boolean
)
language sql
as $$
    with page as materialized (
        select
            h.id,
            h.job_name in (
                'lift-guild-stats-refresh', 'barbelic-stats-projection-compute', 'barbelic-stats-projection-publish'
            ) as is_of_a_second,
            h.status <> 'running' as has_ended,
            coalesce(h.ended_at, h.started_at) not between k.since and k.until as is_old
        from public.cron_run_history h
        cross join stats_private.times_to_keep(p_now, '7 days') k
        where h.id > p_after
        order by h.id
        limit 4 * p_limit
    ),
    removable as materialized (
        select p.id from page p where p.is_of_a_second and p.has_ended and p.is_old order by p.id limit p_limit
    ),
    removed as (
        delete from public.cron_run_history h using removable r where h.id = r.id returning h.id
    ),
    judged as (
        select p.id
        from page p
        where p.id < coalesce(
            (
                select min(w.id) from page w
                where w.is_of_a_second and (w.has_ended or not w.is_old)
                    and not exists (select from removable r where r.id = w.id)
            ),
            9223372036854775807)
    )
    select
        (select count(*) from removed),
        coalesce((select max(j.id) from judged j), p_after),
        (select count(*) from judged) = 4 * p_limit
$$;

-- Work that is done and receipts that nobody replays any more.
create or replace function stats_private.purge_finished_work(p_now timestamptz, p_limit integer)
returns jsonb
language sql
as $$
    with past as materialized (
        select b.first, b.last
        from stats_private.times_to_keep(p_now, '7 days') k
        cross join lateral (values ('-infinity', k.since), (k.until, 'infinity')) b (first, last)
    ),
    jobs as (
        delete from public.user_exercise_stats_refresh_jobs j
        where j.id in (
            select o.id
            from past p
            cross join lateral (
                select f.id from public.user_exercise_stats_refresh_jobs f
                where f.status = 'completed' and f.priority in (0, 1)
                    -- A job begins before it ends: this ends the index scan at what is recent.
                    and f.created_at between p.first and p.last
                    and exists (select from past c where f.completed_at between c.first and c.last)
                limit p_limit
                for update skip locked
            ) o
            limit p_limit)
        returning 1
    ),
    runs as (
        delete from public.user_stats_projection_runs r
        where r.id in (
            select o.id
            from past p
            cross join lateral (
                select f.id from public.user_stats_projection_runs f
                where f.phase in ('completed', 'failed') and f.completed_at between p.first and p.last
                order by f.completed_at
                limit p_limit
                for update skip locked
            ) o
            limit p_limit)
        returning 1
    ),
    receipts as (
        delete from public.stats_mutation_receipts r
        where (r.user_id, r.mutation_id) in (
            select o.user_id, o.mutation_id from public.stats_mutation_receipts o
            where o.created_at < p_now - interval '30 days'
            order by o.created_at
            limit p_limit
            for update skip locked)
        returning 1
    ),
    changes as (
        delete from public.exercise_catalog_changes c
        where c.seq in (
            select o.seq from public.exercise_catalog_changes o
            cross join stats_private.times_to_keep(p_now, '30 days') k
            where o.changed_at not between k.since and k.until
            order by o.seq
            limit p_limit)
        returning 1
    )
    select jsonb_build_object(
        'jobs', (select count(*) from jobs), 'runs', (select count(*) from runs),
        'receipts', (select count(*) from receipts), 'catalog_changes', (select count(*) from changes))
$$;

-- What was written between the two is kept: later than p_keep before p_now, and not later than the clock says, a minute's
-- grace aside.
create or replace function stats_private.times_to_keep(p_now timestamptz, p_keep interval)
returns table (since timestamptz, until timestamptz)
language sql stable
as $$ select p_now - p_keep, now() + interval '1 minute' $$;
