-- What row security shows on every table where somebody switches it on, as advisors of hosted platforms urge: all rows
--   to the owner, whose functions work on them (also where it is forced), and all to service_role where it may read.
-- Promises: adds what is missing and touches no table that has it; means nothing on a table without row security.
-- Locks: none
-- Writes: nothing
do $$
declare
    v_statement text;
begin
    for v_statement in
        select format(
            'create policy owner_sees_all on %s to %I using (true) with check (true)', c.oid::regclass, current_user)
        from pg_catalog.pg_class c
        where c.relkind = 'r' and c.relowner = current_user::regrole
            and c.relnamespace = any (array[to_regnamespace('public'), to_regnamespace('stats_private')])
            and not exists (
                select from pg_catalog.pg_policy p where p.polrelid = c.oid and p.polname = 'owner_sees_all')
        union all
        select format('create policy service_reads_all on %s for select to service_role using (true)', c.oid::regclass)
        from pg_catalog.pg_class c
        where c.relkind = 'r' and c.relowner = current_user::regrole
            and c.relnamespace = to_regnamespace('public') and has_table_privilege('service_role', c.oid, 'select')
            and not exists (
                select from pg_catalog.pg_policy p where p.polrelid = c.oid and p.polname = 'service_reads_all')
    loop
        execute v_statement;
    end loop;
end;
$$;
