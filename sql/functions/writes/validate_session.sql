-- stats_private.validate_session(payload): raises 22023 with the JSON path of the first field that breaks a rule
-- Promises: after it every cast of the payload's fields is safe. Reads exercises to know them and their tracking.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.validate_session(p_payload jsonb, p_user_id uuid, p_session_id uuid)
returns void
language plpgsql stable
as $$
declare
    v_problem text;
begin
    v_problem := coalesce(
        stats_private.session_frame_problem(p_payload),
        stats_private.session_sets_problem(p_payload -> 'exercises'),
        stats_private.session_exercises_problem(p_payload -> 'exercises', p_user_id, p_session_id));
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;
end;
$$;

-- The payload's own fields, and that exercises and their sets are lists of objects within the limits.
create or replace function stats_private.session_frame_problem(p_payload jsonb)
returns text
language plpgsql stable
as $$
declare
    v_exercises jsonb := p_payload -> 'exercises';
    v_problem text;
begin
    select format('$.%s: %s', f.field, f.rule) into v_problem
    from (values
        (1, 'session_id', stats_private.uuid_problem(p_payload -> 'session_id')),
        (2, 'expected_updated_at', stats_private.moment_problem(p_payload -> 'expected_updated_at')),
        (3, 'session_date', case when p_payload ->> 'session_date' is null then 'is required'
            else stats_private.day_problem(p_payload -> 'session_date') end),
        (4, 'title', stats_private.text_problem(p_payload -> 'title', 500)),
        (5, 'started_at', stats_private.moment_problem(p_payload -> 'started_at')),
        (6, 'duration_seconds', stats_private.whole_number_problem(p_payload -> 'duration_seconds', 0, 604800)),
        (7, 'notes', stats_private.text_problem(p_payload -> 'notes', 20000)),
        (8, 'source', stats_private.text_problem(p_payload -> 'source', 100)),
        (9, 'source_ref', stats_private.text_problem(p_payload -> 'source_ref', 500)),
        (10, 'exercises', case
            when jsonb_typeof(v_exercises) is distinct from 'array' then 'must be a list of exercises'
            when jsonb_array_length(v_exercises) = 0 then 'must name at least one exercise'
            when jsonb_array_length(v_exercises) > 200 then 'must have at most 200 exercises' end)
    ) f (place, field, rule)
    where f.rule is not null
    order by f.place
    limit 1;
    if v_problem is not null then
        return v_problem;
    end if;

    select format('$.exercises[%s]%s', e.place - 1, rule.text) into v_problem
    from jsonb_array_elements(v_exercises) with ordinality e (value, place)
    cross join lateral (values (coalesce(
        case
            when jsonb_typeof(e.value) <> 'object' then ': must be an object'
            when jsonb_typeof(e.value -> 'exercise_id') is distinct from 'string' then '.exercise_id: must be a text'
            when jsonb_typeof(e.value -> 'sets') is distinct from 'array' then '.sets: must be a list of sets'
        end,
        '.notes: ' || stats_private.text_problem(e.value -> 'notes', 20000)))) rule (text)
    where rule.text is not null
    order by e.place
    limit 1;
    if v_problem is not null then
        return v_problem;
    end if;

    if (select sum(jsonb_array_length(e.value -> 'sets')) from jsonb_array_elements(v_exercises) e (value)) > 2000 then
        return '$.exercises: must have at most 2000 sets together';
    end if;
    return null;
end;
$$;

-- Every field of every set. Limits: weight in kg as stored, reps wide enough to keep a typo until it is corrected.
create or replace function stats_private.session_sets_problem(p_exercises jsonb)
returns text
language sql immutable
as $$
    select format('$.exercises[%s].sets[%s]%s', e.place - 1, s.place - 1, f.problem)
    from jsonb_array_elements(p_exercises) with ordinality e (value, place)
    cross join lateral jsonb_array_elements(e.value -> 'sets') with ordinality s (value, place)
    cross join lateral (values (case
        when jsonb_typeof(s.value) <> 'object' then ': must be an object'
        else coalesce(
            case when s.value ->> 'set_type' not in ('normal', 'warmup', 'drop', 'failure')
                then '.set_type: must be normal, warmup, drop or failure' end,
            '.weight_kg: ' || stats_private.number_problem(s.value -> 'weight_kg', 0, 9999.99),
            '.reps: ' || stats_private.whole_number_problem(s.value -> 'reps', 0, 1000000),
            '.distance_m: ' || stats_private.number_problem(s.value -> 'distance_m', 0, 10000000),
            '.duration_seconds: ' || stats_private.whole_number_problem(s.value -> 'duration_seconds', 0, 604800),
            '.rpe: ' || stats_private.number_problem(s.value -> 'rpe', 0, 10),
            case when jsonb_typeof(s.value -> 'is_completed') not in ('boolean', 'null')
                then '.is_completed: must be true or false' end)
    end)) f (problem)
    where f.problem is not null
    order by e.place, s.place
    limit 1
$$;

-- Every exercise is global or the account's own, not archived (unless the session already had it), and its sets
-- carry a weight only where the exercise has one.
create or replace function stats_private.session_exercises_problem(
    p_exercises jsonb, p_user_id uuid, p_session_id uuid
)
returns text
language sql stable
as $$
    select format('$.exercises[%s]%s', e.place - 1, rule.text)
    from jsonb_array_elements(p_exercises) with ordinality e (value, place)
    left join public.exercises x
        on x.id = e.value ->> 'exercise_id' and (x.owner_user_id is null or x.owner_user_id = p_user_id)
    cross join lateral (values (case
        when x.id is null then '.exercise_id: is not an exercise of this account'
        when x.archived_at is not null and not exists (
            select from public.session_exercise_part p where p.session_id = p_session_id and p.exercise_id = x.id
        ) then '.exercise_id: is archived'
        when x.tracking in ('reps_only', 'duration', 'distance_duration') then (
            select format('.sets[%s].weight_kg: a %s exercise has no weight', s.place - 1, x.tracking)
            from jsonb_array_elements(e.value -> 'sets') with ordinality s (value, place)
            where (s.value ->> 'weight_kg')::numeric > 0
            order by s.place
            limit 1)
    end)) rule (text)
    where rule.text is not null
    order by e.place
    limit 1
$$;
