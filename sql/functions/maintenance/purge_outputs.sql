-- Private outputs that nobody will read: a late writer under an old token can leave some behind.
-- Promises: removes at most p_limit rows a table, never one of a run in flight under its own token.
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
    -- Every table with a run and a token is one.
    for v_table in
        select c.oid::regclass
        from pg_class c
        where c.relnamespace = 'stats_private'::regnamespace and c.relkind = 'r'
            and 2 = (
                select count(*) from pg_attribute a
                where a.attrelid = c.oid and a.attname in ('run_id', 'lease_token'))
        order by c.relname
    loop
        execute format(
            'delete from %1$s o where o.ctid in (
                select d.ctid from %1$s d
                where not exists (
                    select from public.user_stats_projection_runs r
                    where r.id = d.run_id and r.lease_token = d.lease_token and r.phase in (''claimed'', ''computed''))
                limit $1
                for update skip locked)', v_table)
        using p_limit;
        get diagnostics v_rows = row_count;
        v_most := greatest(v_most, v_rows);
    end loop;
    return v_most;
end;
$$;
