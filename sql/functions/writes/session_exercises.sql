-- The exercises that a session names: which they are, and whether this account may use them.
-- Promises: called under the account's write lock, with a validated payload.
-- Locks: none
-- Writes: nothing

-- Returns the exercises of a stored session, of a payload, or of both, each once, sorted; null stands for neither.
create or replace function stats_private.exercise_ids_of(p_session_id uuid, p_payload jsonb)
returns text []
language plpgsql stable
as $$
begin
    return array(
        select p.exercise_id from public.session_exercise_part p where p.session_id = p_session_id
        union
        select (e.value ->> 'exercise_id') collate "C" from jsonb_array_elements(p_payload -> 'exercises') e (value)
        order by 1);
end;
$$;

-- Returns the JSON path of the first exercise that breaks a rule, and the rule; null where there is none. Each has to be
-- global or the account's own, and not archived (unless the session already had it), and its sets carry a weight only
-- where it has one. p_session_id: the session as it was, if any.
-- A global exercise may change between this and the commit, as if the save had come first: what is stored of it is
-- computed as it is tracked by then. No lock keeps it: whoever is signed in could hold up the catalog with one.
create or replace function stats_private.exercises_problem(p_exercises jsonb, p_user_id uuid, p_session_id uuid)
returns text
language plpgsql
as $$
declare
    v_problem text;
begin
    select '$.exercises[' || (e.place - 1)::text || ']' || rule.text into v_problem
    from jsonb_array_elements(p_exercises) with ordinality e (value, place)
    left join public.exercises x
        on x.id = e.value ->> 'exercise_id' and (x.owner_user_id is null or x.owner_user_id = p_user_id)
    cross join lateral (values (case
        when x.id is null then '.exercise_id: is not an exercise of this account'
        when x.archived_at is not null and not exists (
            select from public.session_exercise_part p where p.session_id = p_session_id and p.exercise_id = x.id
        ) then '.exercise_id: is archived'
        when stats_private.has_no_weight(x.tracking) then (
            select '.sets[' || (s.place - 1)::text || '].weight_kg: a ' || x.tracking || ' exercise has no weight'
            from jsonb_array_elements(e.value -> 'sets') with ordinality s (value, place)
            where (s.value ->> 'weight_kg')::numeric > 0
            order by s.place
            limit 1)
    end)) rule (text)
    where rule.text is not null
    order by e.place
    limit 1;
    return v_problem;
end;
$$;

-- True for ways of tracking without a weight.
create or replace function stats_private.has_no_weight(p_tracking text)
returns boolean
language sql immutable
as $$ select p_tracking in ('reps_only', 'duration', 'distance_duration') $$;
