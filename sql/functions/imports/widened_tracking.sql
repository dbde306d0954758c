-- stats_private.widened_tracking(exercise, shown, assisted, user_id) -> how the exercise is tracked after an import
-- Promises: its present tracking, unless an import chose that, nobody has set it since, and the file shows more: what
--   all files would have shown if they had been one. It never narrows: what is stored keeps its numbers. bodyweight_reps
--   and weight_reps take the same sets, so the first of them stays. Assistance: where the name says so (p_assisted), or
--   no stored set has a load that would become assistance.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.widened_tracking(
    p_exercise public.exercises, p_shown text, p_assisted boolean, p_user_id uuid
)
returns text
language sql stable
as $$
    select case
        when not p_exercise.tracking_from_import or p_exercise.tracking = p_shown then p_exercise.tracking
        when p_shown = 'assisted_reps' then case
            when p_exercise.tracking not in ('weight_reps', 'bodyweight_reps', 'reps_only') then p_exercise.tracking
            when p_assisted or not stats_private.has_load(p_exercise.id, p_user_id) then p_shown
            else p_exercise.tracking
        end
        when p_exercise.tracking = 'reps_only' then case
            when p_shown in ('bodyweight_reps', 'weight_reps') then 'bodyweight_reps'
            else p_exercise.tracking
        end
        when p_exercise.tracking = 'duration' and p_shown <> 'reps_only' then p_shown
        when p_exercise.tracking = 'distance_duration' and p_shown not in ('duration', 'reps_only') then p_shown
        when p_exercise.tracking = 'weight_duration' and p_shown = 'weight_distance' then p_shown
        else p_exercise.tracking
    end
$$;

-- True where the account has a set of the exercise with a weight.
create or replace function stats_private.has_load(p_exercise_id text, p_user_id uuid)
returns boolean
language sql stable
as $$
    select exists (
        select from public.session_exercise_part p
        join public.session_sets s on s.part_id = p.id
        where p.user_id = p_user_id and p.exercise_id = p_exercise_id and s.weight_kg > 0)
$$;
