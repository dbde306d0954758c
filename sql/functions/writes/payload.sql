-- The fields that every write needs before it may take a lock.
-- Promises: raise 22023 naming field and rule, or return the typed value.
-- Locks: none
-- Writes: nothing

-- Returns a text field, null where it is absent or no text. Raises 22023 where the payload is no object of 2 MB.
create or replace function stats_private.payload_text(p_payload jsonb, p_field text)
returns text
language plpgsql immutable
as $$
begin
    if jsonb_typeof(p_payload) is distinct from 'object' then
        raise exception using errcode = '22023', message = '$: must be an object';
    elsif octet_length(p_payload::text) > 2 * 1024 * 1024 then
        raise exception using errcode = '22023', message = '$: must be at most 2 MB';
    end if;
    return p_payload ->> p_field;
end;
$$;

-- Returns the payload's mutation_id.
create or replace function stats_private.payload_mutation_id(p_payload jsonb)
returns uuid
language plpgsql immutable
as $$
declare
    v_problem text := case when p_payload ->> 'mutation_id' is null then 'is required'
        else stats_private.uuid_problem(p_payload -> 'mutation_id') end;
begin
    if v_problem is not null then
        raise exception using errcode = '22023', message = '$.mutation_id: ' || v_problem;
    end if;
    return (p_payload ->> 'mutation_id')::uuid;
end;
$$;
