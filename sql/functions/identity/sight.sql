-- What the owner's functions can't see: row security that is forced on a table hides its rows from the owner too.
-- Promises: an operator is told so instead of "none". `migrate` gives the owner a policy on each table that lets it see
--   all; what is left to find is a policy that was dropped, or a restrictive one that somebody added.
-- Locks: none
-- Writes: nothing

-- Returns the owner's tables with rows that it may not see, null where there are none.
create or replace function stats_private.hidden_tables()
returns text
language sql stable
as $$
    select string_agg(c.oid::regclass::text, ', ' order by c.relname)
    from pg_catalog.pg_class c
    cross join lateral (
        select
            coalesce(
                bool_or(p.polpermissive and p.polcmd = '*' and pg_get_expr(p.polqual, c.oid) = 'true'), false) as sees_all,
            coalesce(bool_or(not p.polpermissive), false) as is_restricted
        from pg_catalog.pg_policy p
        where p.polrelid = c.oid and (0 = any (p.polroles) or c.relowner = any (p.polroles))
    ) v
    where c.relkind = 'r' and c.relowner = current_user::regrole
        and row_security_active(c.oid) and (v.is_restricted or not v.sees_all)
$$;

-- Raises 55000 where an answer would be made of the rows that are visible alone.
create or replace function stats_private.require_sight()
returns void
language plpgsql stable
as $$
declare
    v_hidden text := stats_private.hidden_tables();
begin
    if v_hidden is not null then
        raise exception using errcode = '55000', message = format(
            'row security hides rows of %s from %s, whose functions work on them, stages too: run stats-refresh '
            'migrate, drop restrictive policies, or ALTER TABLE ... NO FORCE ROW LEVEL SECURITY',
            v_hidden, current_user);
    end if;
end;
$$;

-- Raises 42501 for anybody but service and administrators, and 55000 as above. Each answer to an operator begins so.
create or replace function stats_private.require_operator(p_what text)
returns void
language plpgsql stable
as $$
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = format('only service and administrators read %s', p_what);
    end if;
    perform stats_private.require_sight();
end;
$$;
