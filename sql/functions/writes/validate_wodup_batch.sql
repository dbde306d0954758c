-- stats_private.validate_wodup_batch(batch): raises 22023 with the JSON path of the first field that breaks a rule
-- Promises: after it every cast of the batch's fields is safe, each result and movement has its id once, and each
--   load a unit.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.validate_wodup_batch(p_batch jsonb)
returns void
language plpgsql stable
as $$
declare
    v_problem text;
begin
    if jsonb_typeof(p_batch) is distinct from 'object' then
        raise exception using errcode = '22023', message = '$: must be an object';
    end if;
    -- First of all: what follows prints values.
    v_problem := '$: ' || stats_private.size_problem(p_batch, 2 * 1024 * 1024);
    -- Each looks only where the ones before it found nothing, so none meets a list that is no list.
    v_problem := coalesce(v_problem, stats_private.wodup_frame_problem(p_batch));
    v_problem := coalesce(v_problem, stats_private.wodup_movement_problem(p_batch -> 'movements'));
    v_problem := coalesce(v_problem, stats_private.wodup_day_problem(p_batch -> 'days'));
    v_problem := coalesce(v_problem, stats_private.wodup_result_problem(p_batch -> 'days'));
    v_problem := coalesce(v_problem, stats_private.wodup_repeated_result_problem(p_batch -> 'days'));
    v_problem := coalesce(v_problem, stats_private.wodup_set_problem(p_batch -> 'days'));
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;
end;
$$;

