-- stats_private.sets_by_session(user, from_date, exercise_ids, formula, max_reps)
--   -> one row an exercise, day and session: the counts, sums and bests of its completed sets
-- Promises: the only place that reads canonical sets and says what counts (docs/numbers.md). Days from p_from_date
--   on (null: all), exercises in p_exercise_ids (null: all). Weights in kg, distances in metres, times in seconds.
--   `turn` orders a day's sessions (started_at, unknown last, then id): the earliest wins a tie.
--   `top_load` packs the heaviest weight and the most reps at it into one number that compares as the pair does:
--   hundredths of a kilogram from bit 21 up, reps (at most 1,000,000) below. `loads` has one such number for every
--   weight that was lifted.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.sets_by_session(
    p_user_id uuid, p_from_date date, p_exercise_ids text [], p_formula text, p_max_reps integer
)
returns table (
    exercise_id text, day date, turn integer, session_id uuid,
    sets integer, working_sets integer, reps bigint, volume_kg numeric, top_load bigint, best_e1rm_kg numeric,
    best_set_volume_kg numeric, max_reps integer, duration_seconds bigint, distance_m numeric,
    longest_seconds integer, farthest_m numeric, least_assistance_kg numeric, loads bigint []
)
language sql stable
as $$
    with sessions as (
        select
            w.id, w.session_date,
            row_number() over (partition by w.session_date order by w.started_at nulls last, w.id)::integer as turn
        from public.workout_sessions w
        where w.user_id = p_user_id and (p_from_date is null or w.session_date >= p_from_date)
    ),
    -- Every completed set with what it counts for: is_working; lift_reps (null: no lift); load (null: no weight that
    -- counts as lifted or held); lifted (the load of a lift whose volume and e1RM count); assistance.
    counted as (
        select
            p.exercise_id, w.session_date, w.turn, w.id as session_id,
            s.reps, s.duration_seconds, s.distance_m, k.is_working,
            case when k.is_working then nullif(s.reps, 0) end as lift_reps,
            case
                when not k.is_working or s.weight_kg <= 0 then null
                when x.tracking in ('weight_reps', 'bodyweight_reps') and s.reps > 0 then s.weight_kg
                when x.tracking in ('weight_duration', 'weight_distance') then s.weight_kg
            end as load,
            case
                when k.is_working and s.reps > 0 and s.weight_kg > 0 and x.tracking in ('weight_reps', 'bodyweight_reps')
                    then s.weight_kg
            end as lifted,
            case when k.is_working and s.reps > 0 and x.tracking = 'assisted_reps' then s.weight_kg end as assistance
        from sessions w
        join public.session_exercise_part p on p.session_id = w.id
        join public.exercises x on x.id = p.exercise_id
        join public.session_sets s on s.part_id = p.id
        cross join lateral (
            select s.set_type <> 'warmup'
                and (coalesce(s.reps, 0) > 0 or coalesce(s.duration_seconds, 0) > 0 or coalesce(s.distance_m, 0) > 0)
                as is_working
        ) k
        where s.is_completed and (p_exercise_ids is null or p.exercise_id = any (p_exercise_ids))
    ),
    -- Most sets of a session repeat a few weights: the e1RM of a weight is that of its most reps within the limit.
    by_weight as (
        select
            c.exercise_id, c.session_date, c.turn, c.session_id, c.lifted,
            count(*) as sets,
            count(*) filter (where c.is_working) as working_sets,
            sum(c.lift_reps) as reps,
            max(c.lift_reps) as max_reps,
            max(c.lift_reps) filter (where c.lift_reps <= p_max_reps) as max_e1rm_reps,
            max((c.load * 100)::bigint << 21 | coalesce(c.lift_reps, 0)) as top_load,
            sum(c.duration_seconds) filter (where c.is_working) as duration_seconds,
            max(c.duration_seconds) filter (where c.is_working) as longest_seconds,
            sum(c.distance_m) filter (where c.is_working) as distance_m,
            max(c.distance_m) filter (where c.is_working) as farthest_m,
            min(c.assistance) as least_assistance
        from counted c
        group by c.exercise_id, c.session_date, c.turn, c.session_id, c.lifted
    )
    select
        b.exercise_id, b.session_date, b.turn, b.session_id,
        sum(b.sets)::integer,
        sum(b.working_sets)::integer,
        coalesce(sum(b.reps), 0)::bigint,
        coalesce(sum(b.lifted * b.reps), 0),
        max(b.top_load),
        max(stats_private.e1rm(b.lifted, b.max_e1rm_reps, p_formula, p_max_reps)),
        max(b.lifted * b.max_reps),
        max(b.max_reps),
        coalesce(sum(b.duration_seconds), 0)::bigint,
        coalesce(sum(b.distance_m), 0),
        nullif(max(b.longest_seconds), 0),
        nullif(max(b.farthest_m), 0),
        min(b.least_assistance),
        array_agg(b.top_load) filter (where b.lifted is not null)
    from by_weight b
    group by b.exercise_id, b.session_date, b.turn, b.session_id
$$;
