-- Which release the database is at, for a login that may not look: the schema step, and the hash of each applied file.
-- Promises: what `migrate` compares to find that it has nothing to do. is_closed: false where a restore has left out the
--   owner or the grants, so that functions run as somebody else or for everybody.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_refresh_release_v1()
returns jsonb
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select pg_catalog.jsonb_build_object(
        'schema_step', (select v.version_num from public.stats_refresh_schema_version v),
        'files', coalesce(
            (select pg_catalog.jsonb_object_agg(f.name, f.sha256) from stats_private.applied_sql_files f), '{}'),
        'is_closed', not exists (
            select from pg_catalog.pg_proc p
            where p.pronamespace = 'stats_private'::pg_catalog.regnamespace and (
                p.proowner::pg_catalog.regrole::text <> 'stats_refresh_owner'
                or pg_catalog.has_function_privilege('anon', p.oid, 'execute'))))
$$;
