-- stats_private.sets_by_session(user, from_date, exercise_ids, formula, max_reps)
--   -> one row an exercise, day and session: the counts, sums and bests of its completed sets
-- Promises: the only place that reads canonical sets and says what counts (docs/numbers.md). Days from p_from_date
--   on ('-infinity': all), of the exercises in p_exercise_ids; `exercise` is the place of its id in that array, from 1,
--   because numbers are cheaper to group and sort than ids. `turn` is the session's place on its day.
--   Weights, volumes and distances in hundredths of a kilogram and of a metre, whole numbers for the same reason;
--   times in seconds.
--   `top_load` is the heaviest weight and the most reps at it (numbers/packed_load.sql); `lifted_n` the heaviest
--   weight lifted at least n times.
--   Stored rows are looked up by an index from inside a fence (lateral, offset 0): neither a plan made when the tables
--   were small nor a planner that takes the account for a small one reads more than the scope.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.sets_by_session(
    p_user_id uuid, p_from_date date, p_exercise_ids text [], p_formula text, p_max_reps integer
)
returns table (
    exercise integer, day date, turn integer,
    sets integer, working_sets integer, reps bigint, volume bigint, top_load bigint, best_e1rm bigint,
    best_set_volume bigint, max_reps integer, duration_seconds bigint, distance bigint,
    longest_seconds integer, farthest bigint, least_assistance bigint,
    lifted_1 bigint, lifted_2 bigint, lifted_3 bigint, lifted_4 bigint, lifted_5 bigint, lifted_6 bigint,
    lifted_7 bigint, lifted_8 bigint, lifted_9 bigint, lifted_10 bigint, lifted_11 bigint, lifted_12 bigint
)
language sql stable
as $$
    with exercises as (
        select
            i.place::integer as exercise, i.exercise_id,
            x.tracking in ('weight_reps', 'bodyweight_reps') as is_lifted,
            x.tracking in ('weight_duration', 'weight_distance') as is_held,
            x.tracking = 'assisted_reps' as is_assisted
        from unnest(p_exercise_ids) with ordinality i (exercise_id, place)
        cross join lateral (
            select e.tracking from public.exercises e where e.id = i.exercise_id offset 0
        ) x
    ),
    sessions as (
        select w.id, w.day, w.turn from stats_private.ordered_sessions(p_user_id, p_from_date) w
    ),
    -- A whole history by its exercises, else by its sessions: only one of the two runs.
    parts_of_exercises as (
        select p.id, p.session_id, x.exercise, x.is_lifted, x.is_held, x.is_assisted
        from exercises x
        cross join lateral (
            select i.id, i.session_id
            from public.session_exercise_part i
            where i.user_id = p_user_id and i.exercise_id = x.exercise_id
            offset 0
        ) p
        where p_from_date = '-infinity'
        offset 0
    ),
    parts_of_sessions as (
        select p.id, p.exercise_id, w.day, w.turn
        from sessions w
        cross join lateral (
            select i.id, i.exercise_id from public.session_exercise_part i where i.session_id = w.id offset 0
        ) p
        where p_from_date > '-infinity'
        offset 0
    ),
    -- Put in the order of the groups, which what follows says it keeps: so the parts are sorted, not their sets.
    parts as (
        select u.*
        from (
            select p.id, p.exercise, w.day, w.turn, p.is_lifted, p.is_held, p.is_assisted
            from parts_of_exercises p
            join sessions w on w.id = p.session_id
            union all
            select p.id, x.exercise, p.day, p.turn, x.is_lifted, x.is_held, x.is_assisted
            from parts_of_sessions p
            join exercises x on x.exercise_id = p.exercise_id
        ) u
        order by u.exercise, u.day, u.turn
        offset 0
    ),
    completed as (
        select
            p.exercise, p.day, p.turn, p.is_lifted, p.is_held, p.is_assisted,
            s.set_type, s.weight_kg, s.reps, s.distance_m, s.duration_seconds
        from parts p
        cross join lateral (
            select * from public.session_sets c where c.part_id = p.id and c.is_completed offset 0
        ) s
    ),
    -- In whole numbers. A fence, here and below: computed once a set, not again for each of its uses.
    measured as (
        select
            c.exercise, c.day, c.turn, c.is_lifted, c.is_held, c.is_assisted, c.reps, c.duration_seconds,
            c.set_type <> 'warmup' and (c.reps > 0 or c.duration_seconds > 0 or c.distance_m > 0) as is_working,
            (c.weight_kg * 100)::bigint as weight,
            (c.distance_m * 100)::bigint as distance
        from completed c
        order by c.exercise, c.day, c.turn
        offset 0
    ),
    -- What a set counts for: reps (null: no lift); load (null: no weight that counts as lifted or held); lifted (the
    -- load of a lift whose volume and e1RM count); assistance.
    counted as (
        select
            c.exercise, c.day, c.turn, c.is_working,
            case when c.is_working then c.duration_seconds end as duration_seconds,
            case when c.is_working then c.distance end as distance,
            case when c.is_working and c.reps > 0 then c.reps end as reps,
            case when c.is_working and c.weight > 0 and (c.is_held or c.is_lifted and c.reps > 0) then c.weight end
                as load,
            case when c.is_working and c.weight > 0 and c.is_lifted and c.reps > 0 then c.weight end as lifted,
            case when c.is_working and c.is_lifted
                then stats_private.e1rm(c.weight, c.reps, p_formula, p_max_reps) end as e1rm,
            case when c.is_working and c.is_assisted and c.reps > 0 then c.weight end as assistance
        from measured c
        order by c.exercise, c.day, c.turn
        offset 0
    )
    select
        c.exercise, c.day, c.turn,
        count(*)::integer,
        count(*) filter (where c.is_working)::integer,
        coalesce(sum(c.reps), 0),
        coalesce(sum(c.lifted * c.reps), 0)::bigint,
        max(stats_private.pack_load(c.load, c.reps)),
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
    group by c.exercise, c.day, c.turn
$$;
