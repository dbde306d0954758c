-- auth.uid(), auth.jwt(): who calls, from the request's JWT claims.
-- Promises: created only where missing; beside Supabase's or PostgREST's own `auth` schema nothing is touched.
-- Locks: none
-- Writes: nothing
do $$
begin
    if to_regnamespace('auth') is null then
        create schema auth;
    end if;
    if to_regprocedure('auth.jwt()') is null then
        create function auth.jwt() returns jsonb
        language sql stable
        as $jwt$ select nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::pg_catalog.jsonb $jwt$;
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
