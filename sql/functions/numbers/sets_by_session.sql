-- stats_private.sets_by_session(user, from_date, exercise_ids, formula, max_reps)
--   -> one row an exercise, day and session: the counts, sums and bests of its completed sets
-- Promises: the only place that reads canonical sets and says what counts (docs/numbers.md). Days from p_from_date
--   on (null: all), exercises in p_exercise_ids (null: all). Weights, volumes and distances in hundredths of a
--   kilogram and of a metre, whole numbers that are cheap to compare; times in seconds. `turn` is the session's place
--   on its day.
--   `top_load` packs the heaviest weight and the most reps at it into one number that compares as the pair does:
--   the weight from bit 21 up, reps (at most 1,000,000) below. `lifted_n` is the heaviest weight lifted at least n
--   times.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.sets_by_session(
    p_user_id uuid, p_from_date date, p_exercise_ids text [], p_formula text, p_max_reps integer
)
returns table (
    exercise_id text, day date, turn integer,
    sets integer, working_sets integer, reps bigint, volume bigint, top_load bigint, best_e1rm bigint,
    best_set_volume bigint, max_reps integer, duration_seconds bigint, distance bigint,
    longest_seconds integer, farthest bigint, least_assistance bigint,
    lifted_1 bigint, lifted_2 bigint, lifted_3 bigint, lifted_4 bigint, lifted_5 bigint, lifted_6 bigint,
    lifted_7 bigint, lifted_8 bigint, lifted_9 bigint, lifted_10 bigint, lifted_11 bigint, lifted_12 bigint
)
language sql stable
as $$
    -- Every completed set with what it counts for: reps (null: no lift); load (null: no weight that counts as lifted or
    -- held); lifted (the load of a lift whose volume and e1RM count); assistance.
    with counted as (
        select
            p.exercise_id, w.day, w.turn, k.is_working,
            case when k.is_working then s.duration_seconds end as duration_seconds,
            case when k.is_working then (s.distance_m * 100)::bigint end as distance,
            case when k.is_working and s.reps > 0 then s.reps end as reps,
            case when k.is_working and k.weight > 0 and (k.is_held or k.is_lifted and s.reps > 0) then k.weight end
                as load,
            case when k.is_working and k.weight > 0 and k.is_lifted and s.reps > 0 then k.weight end as lifted,
            case when k.is_working and k.is_lifted
                then stats_private.e1rm(k.weight, s.reps, p_formula, p_max_reps) end as e1rm,
            case when k.is_working and k.is_assisted and s.reps > 0 then k.weight end as assistance
        from stats_private.ordered_sessions(p_user_id, p_from_date) w
        join public.session_exercise_part p on p.session_id = w.id
        join public.exercises x on x.id = p.exercise_id
        join public.session_sets s on s.part_id = p.id
        cross join lateral (
            select
                s.set_type <> 'warmup' and (s.reps > 0 or s.duration_seconds > 0 or s.distance_m > 0) as is_working,
                (s.weight_kg * 100)::bigint as weight,
                x.tracking in ('weight_reps', 'bodyweight_reps') as is_lifted,
                x.tracking in ('weight_duration', 'weight_distance') as is_held,
                x.tracking = 'assisted_reps' as is_assisted
            -- A fence, here and below: computed once a set, not again for each of its uses.
            offset 0
        ) k
        where s.is_completed and (p_exercise_ids is null or p.exercise_id = any (p_exercise_ids))
        offset 0
    )
    select
        c.exercise_id, c.day, c.turn,
        count(*)::integer,
        count(*) filter (where c.is_working)::integer,
        coalesce(sum(c.reps), 0),
        coalesce(sum(c.lifted * c.reps), 0)::bigint,
        max(c.load << 21 | coalesce(c.reps, 0)),
        max(c.e1rm),
        max(c.lifted * c.reps),
        max(c.reps),
        coalesce(sum(c.duration_seconds), 0),
        coalesce(sum(c.distance), 0)::bigint,
        nullif(max(c.duration_seconds), 0),
        nullif(max(c.distance), 0),
        min(c.assistance),
        max(c.lifted),
        max(c.lifted) filter (where c.reps >= 2),
        max(c.lifted) filter (where c.reps >= 3),
        max(c.lifted) filter (where c.reps >= 4),
        max(c.lifted) filter (where c.reps >= 5),
        max(c.lifted) filter (where c.reps >= 6),
        max(c.lifted) filter (where c.reps >= 7),
        max(c.lifted) filter (where c.reps >= 8),
        max(c.lifted) filter (where c.reps >= 9),
        max(c.lifted) filter (where c.reps >= 10),
        max(c.lifted) filter (where c.reps >= 11),
        max(c.lifted) filter (where c.reps >= 12)
    from counted c
    group by c.exercise_id, c.day, c.turn
$$;
