-- What every write needs before it may take a lock.
-- Promises: raise 42501 or 22023 naming field and rule, or return the typed value.
-- Locks: none
-- Writes: nothing

-- Returns the account that the payload is for. Raises 22023 where it is no object, then 42501 where it is not for
-- the signed-in account.
create or replace function stats_private.owner_of_payload(p_payload jsonb)
returns uuid
language plpgsql stable
as $$
begin
    if jsonb_typeof(p_payload) is distinct from 'object' then
        raise exception using errcode = '22023', message = '$: must be an object';
    end if;
    return stats_private.owner_of_write(case
        when jsonb_typeof(p_payload -> 'expected_user_id') = 'string' then p_payload ->> 'expected_user_id'
        when stats_private.is_given(p_payload -> 'expected_user_id') then 'no text'
    end);
end;
$$;

-- Returns values in jsonb's one spelling, to be hashed. Raises 22023 over 2 MB; every value must be within its rule.
create or replace function stats_private.payload_text(p_values jsonb)
returns text
language plpgsql immutable
as $$
declare
    v_text text := p_values::text;
begin
    if octet_length(v_text) > 2 * 1024 * 1024 then
        raise exception using errcode = '22023', message = '$: ' || stats_private.too_large(2 * 1024 * 1024);
    end if;
    return v_text;
end;
$$;

-- Raises 22023 where the payload takes more memory than any of 2 MB does. What it prints as is not asked yet.
create or replace function stats_private.require_size(p_payload jsonb)
returns void
language plpgsql stable
as $$
begin
    if pg_column_size(p_payload) > 2.5 * 2 * 1024 * 1024 then
        raise exception using errcode = '22023', message = '$: ' || stats_private.too_large(2 * 1024 * 1024);
    end if;
end;
$$;

-- Returns the payload's mutation_id.
create or replace function stats_private.payload_mutation_id(p_payload jsonb)
returns uuid
language plpgsql immutable
as $$
declare
    v_problem text := case when not stats_private.is_given(p_payload -> 'mutation_id') then 'is required'
        else stats_private.uuid_problem(p_payload -> 'mutation_id') end;
begin
    if v_problem is not null then
        raise exception using errcode = '22023', message = '$.mutation_id: ' || v_problem;
    end if;
    return (p_payload ->> 'mutation_id')::uuid;
end;
$$;

-- Raises 22023 where an argument of a write is missing.
create or replace function stats_private.require_argument(p_name text, p_is_missing boolean)
returns void
language plpgsql immutable
as $$
begin
    if p_is_missing then
        raise exception using errcode = '22023', message = p_name || ': is required';
    end if;
end;
$$;