-- An identity of the provider: a text or a number, never null.
create or replace function stats_private.external_id_problem(p_value jsonb)
returns text
language sql immutable
as $$
    select case
        when coalesce(jsonb_typeof(p_value), 'null') = 'null' then 'is required'
        when jsonb_typeof(p_value) not in ('string', 'number') then 'must be a text or a number'
        when char_length(p_value #>> '{}') not between 1 and 200 then 'must have 1 to 200 characters'
    end
$$;

-- True or false, or left out.
create or replace function stats_private.boolean_problem(p_value jsonb)
returns text
language sql immutable
as $$
    select case when jsonb_typeof(p_value) not in ('boolean', 'null') then 'must be true or false' end
$$;

-- The batch's own fields.
create or replace function stats_private.wodup_frame_problem(p_batch jsonb)
returns text
language sql stable
as $$
    select coalesce(
        '$.user_id: ' || case when p_batch ->> 'user_id' is null then 'is required'
            else stats_private.uuid_problem(p_batch -> 'user_id') end,
        '$.id: ' || case when coalesce(jsonb_typeof(p_batch -> 'id'), 'null') <> 'null'
            then stats_private.external_id_problem(p_batch -> 'id') end,
        '$.movements: ' || case when jsonb_typeof(p_batch -> 'movements') <> 'array'
            then 'must be a list of movements' end,
        '$.days: ' || case when jsonb_typeof(p_batch -> 'days') is distinct from 'array'
            then 'must be a list of days' end)
$$;

-- Every movement; a list that is left out has none.
create or replace function stats_private.wodup_movement_problem(p_movements jsonb)
returns text
language sql stable
as $$
    select format('$.movements[%s]', m.place - 1) || rule.text
    from (
        select e.value, e.place, row_number() over (partition by e.value -> 'id' #>> '{}' order by e.place) as occurrence
        from jsonb_array_elements(p_movements) with ordinality e (value, place)
    ) m
    cross join lateral (values (case
        when jsonb_typeof(m.value) <> 'object' then ': must be an object'
        else coalesce(
            '.id: ' || stats_private.external_id_problem(m.value -> 'id'),
            case when m.occurrence > 1 then '.id: stands twice in the list' end,
            '.name: ' || case when btrim(coalesce(m.value ->> 'name', '')) = '' then 'is required'
                else stats_private.text_problem(m.value -> 'name', 200) end,
            '.hasReps: ' || stats_private.boolean_problem(m.value -> 'hasReps'),
            '.hasLoad: ' || stats_private.boolean_problem(m.value -> 'hasLoad'),
            '.hasDistance: ' || stats_private.boolean_problem(m.value -> 'hasDistance'),
            '.hasDuration: ' || stats_private.boolean_problem(m.value -> 'hasDuration'))
    end)) rule (text)
    where rule.text is not null
    order by m.place
    limit 1
$$;

-- Every day, and that its results and their sets are lists of objects.
create or replace function stats_private.wodup_day_problem(p_days jsonb)
returns text
language plpgsql stable
as $$
declare
    v_problem text;
begin
    select format('$.days[%s]', d.place - 1) || rule.text into v_problem
    from jsonb_array_elements(p_days) with ordinality d (value, place)
    cross join lateral (values (case
        when jsonb_typeof(d.value) <> 'object' then ': must be an object'
        else coalesce(
            '.day: ' || stats_private.day_problem(d.value -> 'day'),
            case when jsonb_typeof(d.value -> 'results') is distinct from 'array'
                then '.results: must be a list of results' end)
    end)) rule (text)
    where rule.text is not null
    order by d.place
    limit 1;
    if v_problem is not null then
        return v_problem;
    end if;
    select format('$.days[%s].results[%s]', d.place - 1, r.place - 1) || rule.text into v_problem
    from jsonb_array_elements(p_days) with ordinality d (value, place)
    cross join lateral jsonb_array_elements(d.value -> 'results') with ordinality r (value, place)
    cross join lateral (values (case
        when jsonb_typeof(r.value) <> 'object' then ': must be an object'
        when jsonb_typeof(r.value -> 'sets') is distinct from 'array' then '.sets: must be a list of sets'
        when jsonb_array_length(r.value -> 'sets') not between 1 and 2000 then '.sets: must have 1 to 2000 sets'
    end)) rule (text)
    where rule.text is not null
    order by d.place, r.place
    limit 1;
    return v_problem;
end;
$$;

-- Every field of every result but its sets.
create or replace function stats_private.wodup_result_problem(p_days jsonb)
returns text
language sql stable
as $$
    select format('$.days[%s].results[%s].', d.place - 1, r.place - 1) || rule.text
    from jsonb_array_elements(p_days) with ordinality d (value, place)
    cross join lateral jsonb_array_elements(d.value -> 'results') with ordinality r (value, place)
    cross join lateral (values (coalesce(
        'id: ' || stats_private.external_id_problem(r.value -> 'id'),
        'doneOn: ' || case when coalesce(r.value ->> 'doneOn', d.value ->> 'day') is null then 'is required'
            else stats_private.day_problem(r.value -> 'doneOn') end,
        'timeZone: ' || case
            when coalesce(jsonb_typeof(r.value -> 'timeZone'), 'null') = 'null' then null
            when jsonb_typeof(r.value -> 'timeZone') <> 'string'
                or r.value ->> 'timeZone' not in (select z.name from pg_timezone_names z)
                then 'must be the name of a time zone, like Europe/Berlin' end,
        'doneAt: ' || stats_private.wodup_moment_problem(r.value -> 'doneAt', r.value ->> 'timeZone'),
        'title: ' || stats_private.text_problem(r.value -> 'title', 500),
        'notes: ' || stats_private.text_problem(r.value -> 'notes', 20000)
    ))) rule (text)
    where rule.text is not null
    order by d.place, r.place
    limit 1
$$;

-- An id that two results have. No window function: its sort would copy the whole day beside each of its results.
create or replace function stats_private.wodup_repeated_result_problem(p_days jsonb)
returns text
language sql stable
as $$
    select (array_agg(
        format('$.days[%s].results[%s].id: stands twice in the batch', d.place - 1, r.place - 1)
        order by d.place, r.place))[2]
    from jsonb_array_elements(p_days) with ordinality d (value, place)
    cross join lateral jsonb_array_elements(d.value -> 'results') with ordinality r (value, place)
    group by r.value ->> 'id'
    having count(*) > 1
    order by min(d.place), min(r.place)
    limit 1
$$;

-- A moment with its offset, or without one where the time zone is known.
create or replace function stats_private.wodup_moment_problem(p_value jsonb, p_time_zone text)
returns text
language sql stable
as $$
    select case
        when p_time_zone is not null and p_value #>> '{}' ~ '^[0-9-]{10}[T ][0-9:.]+$'
            then stats_private.moment_problem(to_jsonb((p_value #>> '{}') || 'Z'))
        else stats_private.moment_problem(p_value)
    end
$$;

-- Every field of every set. Limits are those of a session's sets, in the kilograms that are stored.
create or replace function stats_private.wodup_set_problem(p_days jsonb)
returns text
language sql stable
as $$
    select format('$.days[%s].results[%s].sets[%s]', d.place - 1, r.place - 1, s.place - 1) || rule.text
    from jsonb_array_elements(p_days) with ordinality d (value, place)
    cross join lateral jsonb_array_elements(d.value -> 'results') with ordinality r (value, place)
    cross join lateral jsonb_array_elements(r.value -> 'sets') with ordinality s (value, place)
    cross join lateral (values (case
        when jsonb_typeof(s.value) <> 'object' then ': must be an object'
        else coalesce(
            '.movementId: ' || stats_private.external_id_problem(s.value -> 'movementId'),
            '.reps: ' || stats_private.whole_number_problem(s.value -> 'reps', 0, 1000000),
            '.load: ' || stats_private.number_problem(s.value -> 'load', 0, 22046),
            '.loadUnit: ' || case
                when s.value ->> 'loadUnit' is null and (s.value ->> 'load')::numeric <> 0
                    then 'must be kg or lb: a load has a unit'
                when lower(s.value ->> 'loadUnit') not in ('kg', 'lb', 'lbs') then 'must be kg or lb' end,
            '.load: ' || case when lower(s.value ->> 'loadUnit') = 'kg'
                then stats_private.number_problem(s.value -> 'load', 0, 9999.99) end,
            '.distanceMeters: ' || stats_private.number_problem(s.value -> 'distanceMeters', 0, 10000000),
            '.durationSeconds: ' || stats_private.whole_number_problem(s.value -> 'durationSeconds', 0, 604800))
    end)) rule (text)
    where rule.text is not null
    order by d.place, r.place, s.place
    limit 1
$$;
