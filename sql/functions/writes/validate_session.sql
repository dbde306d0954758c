-- stats_private.session_problem(payload) -> the JSON path of the first field that breaks a rule, and the rule, or null
-- Promises: where it is null the payload has no field that nobody reads, and every cast of its fields is safe. Asks no
--   table: which exercises these are is session_exercises.sql's question. Prints no value before its rule is kept.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.session_problem(p_payload jsonb)
returns text
language plpgsql stable
as $$
begin
    return coalesce(
        stats_private.session_fields_problem(p_payload),
        stats_private.session_exercises_problem(p_payload -> 'exercises'));
end;
$$;

-- The payload's own fields; the rules of expected_user_id and mutation_id are in payload.sql.
create or replace function stats_private.session_fields_problem(p_payload jsonb)
returns text
language plpgsql stable
as $$
begin
    return '$.' || coalesce(
        stats_private.fields_problem(p_payload, array[
            'expected_user_id', 'mutation_id', 'session_id', 'expected_updated_at', 'session_date', 'title',
            'started_at', 'duration_seconds', 'notes', 'source', 'source_ref', 'exercises']),
        'session_id: ' || stats_private.uuid_problem(p_payload -> 'session_id'),
        'expected_updated_at: ' || stats_private.moment_problem(p_payload -> 'expected_updated_at'),
        -- A replacement that lost its session_id would otherwise become a second session.
        case when stats_private.is_given(p_payload -> 'expected_updated_at')
            and not stats_private.is_given(p_payload -> 'session_id')
            then 'expected_updated_at: is only for a session_id' end,
        case when not stats_private.is_given(p_payload -> 'session_date') then 'session_date: is required' end,
        'session_date: ' || stats_private.day_problem(p_payload -> 'session_date'),
        'title: ' || stats_private.text_problem(p_payload -> 'title', 500),
        'started_at: ' || stats_private.moment_problem(p_payload -> 'started_at'),
        'duration_seconds: ' || stats_private.whole_number_problem(p_payload -> 'duration_seconds', 0, 604800),
        'notes: ' || stats_private.text_problem(p_payload -> 'notes', 20000),
        'source: ' || stats_private.text_problem(p_payload -> 'source', 100),
        'source_ref: ' || stats_private.text_problem(p_payload -> 'source_ref', 500));
end;
$$;

-- That the exercises are a list of objects, each with a list of sets, within the limits, and every field of every set:
-- the first problem in the order of the payload. Limits: weight in kg as stored, reps wide enough to keep a typo until
-- it is corrected.
create or replace function stats_private.session_exercises_problem(p_exercises jsonb)
returns text
language plpgsql stable
as $$
declare
    v_problem text;
begin
    if jsonb_typeof(p_exercises) is distinct from 'array' then
        return '$.exercises: must be a list of exercises';
    elsif jsonb_array_length(p_exercises) = 0 then
        return '$.exercises: must name at least one exercise';
    elsif jsonb_array_length(p_exercises) > 200 then
        return '$.exercises: must have at most 200 exercises';
    elsif jsonb_array_length(jsonb_path_query_array(p_exercises, '$[*].sets[*]')) > 2000 then
        return '$.exercises: must have at most 2000 sets together';
    end if;
    -- One statement for all of it: most of what a save costs beyond its rows is the number of its statements.
    select '$.exercises[' || (e.place - 1)::text || ']' || coalesce(
        exercise.problem, '.sets[' || (s.place - 1)::text || ']' || one_set.problem)
    into v_problem
    from jsonb_array_elements(p_exercises) with ordinality e (value, place)
    cross join lateral (values (case
        when jsonb_typeof(e.value) <> 'object' then ': must be an object'
        else coalesce(
            '.' || stats_private.fields_problem(e.value, array['exercise_id', 'notes', 'superset', 'sets']),
            case when jsonb_typeof(e.value -> 'exercise_id') is distinct from 'string'
                then '.exercise_id: must be a text' end,
            '.exercise_id: ' || stats_private.text_problem(e.value -> 'exercise_id', 200),
            case when jsonb_typeof(e.value -> 'sets') is distinct from 'array' then '.sets: must be a list of sets' end,
            '.notes: ' || stats_private.text_problem(e.value -> 'notes', 20000),
            '.superset: ' || stats_private.whole_number_problem(e.value -> 'superset', 1, 1000))
    end)) exercise (problem)
    left join lateral jsonb_array_elements(
        case when exercise.problem is null then e.value -> 'sets' else '[]' end
    ) with ordinality s (value, place) on true
    cross join lateral (values (case
        when jsonb_typeof(s.value) <> 'object' then ': must be an object'
        else coalesce(
            '.' || stats_private.fields_problem(s.value, array[
                'set_type', 'weight_kg', 'reps', 'distance_m', 'duration_seconds', 'rpe', 'is_completed']),
            case when stats_private.is_given(s.value -> 'set_type')
                and coalesce(stats_private.text_of(s.value -> 'set_type'), '')
                not in ('normal', 'warmup', 'drop', 'failure')
                then '.set_type: must be normal, warmup, drop or failure' end,
            '.weight_kg: ' || stats_private.number_problem(s.value -> 'weight_kg', 0, 9999.99),
            '.reps: ' || stats_private.whole_number_problem(s.value -> 'reps', 0, 1000000),
            '.distance_m: ' || stats_private.number_problem(s.value -> 'distance_m', 0, 10000000),
            '.duration_seconds: ' || stats_private.whole_number_problem(s.value -> 'duration_seconds', 0, 604800),
            '.rpe: ' || stats_private.number_problem(s.value -> 'rpe', 0, 10),
            case when jsonb_typeof(s.value -> 'is_completed') not in ('boolean', 'null')
                then '.is_completed: must be true or false' end)
    end)) one_set (problem)
    where exercise.problem is not null or one_set.problem is not null
    order by e.place, s.place
    limit 1;
    return v_problem;
end;
$$;
