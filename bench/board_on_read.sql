-- The PR board of one day straight from the canonical sets: what get_pr_overview would do if nothing were published.
-- The answer's `exercises` are equal to those of get_pr_overview.
with sessions as materialized (
    select w.id, w.day, w.turn from stats_private.ordered_sessions(:user_id, '-infinity') w where w.day <= :as_of
),
exercises as materialized (
    select array_agg(p.exercise_id) as ids
    from (select distinct exercise_id from public.session_exercise_part where user_id = :user_id) p
),
by_session as materialized (
    select b.*, x.ids[b.exercise] as exercise_id
    from exercises x
    cross join public.stats_projection_policy y
    cross join lateral stats_private.sets_by_session(
        :user_id, '-infinity', x.ids, y.e1rm_formula, y.e1rm_max_reps) b
    where b.day <= :as_of and b.working_sets > 0
),
days as materialized (
    select
        b.exercise_id, b.day, count(*) as sessions, max(b.top_load >> 21) as weight, max(b.best_e1rm) as e1rm,
        max(b.best_set_volume) as set_volume, nullif(sum(b.volume), 0) as volume, max(b.max_reps) as reps,
        max(b.longest_seconds) as duration, max(b.farthest) as distance, min(b.least_assistance) as assistance
    from by_session b
    group by b.exercise_id, b.day
),
-- A record beats the best of all earlier days; the first value of a kind is a baseline and doesn't count.
recent as (
    select
        r.exercise_id,
        count(*) filter (where r.weight > r.earlier_weight)
        + count(*) filter (where r.e1rm > r.earlier_e1rm)
        + count(*) filter (where r.set_volume > r.earlier_set_volume)
        + count(*) filter (where r.volume > r.earlier_volume)
        + count(*) filter (where r.reps > r.earlier_reps)
        + count(*) filter (where r.duration > r.earlier_duration)
        + count(*) filter (where r.distance > r.earlier_distance)
        + count(*) filter (where r.assistance < r.earlier_assistance) as records
    from (
        select
            d.*,
            max(d.weight) over earlier as earlier_weight, max(d.e1rm) over earlier as earlier_e1rm,
            max(d.set_volume) over earlier as earlier_set_volume, max(d.volume) over earlier as earlier_volume,
            max(d.reps) over earlier as earlier_reps, max(d.duration) over earlier as earlier_duration,
            max(d.distance) over earlier as earlier_distance, min(d.assistance) over earlier as earlier_assistance
        from days d
        window earlier as (
            partition by d.exercise_id order by d.day rows between unbounded preceding and 1 preceding)
    ) r
    where r.day > :as_of - 30
    group by r.exercise_id
),
best_weight as (
    select distinct on (b.exercise_id) b.exercise_id, (b.top_load >> 21) * 0.01 as value, b.day, w.id as session_id
    from by_session b
    join sessions w on w.day = b.day and w.turn = b.turn
    where b.top_load is not null
    order by b.exercise_id, b.top_load >> 21 desc, b.day, b.turn
),
best_e1rm as (
    select distinct on (b.exercise_id) b.exercise_id, b.best_e1rm * 0.01 as value, b.day, w.id as session_id
    from by_session b
    join sessions w on w.day = b.day and w.turn = b.turn
    where b.best_e1rm is not null
    order by b.exercise_id, b.best_e1rm desc, b.day, b.turn
),
manual as (
    select distinct on (m.exercise_id) m.exercise_id, m.one_rm_kg, m.achieved_on
    from public.user_manual_pr_records m
    where m.user_id = :user_id and m.achieved_on <= :as_of
    order by m.exercise_id, m.achieved_on desc, m.one_rm_kg desc
),
windows as (
    select
        d.exercise_id, max(d.day) as last_performed_on,
        max(d.weight) filter (where d.day > :as_of - 30) * 0.01 as weight_30d_kg,
        max(d.e1rm) filter (where d.day > :as_of - 30) * 0.01 as e1rm_30d_kg,
        coalesce(sum(d.sessions) filter (where d.day > :as_of - 30), 0) as sessions_30d,
        max(d.weight) filter (where d.day > y.day - 30 and d.day <= y.day) * 0.01 as weight_30d_last_year_kg,
        max(d.e1rm) filter (where d.day > y.day - 30 and d.day <= y.day) * 0.01 as e1rm_30d_last_year_kg
    from days d
    cross join (select (:as_of - interval '1 year')::date as day) y
    group by d.exercise_id
)
select jsonb_agg(e)
from (
    select
        exercise_id,
        bw.value as best_weight_kg, bw.day as best_weight_on, bw.session_id as best_weight_session_id,
        be.value as best_e1rm_kg, be.day as best_e1rm_on, be.session_id as best_e1rm_session_id,
        greatest(m.one_rm_kg, be.value) as one_rm_kg,
        case
            when m.one_rm_kg >= be.value or be.value is null and m.one_rm_kg is not null then 'manual'
            when be.value is not null then 'estimate'
        end as one_rm_source,
        case when m.one_rm_kg >= be.value or be.value is null then m.achieved_on else be.day end as one_rm_on,
        d.weight_30d_kg, d.e1rm_30d_kg, d.weight_30d_last_year_kg, d.e1rm_30d_last_year_kg, d.last_performed_on,
        coalesce(d.sessions_30d, 0) as sessions_30d,
        coalesce(r.records, 0) as records_30d
    from windows d
    full join manual m using (exercise_id)
    full join best_weight bw using (exercise_id)
    full join best_e1rm be using (exercise_id)
    full join recent r using (exercise_id)
    order by exercise_id
) e
