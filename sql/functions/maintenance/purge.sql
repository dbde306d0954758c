-- public.purge_stats_history_v1(limit) -> {response: purged | paused | failed, deleted: {...}, behind}
-- Promises: removes at most p_limit rows of each kind that only grows: history of the three one-second jobs (ended
--   more than 7 days ago, succeeded or failed; other jobs, running and recent rows stay), completed jobs and ended
--   runs (7 days), receipts (30 days), the catalog's log (30 days), and private outputs of tokens that no run in flight
--   has. `behind` says that a full page went and more may wait.
-- Locks: cursor row (skip locked), job rows (skip locked)
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
    v_deleted jsonb;
    v_cursor bigint;
    v_sqlstate text;
    v_error text;
begin
    select b.* into v_begun from stats_private.begin_page('history') b;
    if v_begun.refusal is not null then
        return jsonb_build_object('response', v_begun.refusal, 'behind', false);
    end if;
    begin
        select h.deleted, h.cursor into v_deleted, v_cursor
        from stats_private.purge_run_history(coalesce((v_begun.page).cursor::bigint, 0), v_limit) h;
        v_deleted := jsonb_build_object('cron_run_history', v_deleted)
            || stats_private.purge_finished_work(v_limit)
            || jsonb_build_object('private_outputs', stats_private.purge_orphan_outputs(v_limit));
        perform stats_private.end_page('history', v_cursor::text);
        return jsonb_build_object(
            'response', 'purged', 'deleted', v_deleted,
            'behind', exists (select from jsonb_each(v_deleted) d where d.value::integer >= v_limit));
    exception
        when query_canceled then
            if sqlerrm <> 'canceling statement due to statement timeout' then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
        when others then
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
    end;
    return stats_private.fail_page('history', v_sqlstate, v_error) || '{"behind": false}';
end;
$$;

-- Goes by primary key from the cursor: what lies before it was kept on purpose and is not read again.
create or replace function stats_private.purge_run_history(
    p_after bigint, p_limit integer, out deleted bigint, out cursor bigint
)
language sql
as $$
    with page as materialized (
        select h.id, h.job_name, h.status, h.ended_at
        from public.cron_run_history h
        where h.id > p_after
        order by h.id
        limit p_limit
    ),
    passed as materialized (
        -- Ids rise with time: the page ends at the first row that is too recent to judge.
        select p.*
        from page p
        where p.id < coalesce(
            (select min(r.id) from page r where coalesce(r.ended_at, 'infinity') >= now() - interval '7 days'
                and r.job_name in (
                    'lift-guild-stats-refresh', 'barbelic-stats-projection-compute',
                    'barbelic-stats-projection-publish')),
            9223372036854775807)
    ),
    removed as (
        delete from public.cron_run_history h
        using passed p
        where h.id = p.id and p.status in ('succeeded', 'failed') and p.ended_at < now() - interval '7 days'
            and p.job_name in (
                'lift-guild-stats-refresh', 'barbelic-stats-projection-compute', 'barbelic-stats-projection-publish')
        returning 1
    )
    select (select count(*) from removed), coalesce((select max(p.id) from passed p), p_after)
$$;

-- Work that is done and receipts that nobody replays any more.
create or replace function stats_private.purge_finished_work(p_limit integer)
returns jsonb
language sql
as $$
    with jobs as (
        delete from public.user_exercise_stats_refresh_jobs j
        where j.id in (
            select o.id from public.user_exercise_stats_refresh_jobs o
            where o.status = 'completed' and o.completed_at < now() - interval '7 days'
            order by o.status, o.priority, o.created_at
            limit p_limit
            for update skip locked)
        returning 1
    ),
    runs as (
        delete from public.user_stats_projection_runs r
        where r.id in (
            select o.id from public.user_stats_projection_runs o
            where o.phase in ('completed', 'failed') and o.completed_at < now() - interval '7 days'
            order by o.completed_at
            limit p_limit
            for update skip locked)
        returning 1
    ),
    receipts as (
        delete from public.stats_mutation_receipts r
        where (r.user_id, r.mutation_id) in (
            select o.user_id, o.mutation_id from public.stats_mutation_receipts o
            where o.created_at < now() - interval '30 days'
            limit p_limit
            for update skip locked)
        returning 1
    ),
    changes as (
        delete from public.exercise_catalog_changes c
        where c.seq in (
            select o.seq from public.exercise_catalog_changes o
            where o.changed_at < now() - interval '30 days'
            order by o.seq
            limit p_limit)
        returning 1
    )
    select jsonb_build_object(
        'jobs', (select count(*) from jobs), 'runs', (select count(*) from runs),
        'receipts', (select count(*) from receipts), 'catalog_changes', (select count(*) from changes))
$$;
