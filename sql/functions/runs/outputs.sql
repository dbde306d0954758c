-- The private outputs of a run: what it has computed, and keeps until its publication.
-- Promises: they are keyed by the run. An attempt is a run of its own, and a run keeps its token from its claim to its
--   end, so nobody but the holder of the run row writes or removes them. They go with the end of the attempt.
-- Locks: private outputs
-- Writes: private outputs, stats_batch_exercises, stats_input_days

-- One look at all of a run's tables. manifest: how many rows of each operation a read model has. revision: a fingerprint,
-- for each table the number of rows and the sum of the transactions that wrote them, which any insert, delete or update
-- changes. In the FROM of a statement it becomes a part of it.
create or replace function stats_private.outputs_of(p_run_id uuid)
returns table (manifest jsonb, revision jsonb)
language sql stable
as $$
    select
        jsonb_object_agg(o.name, jsonb_build_object('i', o.i, 'u', o.u, 'd', o.d)) filter (where o.i is not null),
        jsonb_object_agg(o.name, jsonb_build_array(o.total, o.transactions))
    from (
        select
            'exercises' as name, null::bigint as i, null::bigint as u, null::bigint as d, count(*) as total,
            sum(e.xmin::text::bigint) as transactions
        from stats_private.stats_batch_exercises e where e.run_id = p_run_id
        union all
        select 'input_days', null, null, null, count(*), sum(n.xmin::text::bigint)
        from stats_private.stats_input_days n where n.run_id = p_run_id
        union all
        select
            'daily_rollups', count(*) filter (where r.op = 'i'), count(*) filter (where r.op = 'u'),
            count(*) filter (where r.op = 'd'), count(*), sum(r.xmin::text::bigint)
        from stats_private.stats_output_daily_rollups r where r.run_id = p_run_id
        union all
        select
            'records', count(*) filter (where r.op = 'i'), count(*) filter (where r.op = 'u'),
            count(*) filter (where r.op = 'd'), count(*), sum(r.xmin::text::bigint)
        from stats_private.stats_output_records r where r.run_id = p_run_id
        union all
        select
            'rep_maxes', count(*) filter (where m.op = 'i'), count(*) filter (where m.op = 'u'),
            count(*) filter (where m.op = 'd'), count(*), sum(m.xmin::text::bigint)
        from stats_private.stats_output_rep_maxes m where m.run_id = p_run_id
        union all
        select
            'rep_max_steps', count(*) filter (where t.op = 'i'), count(*) filter (where t.op = 'u'),
            count(*) filter (where t.op = 'd'), count(*), sum(t.xmin::text::bigint)
        from stats_private.stats_output_rep_max_steps t where t.run_id = p_run_id
        union all
        select
            'pr_summaries', count(*) filter (where s.op = 'i'), count(*) filter (where s.op = 'u'),
            count(*) filter (where s.op = 'd'), count(*), sum(s.xmin::text::bigint)
        from stats_private.stats_output_pr_summaries s where s.run_id = p_run_id
        union all
        select
            'periods', count(*) filter (where p.op = 'i'), count(*) filter (where p.op = 'u'),
            count(*) filter (where p.op = 'd'), count(*), sum(p.xmin::text::bigint)
        from stats_private.stats_output_periods p where p.run_id = p_run_id
        union all
        select
            'calendar', count(*) filter (where c.op = 'i'), count(*) filter (where c.op = 'u'),
            count(*) filter (where c.op = 'd'), count(*), sum(c.xmin::text::bigint)
        from stats_private.stats_output_calendar c where c.run_id = p_run_id
    ) o
$$;

-- Removes all that a run has, in one statement, and returns how many days its calendar had. PL/pgSQL, which plans it
-- once a connection; a function in SQL is planned at each call up to PostgreSQL 17.
create or replace function stats_private.delete_outputs(p_run_id uuid)
returns integer
language plpgsql
as $$
declare
    v_days integer;
begin
    with batch_exercises as (delete from stats_private.stats_batch_exercises e where e.run_id = p_run_id),
    input_days as (delete from stats_private.stats_input_days i where i.run_id = p_run_id),
    daily_rollups as (delete from stats_private.stats_output_daily_rollups o where o.run_id = p_run_id),
    records as (delete from stats_private.stats_output_records o where o.run_id = p_run_id),
    rep_maxes as (delete from stats_private.stats_output_rep_maxes o where o.run_id = p_run_id),
    rep_max_steps as (delete from stats_private.stats_output_rep_max_steps o where o.run_id = p_run_id),
    pr_summaries as (delete from stats_private.stats_output_pr_summaries o where o.run_id = p_run_id),
    periods as (delete from stats_private.stats_output_periods o where o.run_id = p_run_id)
    delete from stats_private.stats_output_calendar o where o.run_id = p_run_id;
    get diagnostics v_days = row_count;
    return v_days;
end;
$$;
