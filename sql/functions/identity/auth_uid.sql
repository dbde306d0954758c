-- auth.uid(): who calls, from the request's JWT claims.
-- Promises: created only where missing; what Supabase or PostgREST has in its own `auth` schema is not touched.
-- Locks: none
-- Writes: nothing
do $$
begin
    if to_regnamespace('auth') is null then
        create schema auth;
    end if;
    if to_regprocedure('auth.uid()') is null then
        create function auth.uid() returns uuid
        language sql stable
        as $uid$ select nullif(
            nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb ->> 'sub', ''
        )::pg_catalog.uuid $uid$;
    end if;
end;
$$;
