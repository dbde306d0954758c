-- Rules for one JSON value: each returns null where the value keeps it (or is absent), else the rule as text.
-- Promises: no cast is tried before the type is known, so bad input never raises from here. The immutable ones
--   call only immutable functions (no format()), so that the planner puts them in place of their calls: a payload
--   has hundreds of values.
-- Locks: none
-- Writes: nothing

-- True where there is a value at all. Never printed to find out: 40 bytes of a number can be 130,000 digits.
create or replace function stats_private.is_given(p_value jsonb)
returns boolean
language sql immutable
as $$ select coalesce(jsonb_typeof(p_value), 'null') <> 'null' $$;

-- A text, null where the value is none.
create or replace function stats_private.text_of(p_value jsonb)
returns text
language sql immutable
as $$ select case when jsonb_typeof(p_value) = 'string' then p_value #>> '{}' end $$;

-- A number, null where the value is none.
create or replace function stats_private.number_of(p_value jsonb)
returns numeric
language sql immutable
as $$ select case when jsonb_typeof(p_value) = 'number' then p_value::numeric end $$;

-- A value that takes at most p_max_bytes when it is printed, in at most 50 levels. Cheap measures come first, so that
-- nothing large is ever printed: the value as it lies in memory (at most 2.5 times its text, in what a client sends),
-- its levels, then the digits of its numbers, which may take 10 bytes and print as 130,000.
create or replace function stats_private.size_problem(p_value jsonb, p_max_bytes integer)
returns text
language plpgsql stable
as $$
declare
    v_digits numeric;
begin
    -- A statement each: the planner works out every branch of one expression, the printing one too.
    if pg_column_size(p_value) > p_max_bytes * 2.5 then
        return stats_private.too_large(p_max_bytes);
    elsif jsonb_path_exists(p_value, 'strict $.**{50}') then
        return 'must be nested in at most 50 levels';
    end if;
    select sum(scale(n.number) + case when abs(n.number) < 1e30 then 0 else 131072 end) into v_digits
    from jsonb_path_query(p_value, 'strict $.** ? (@.type() == "number")') v (value)
    cross join lateral (values (v.value::numeric)) n (number);
    if v_digits > p_max_bytes then
        return stats_private.too_large(p_max_bytes);
    elsif octet_length(p_value::text) > p_max_bytes then
        return stats_private.too_large(p_max_bytes);
    end if;
    return null;
end;
$$;

-- The rule of a size.
create or replace function stats_private.too_large(p_max_bytes integer)
returns text
language sql immutable
as $$
    select 'must be at most ' || case
        when p_max_bytes < 1048576 then (p_max_bytes / 1024)::text || ' kB'
        else (p_max_bytes / 1048576)::text || ' MB'
    end
$$;

-- A number in [p_min, p_max].
create or replace function stats_private.number_problem(p_value jsonb, p_min numeric, p_max numeric)
returns text
language sql immutable
as $$
    select case coalesce(jsonb_typeof(p_value), 'null')
        when 'null' then null
        when 'number' then case
            when p_value::numeric < p_min or p_value::numeric > p_max
                then 'must be from ' || p_min::text || ' to ' || p_max::text
        end
        else 'must be a number'
    end
$$;

-- A whole number in [p_min, p_max].
create or replace function stats_private.whole_number_problem(p_value jsonb, p_min numeric, p_max numeric)
returns text
language sql immutable
as $$
    select case coalesce(jsonb_typeof(p_value), 'null')
        when 'null' then null
        when 'number' then case
            when p_value::numeric < p_min or p_value::numeric > p_max
                then 'must be from ' || p_min::text || ' to ' || p_max::text
            when p_value::numeric % 1 <> 0 then 'must be a whole number'
        end
        else 'must be a number'
    end
$$;

-- A text of at most p_max_length characters.
create or replace function stats_private.text_problem(p_value jsonb, p_max_length integer)
returns text
language sql immutable
as $$
    select case
        when p_value is null or jsonb_typeof(p_value) = 'null' then null
        when jsonb_typeof(p_value) <> 'string' then 'must be a text'
        when char_length(p_value #>> '{}') > p_max_length
            then 'must have at most ' || p_max_length::text || ' characters'
    end
$$;

-- A uuid in text form.
create or replace function stats_private.uuid_problem(p_value jsonb)
returns text
language sql immutable
as $$
    select case
        when p_value is null or jsonb_typeof(p_value) = 'null' then null
        when jsonb_typeof(p_value) <> 'string'
            or p_value #>> '{}' !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
            then 'must be a uuid'
    end
$$;

-- A calendar day YYYY-MM-DD from 1900-01-01 to one year from now.
create or replace function stats_private.day_problem(p_value jsonb)
returns text
language plpgsql stable
as $$
begin
    if p_value is null or jsonb_typeof(p_value) = 'null' then
        return null;
    elsif jsonb_typeof(p_value) <> 'string' or p_value #>> '{}' !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' then
        return 'must be a date, YYYY-MM-DD';
    end if;
    return stats_private.day_out_of_range((p_value #>> '{}')::date);
exception
    when datetime_field_overflow or invalid_datetime_format then
        return 'must be a date, YYYY-MM-DD';
end;
$$;

-- The same range for a day that is a date already; infinity lies outside.
create or replace function stats_private.day_out_of_range(p_day date)
returns text
language sql stable
as $$
    select case
        when p_day not between '1900-01-01' and stats_private.utc_today() + 366
            then 'must be from 1900-01-01 to one year from now'
    end
$$;

-- A moment in ISO 8601 with its offset from UTC, from 1900 to one year from now.
create or replace function stats_private.moment_problem(p_value jsonb)
returns text
language plpgsql stable
as $$
begin
    if p_value is null or jsonb_typeof(p_value) = 'null' then
        return null;
    elsif jsonb_typeof(p_value) <> 'string'
        or p_value #>> '{}' !~ ('^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?'
            || '(Z|[+-][0-9]{2}(:?[0-9]{2})?)$')
    then
        return 'must be a time with its offset, like 2026-01-31T18:30:00+01:00';
    elsif (p_value #>> '{}')::timestamptz not between '1900-01-01 00:00+00' and now() + interval '1 year 1 day' then
        return 'must be from 1900 to one year from now';
    end if;
    return null;
exception
    when datetime_field_overflow or invalid_datetime_format or invalid_time_zone_displacement_value then
        return 'must be a time with its offset, like 2026-01-31T18:30:00+01:00';
end;
$$;

-- An object without other fields than p_known. What is wrong begins with the field's name: `weight: is not ...`.
create or replace function stats_private.fields_problem(p_object jsonb, p_known text [])
returns text
language sql immutable
as $$
    select case
        when p_object - p_known <> '{}' then stats_private.unknown_field_problem(p_object - p_known, p_known)
    end
$$;

-- Names the first of the unknown fields, and those that are known: a misspelt one is seen beside its right name.
create or replace function stats_private.unknown_field_problem(p_unknown jsonb, p_known text [])
returns text
language sql immutable
as $$
    select left(f.name, 100) || ': is not a field here; known are '
        || (select string_agg(k.name, ', ' order by k.place) from unnest(p_known) with ordinality k (name, place))
    from jsonb_object_keys(p_unknown) f (name)
    limit 1
$$;
