-- stats_private.json_of_text(text): JSON that a driver sends as json or as plain text, as jsonb.
-- Promises: raises 22023 for a text that is longer than any payload spelt with blanks and escapes, before it is read.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.json_of_text(p_json text)
returns jsonb
language plpgsql immutable
as $$
begin
    if octet_length(p_json) > 16 * 1024 * 1024 then
        raise exception using errcode = '22023', message = '$: ' || stats_private.too_large(2 * 1024 * 1024);
    end if;
    return p_json::jsonb;
end;
$$;
