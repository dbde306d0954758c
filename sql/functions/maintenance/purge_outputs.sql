-- Private outputs that nobody will read: those of a run that is not in flight, which something outside of the stages
-- left behind.
-- Promises: removes at most p_limit rows a table, never one of a run in flight.
-- Locks: private outputs (skip locked: a stage that removes the same rows is left to it)
-- Writes: private outputs
create or replace function stats_private.purge_orphan_outputs(p_limit integer)
returns bigint
language plpgsql
as $$
declare
    v_table regclass;
    v_rows bigint;
    v_most bigint := 0;
begin
    -- Every private table with a run is one.
    for v_table in
        select c.oid::regclass
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'run_id' and not a.attisdropped
        where c.relnamespace = 'stats_private'::regnamespace and c.relkind = 'r'
        order by c.relname
    loop
        execute format(
            'delete from %1$s o where o.ctid in (
                select d.ctid from %1$s d
                where not exists (
                    select from public.user_stats_projection_runs r
                    where r.id = d.run_id and r.phase in (''claimed'', ''computed''))
                limit $1
                for update skip locked)', v_table)
        using p_limit;
        get diagnostics v_rows = row_count;
        v_most := greatest(v_most, v_rows);
    end loop;
    return v_most;
end;
$$;
