-- What two workouts are compared by: a fingerprint of each set, one after the other.
-- Promises: equal for a set of a file and its stored one, whatever app it came from: the name of its exercise, weight,
--   reps, distance and duration, where 0 is the same as nothing; not its type, its rating or what notes say.
--   importers/fingerprints.py computes the same, and a test compares them.
-- Locks: none
-- Writes: nothing

-- The fingerprint of one set, twelve characters.
create or replace function stats_private.set_fingerprint(
    p_exercise text, p_weight_kg numeric, p_reps integer, p_distance_m numeric, p_duration_seconds integer
)
returns text
language sql immutable
as $$
    select left(
        md5(p_exercise || '|' || coalesce(nullif(p_weight_kg, 0)::text, '')
            || '|' || coalesce(nullif(p_reps, 0)::text, '') || '|' || coalesce(nullif(p_distance_m, 0)::text, '')
            || '|' || coalesce(nullif(p_duration_seconds, 0)::text, '')),
        12)
$$;

-- The fingerprints of each session of the account, in the order of its sets.
create or replace function stats_private.session_fingerprints(p_user_id uuid)
returns table (session_id uuid, sets text)
language sql stable
as $$
    select p.session_id, string_agg(
        stats_private.set_fingerprint(x.name, s.weight_kg, s.reps, s.distance_m, s.duration_seconds), ''
        order by p.position, s.set_no)
    from public.session_exercise_part p
    join public.exercises x on x.id = p.exercise_id
    join public.session_sets s on s.part_id = p.id
    where p.user_id = p_user_id
    group by p.session_id
$$;
