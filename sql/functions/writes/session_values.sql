-- stats_private.session_values(payload) -> the session that a validated payload asks for, every value in one spelling
-- Promises: two payloads that store the same have the same values, however a client spells them: 5, 5.0 and 5e0, upper
--   and lower case of a uuid, a null and a missing field, a default given or left out, one moment in any zone, a weight
--   with more digits than are stored. Texts, ids of exercises among them, are kept as they are. What is hashed and
--   written is this, never the payload.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.session_values(p_payload jsonb)
returns jsonb
-- Not in SQL: up to PostgreSQL 17 the server plans the body of such a function at each call.
language plpgsql stable
as $$
begin
    return (
        select jsonb_strip_nulls(jsonb_build_object(
            'session_id', lower(p_payload ->> 'session_id'),
            'expected_updated_at', stats_private.moment_value(p_payload ->> 'expected_updated_at'),
            'session_date', p_payload ->> 'session_date',
            'title', p_payload ->> 'title',
            'started_at', stats_private.moment_value(p_payload ->> 'started_at'),
            'duration_seconds', stats_private.number_value(p_payload -> 'duration_seconds', 0),
            'notes', p_payload ->> 'notes',
            'source', p_payload ->> 'source',
            'source_ref', p_payload ->> 'source_ref',
            'exercises', (
                select jsonb_agg(
                    jsonb_build_object(
                        'exercise_id', e.value ->> 'exercise_id',
                        'notes', e.value ->> 'notes',
                        'superset', stats_private.number_value(e.value -> 'superset', 0),
                        'sets', sets.list)
                    order by e.place)
                from jsonb_array_elements(p_payload -> 'exercises') with ordinality e (value, place)
                cross join lateral (
                    select coalesce(
                        jsonb_agg(
                            jsonb_build_object(
                                'set_type', coalesce(s.value ->> 'set_type', 'normal'),
                                'weight_kg', stats_private.number_value(s.value -> 'weight_kg', 2),
                                'reps', stats_private.number_value(s.value -> 'reps', 0),
                                'distance_m', stats_private.number_value(s.value -> 'distance_m', 2),
                                'duration_seconds', stats_private.number_value(s.value -> 'duration_seconds', 0),
                                'rpe', stats_private.number_value(s.value -> 'rpe', 1),
                                'is_completed', coalesce((s.value ->> 'is_completed')::boolean, true))
                            order by s.place),
                        '[]') as list
                    from jsonb_array_elements(e.value -> 'sets') with ordinality s (value, place)
                ) sets))));
end;
$$;

-- A number as it is stored, with p_digits after the point, and without the zeros that say nothing.
create or replace function stats_private.number_value(p_value jsonb, p_digits integer)
returns numeric
language sql immutable
as $$ select trim_scale(round(stats_private.number_of(p_value), p_digits)) $$;

-- A moment in UTC. By to_jsonb, whose spelling no setting of the caller's changes.
create or replace function stats_private.moment_value(p_moment text)
returns text
language sql stable
as $$ select (to_jsonb(p_moment::timestamptz at time zone 'UTC') #>> '{}') || 'Z' $$;
