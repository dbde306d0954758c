-- stats_private.project(run, user, policy, from_date, exercise_ids, window_ids, anchor, with_days)
-- Promises: the differences between the published rows of single exercises and the canonical ones, as i, u and d
--   rows of this run: daily rollups, records, rep maxes, PR summaries. Scope: the exercises in p_exercise_ids from
--   p_from_date on ('-infinity': all days), plus the three snapshot days around p_anchor for those exercises and for
--   the ones in p_window_ids. No id stands twice.
--   Canonical rows are read once, in one statement, so in one snapshot: with p_with_days the sessions by day too,
--   for project_account. What lies before the scope is carried in from the published rows. ONE statement on
--   purpose: a stage that reads back what an earlier stage wrote has no statistics for it, and the planner's guess
--   of one row cost two hundred times the whole.
--   Planned once a connection, for planning costs as much as a small scope. So the plan must be right whatever the
--   tables held then: no condition depends on whether an argument is null, stored rows are looked up by an index
--   from inside a fence (lateral, offset 0), and everything else is joined by hash.
--   Within the statement an exercise is its place among the ids, and a value a whole number (hundredths of a kilogram
--   and of a metre): both are cheaper to group, sort and compare.
--   Records compare with the best of all earlier days; within a day the session that first reached the day's best
--   is the last one that beat everything before it. Rep maxes come from the loads that were heavier than all earlier
--   ones of at least their reps (rep_max_steps), which are carried in as records are.
-- Locks: none
-- Writes: private outputs, stats_input_days
-- Next: pipeline/publish.sql (what looks across exercises: projection/project_account.sql)
create or replace function stats_private.project(
    p_run_id uuid, p_user_id uuid, p_policy public.stats_projection_policy, p_from_date date, p_exercise_ids text [],
    p_window_ids text [], p_anchor date, p_with_days boolean default true
)
returns void
language plpgsql
-- Enough to hash what one account has; the default sorts it instead.
set work_mem = '64MB'
set jit = off
set plan_cache_mode = force_generic_plan
set enable_nestloop = off
set enable_seqscan = off
as $$
declare
    v_formula text := p_policy.e1rm_formula;
    v_max_reps integer := p_policy.e1rm_max_reps;
    v_ids text [] := p_exercise_ids || p_window_ids;
begin
    with input_days as (
        insert into stats_private.stats_input_days (run_id, day, sessions, titles, duration_seconds)
        select p_run_id, d.day, d.sessions, d.titles, d.duration_seconds
        from stats_private.sessions_by_day(p_user_id, p_from_date) d
        where p_with_days
        on conflict do nothing
    ),
    exercises as materialized (
        select
            i.exercise_id collate "C" as exercise_id, i.place::integer as exercise,
            i.place <= cardinality(p_exercise_ids) as is_rebuilt
        from unnest(v_ids) with ordinality i (exercise_id, place)
    ),
    sessions as materialized (
        select w.day, w.turn, w.id from stats_private.ordered_sessions(p_user_id, p_from_date) w
    ),
    by_session as materialized (
        select b.*
        from stats_private.sets_by_session(p_user_id, p_from_date, p_exercise_ids, v_formula, v_max_reps) b
    ),
    by_day as materialized (
        select
            b.exercise, b.day,
            count(*) filter (where b.working_sets > 0)::integer as sessions,
            sum(b.sets)::integer as sets,
            sum(b.working_sets)::integer as working_sets,
            sum(b.reps)::bigint as reps,
            sum(b.volume)::bigint as volume,
            max(b.top_load) as top_load,
            max(b.best_e1rm) as best_e1rm,
            max(b.best_set_volume) as best_set_volume,
            max(b.max_reps) as max_reps,
            sum(b.duration_seconds)::bigint as duration_seconds,
            sum(b.distance)::bigint as distance,
            min(b.turn) filter (where b.working_sets > 0) as first_turn
        from by_session b
        group by b.exercise, b.day
        having sum(b.working_sets) > 0
        offset 0
    ),
    rollups as materialized (
        select
            d.exercise, d.day, d.sessions, d.sets, d.working_sets, d.reps,
            d.volume * 0.01 as volume_kg,
            stats_private.packed_weight(d.top_load) * 0.01 as top_weight_kg,
            stats_private.packed_reps(d.top_load) as top_weight_reps,
            d.best_e1rm * 0.01 as best_e1rm_kg,
            d.best_set_volume * 0.01 as best_set_volume_kg,
            d.max_reps, d.duration_seconds, d.distance * 0.01 as distance_m, d.first_turn,
            w.id as first_session_id
        from by_day d
        join sessions w on w.day = d.day and w.turn = d.first_turn
    ),

    -- ------------------------------------------------ records
    -- What is published outside the scope, for the exercises whose rows or snapshots are rebuilt.
    published_records as materialized (
        select x.exercise, x.is_rebuilt, r.kind, r.day, r.value, r.is_baseline, r.session_id
        from exercises x
        cross join lateral (
            select * from public.user_exercise_records e
            where e.user_id = p_user_id and e.exercise_id = x.exercise_id
            offset 0
        ) r
        where (p_from_date > '-infinity' or cardinality(p_window_ids) > 0)
            and (r.day < p_from_date or not x.is_rebuilt)
    ),
    carried_in as (
        select r.exercise, r.kind, max(stats_private.merit(r.kind, r.value)) as merit
        from published_records r
        where r.is_rebuilt
        group by r.exercise, r.kind
    ),
    -- Each session's bests beside the best of all before it, in hundredths as by_session has them.
    compared as materialized (
        select
            b.exercise, b.day, b.turn,
            stats_private.packed_weight(b.top_load) as weight, b.best_e1rm, b.best_set_volume, b.max_reps,
            b.longest_seconds, b.farthest, b.least_assistance,
            stats_private.packed_weight(max(b.top_load) over earlier) as earlier_weight,
            max(b.best_e1rm) over earlier as earlier_e1rm,
            max(b.best_set_volume) over earlier as earlier_set_volume,
            max(b.max_reps) over earlier as earlier_reps,
            max(b.longest_seconds) over earlier as earlier_seconds,
            max(b.farthest) over earlier as earlier_farthest,
            min(b.least_assistance) over earlier as earlier_assistance,
            b.lifted_1, b.lifted_2, b.lifted_3, b.lifted_4, b.lifted_5, b.lifted_6, b.lifted_7, b.lifted_8,
            b.lifted_9, b.lifted_10, b.lifted_11, b.lifted_12,
            max(b.lifted_1) over earlier as earlier_1,
            max(b.lifted_2) over earlier as earlier_2,
            max(b.lifted_3) over earlier as earlier_3,
            max(b.lifted_4) over earlier as earlier_4,
            max(b.lifted_5) over earlier as earlier_5,
            max(b.lifted_6) over earlier as earlier_6,
            max(b.lifted_7) over earlier as earlier_7,
            max(b.lifted_8) over earlier as earlier_8,
            max(b.lifted_9) over earlier as earlier_9,
            max(b.lifted_10) over earlier as earlier_10,
            max(b.lifted_11) over earlier as earlier_11,
            max(b.lifted_12) over earlier as earlier_12
        from by_session b
        window earlier as (
            partition by b.exercise order by b.day, b.turn rows between unbounded preceding and 1 preceding)
        offset 0
    ),
    -- One row a session and kind that beat everything before it. merit: a whole number of which the greater is the
    -- better, whatever the kind.
    improvements as (
        select n.exercise, n.day, n.turn, n.kind, n.merit, n.earlier
        from (
            select
                c.exercise, c.day, c.turn,
                unnest(array['weight', 'e1rm', 'set_volume', 'reps', 'duration', 'distance', 'least_assistance'])
                    as kind,
                unnest(array[
                    c.weight, c.best_e1rm, c.best_set_volume, c.max_reps, c.longest_seconds, c.farthest,
                    -c.least_assistance]) as merit,
                unnest(array[
                    c.earlier_weight, c.earlier_e1rm, c.earlier_set_volume, c.earlier_reps, c.earlier_seconds,
                    c.earlier_farthest, -c.earlier_assistance]) as earlier
            from compared c
            -- Most sessions beat nothing: said of the session first, it spares them the seven rows.
            where
                c.weight > coalesce(c.earlier_weight, 0) or c.best_e1rm > coalesce(c.earlier_e1rm, 0)
                or c.best_set_volume > coalesce(c.earlier_set_volume, 0) or c.max_reps > coalesce(c.earlier_reps, 0)
                or c.longest_seconds > coalesce(c.earlier_seconds, 0)
                or c.farthest > coalesce(c.earlier_farthest, 0)
                or c.least_assistance < coalesce(c.earlier_assistance, 9223372036854775807)
        ) n
        where n.merit > n.earlier or n.earlier is null and n.merit is not null
        union all
        select d.exercise, d.day, d.first_turn, 'day_volume', d.volume, d.earlier
        from (
            select
                b.exercise, b.day, b.first_turn, b.volume,
                max(b.volume) over (
                    partition by b.exercise order by b.day rows between unbounded preceding and 1 preceding
                ) as earlier
            from by_day b
            where b.volume > 0
        ) d
        where d.volume > d.earlier or d.earlier is null
    ),
    records as materialized (
        select
            i.exercise, i.kind collate "C" as kind, i.day, stats_private.record_value(i.kind, i.best) as value,
            case when not i.is_baseline then stats_private.record_value(i.kind, i.earlier) end as previous_value,
            i.is_baseline, w.id as session_id
        from (
            select
                n.exercise, n.kind, n.day,
                max(n.merit) as best,
                max(n.turn) as turn,
                min(greatest(c.merit, n.earlier)) as earlier,
                bool_or(c.merit is null and n.earlier is null) as is_baseline
            from improvements n
            left join carried_in c on c.exercise = n.exercise and c.kind = n.kind
            where c.merit is null or n.merit > c.merit
            group by n.exercise, n.kind, n.day
        ) i
        join sessions w on w.day = i.day and w.turn = i.turn
    ),

    -- ------------------------------------------------ rep maxes
    published_steps as materialized (
        select x.exercise, s.reps, s.day, s.weight_kg, s.session_id
        from exercises x
        cross join lateral (
            select * from stats_private.rep_max_steps e
            where e.user_id = p_user_id and e.exercise_id = x.exercise_id
            offset 0
        ) s
        where x.is_rebuilt
    ),
    -- The heaviest load before the scope that was lifted at least n times, in hundredths of a kilogram.
    carried_loads as (
        select
            s.exercise,
            max(s.weight_kg * 100) filter (where s.reps >= 1)::bigint as carried_1,
            max(s.weight_kg * 100) filter (where s.reps >= 2)::bigint as carried_2,
            max(s.weight_kg * 100) filter (where s.reps >= 3)::bigint as carried_3,
            max(s.weight_kg * 100) filter (where s.reps >= 4)::bigint as carried_4,
            max(s.weight_kg * 100) filter (where s.reps >= 5)::bigint as carried_5,
            max(s.weight_kg * 100) filter (where s.reps >= 6)::bigint as carried_6,
            max(s.weight_kg * 100) filter (where s.reps >= 7)::bigint as carried_7,
            max(s.weight_kg * 100) filter (where s.reps >= 8)::bigint as carried_8,
            max(s.weight_kg * 100) filter (where s.reps >= 9)::bigint as carried_9,
            max(s.weight_kg * 100) filter (where s.reps >= 10)::bigint as carried_10,
            max(s.weight_kg * 100) filter (where s.reps >= 11)::bigint as carried_11,
            max(s.weight_kg * 100) filter (where s.reps >= 12)::bigint as carried_12
        from published_steps s
        where s.day < p_from_date
        group by s.exercise
    ),
    -- A session's load of n reps that is heavier than all earlier ones of at least n; `above` is its load of more
    -- reps: where they are equal it is the same load, and stands there.
    steps as materialized (
        select t.exercise, t.reps, t.day, t.load * 0.01 as weight_kg, w.id as session_id
        from (
            select l.exercise, l.reps, l.day, max(l.load) as load, max(l.turn) as turn
            from (
                select
                    c.exercise, c.day, c.turn,
                    unnest(array[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) as reps,
                    unnest(array[
                        c.lifted_1, c.lifted_2, c.lifted_3, c.lifted_4, c.lifted_5, c.lifted_6, c.lifted_7,
                        c.lifted_8, c.lifted_9, c.lifted_10, c.lifted_11, c.lifted_12]) as load,
                    unnest(array[
                        c.lifted_2, c.lifted_3, c.lifted_4, c.lifted_5, c.lifted_6, c.lifted_7, c.lifted_8,
                        c.lifted_9, c.lifted_10, c.lifted_11, c.lifted_12, null]) as above,
                    unnest(array[
                        greatest(c.earlier_1, k.carried_1), greatest(c.earlier_2, k.carried_2),
                        greatest(c.earlier_3, k.carried_3), greatest(c.earlier_4, k.carried_4),
                        greatest(c.earlier_5, k.carried_5), greatest(c.earlier_6, k.carried_6),
                        greatest(c.earlier_7, k.carried_7), greatest(c.earlier_8, k.carried_8),
                        greatest(c.earlier_9, k.carried_9), greatest(c.earlier_10, k.carried_10),
                        greatest(c.earlier_11, k.carried_11), greatest(c.earlier_12, k.carried_12)]) as earlier
                from compared c
                left join carried_loads k on k.exercise = c.exercise
                where
                    c.lifted_1 > coalesce(c.earlier_1, 0) or c.lifted_2 > coalesce(c.earlier_2, 0)
                    or c.lifted_3 > coalesce(c.earlier_3, 0) or c.lifted_4 > coalesce(c.earlier_4, 0)
                    or c.lifted_5 > coalesce(c.earlier_5, 0) or c.lifted_6 > coalesce(c.earlier_6, 0)
                    or c.lifted_7 > coalesce(c.earlier_7, 0) or c.lifted_8 > coalesce(c.earlier_8, 0)
                    or c.lifted_9 > coalesce(c.earlier_9, 0) or c.lifted_10 > coalesce(c.earlier_10, 0)
                    or c.lifted_11 > coalesce(c.earlier_11, 0) or c.lifted_12 > coalesce(c.earlier_12, 0)
            ) l
            where l.load > coalesce(l.earlier, 0) and l.load > coalesce(l.above, 0)
            group by l.exercise, l.reps, l.day
        ) t
        join sessions w on w.day = t.day and w.turn = t.turn
    ),
    -- Of each exercise's latest, so heaviest, steps those that no step of more reps outweighs: each holds its own
    -- reps and the fewer ones down to the next holder.
    holders as (
        select
            h.*, coalesce(lead(h.reps) over (partition by h.exercise order by h.reps desc), 0) as next_reps
        from (
            select
                a.*,
                max(a.weight_kg) over (
                    partition by a.exercise order by a.reps desc
                    rows between unbounded preceding and 1 preceding
                ) as outweighed_by
            from (
                select distinct on (x.exercise, x.reps) x.*
                from (
                    select t.exercise, t.reps, t.day, t.weight_kg, t.session_id from steps t
                    union all
                    select p.exercise, p.reps, p.day, p.weight_kg, p.session_id
                    from published_steps p
                    where p.day < p_from_date
                ) x
                order by x.exercise, x.reps, x.day desc
            ) a
        ) h
        where h.outweighed_by is null or h.weight_kg >= h.outweighed_by
    ),
    rep_maxes as materialized (
        select h.exercise, generate_series(h.next_reps + 1, h.reps) as reps, h.day, h.weight_kg, h.session_id
        from holders h
    ),

    -- ------------------------------------------------ the three snapshot days
    window_days as (
        select w.as_of_date, (w.as_of_date - interval '1 year')::date as last_year
        from unnest(array[p_anchor - 1, p_anchor, p_anchor + 1]) w (as_of_date)
    ),
    all_days as materialized (
        select d.exercise, d.day, d.sessions, d.top_weight_kg, d.best_e1rm_kg from rollups d
        union all
        select x.exercise, d.day, d.sessions, d.top_weight_kg, d.best_e1rm_kg
        from exercises x
        cross join lateral (
            select * from public.user_exercise_daily_rollups e
            where e.user_id = p_user_id and e.exercise_id = x.exercise_id
            offset 0
        ) d
        where (p_from_date > '-infinity' or cardinality(p_window_ids) > 0)
            and (d.day < p_from_date or not x.is_rebuilt)
    ),
    all_records as materialized (
        select r.exercise, r.kind, r.day, r.value, r.is_baseline, r.session_id from records r
        union all
        select r.exercise, r.kind, r.day, r.value, r.is_baseline, r.session_id from published_records r
    ),
    last_performed as (
        select w.as_of_date, d.exercise, max(d.day) as last_performed_on
        from (
            -- Days before the window are one row an exercise, whatever their number.
            select o.exercise, max(o.day) as day
            from all_days o where o.day < p_anchor - 1 group by o.exercise
            union all
            select o.exercise, o.day from all_days o where o.day between p_anchor - 1 and p_anchor + 1
        ) d
        join window_days w on d.day <= w.as_of_date
        group by w.as_of_date, d.exercise
    ),
    last_30_days as (
        select
            w.as_of_date, d.exercise, max(d.top_weight_kg) as weight_kg, max(d.best_e1rm_kg) as e1rm_kg,
            sum(d.sessions)::integer as sessions
        from window_days w
        join all_days d on d.day between w.as_of_date - 29 and w.as_of_date
        where d.day >= p_anchor - 30
        group by w.as_of_date, d.exercise
    ),
    a_year_before as (
        select w.as_of_date, d.exercise, max(d.top_weight_kg) as weight_kg, max(d.best_e1rm_kg) as e1rm_kg
        from window_days w
        join all_days d on d.day between w.last_year - 29 and w.last_year
        where d.day between p_anchor - 398 and p_anchor - 363
        group by w.as_of_date, d.exercise
    ),
    recent_records as (
        select w.as_of_date, r.exercise, count(*)::integer as records
        from window_days w
        join all_records r on r.day between w.as_of_date - 29 and w.as_of_date
        where r.day >= p_anchor - 30 and not r.is_baseline
        group by w.as_of_date, r.exercise
    ),
    -- The latest record is the best: a record is strictly better than all before it.
    bests as (
        select distinct on (w.as_of_date, r.exercise, r.kind)
            w.as_of_date, r.exercise, r.kind, r.value, r.day, r.session_id
        from (
            (
                select distinct on (o.exercise, o.kind) o.*
                from all_records o
                where o.kind in ('weight', 'e1rm') and o.day < p_anchor - 1
                order by o.exercise, o.kind, o.day desc
            )
            union all
            select o.* from all_records o
            where o.kind in ('weight', 'e1rm') and o.day between p_anchor - 1 and p_anchor + 1
        ) r
        join window_days w on r.day <= w.as_of_date
        order by w.as_of_date, r.exercise, r.kind, r.day desc
    ),
    manual as (
        select distinct on (w.as_of_date, x.exercise)
            w.as_of_date, x.exercise, m.one_rm_kg, m.achieved_on
        from exercises x
        cross join lateral (
            select * from public.user_manual_pr_records e
            where e.user_id = p_user_id and e.exercise_id = x.exercise_id
            offset 0
        ) m
        join window_days w on m.achieved_on <= w.as_of_date
        order by w.as_of_date, x.exercise, m.achieved_on desc, m.one_rm_kg desc
    ),
    summaries as materialized (
        select
            as_of_date, exercise,
            bw.value::numeric(8, 2) as best_weight_kg, bw.day as best_weight_on,
            bw.session_id as best_weight_session_id,
            be.value::numeric(10, 2) as best_e1rm_kg, be.day as best_e1rm_on,
            be.session_id as best_e1rm_session_id,
            greatest(m.one_rm_kg, be.value)::numeric(10, 2) as one_rm_kg,
            case
                when m.one_rm_kg >= be.value or be.value is null and m.one_rm_kg is not null then 'manual'
                when be.value is not null then 'estimate'
            end as one_rm_source,
            case when m.one_rm_kg >= be.value or be.value is null then m.achieved_on else be.day end as one_rm_on,
            t.weight_kg as weight_30d_kg, t.e1rm_kg as e1rm_30d_kg,
            y.weight_kg as weight_30d_last_year_kg, y.e1rm_kg as e1rm_30d_last_year_kg,
            l.last_performed_on,
            coalesce(t.sessions, 0) as sessions_30d,
            coalesce(r.records, 0) as records_30d
        -- Full joins, though the first two have every key: they are hashed, and a guess of one row can't make them
        -- loops over each other.
        from last_performed l
        full join manual m using (as_of_date, exercise)
        full join (select b.* from bests b where b.kind = 'weight') bw using (as_of_date, exercise)
        full join (select b.* from bests b where b.kind = 'e1rm') be using (as_of_date, exercise)
        full join last_30_days t using (as_of_date, exercise)
        full join a_year_before y using (as_of_date, exercise)
        full join recent_records r using (as_of_date, exercise)
    ),

    -- ------------------------------------------------ the differences
    rollup_differences as (
        insert into stats_private.stats_output_daily_rollups (
            run_id, op, exercise_id, day, sessions, sets, working_sets, reps, volume_kg, top_weight_kg,
            top_weight_reps, best_e1rm_kg, best_set_volume_kg, max_reps, duration_seconds, distance_m,
            first_session_id)
        select
            p_run_id,
            (case when t.day is null then 'i' when n.day is null then 'd' else 'u' end)::"char",
            v_ids[coalesce(n.exercise, t.exercise)], coalesce(n.day, t.day),
            n.sessions, n.sets, n.working_sets, n.reps, n.volume_kg, n.top_weight_kg, n.top_weight_reps,
            n.best_e1rm_kg, n.best_set_volume_kg, n.max_reps, n.duration_seconds, n.distance_m, n.first_session_id
        from rollups n
        full join (
            select i.exercise, d.*
            from exercises i
            cross join lateral (
                select * from public.user_exercise_daily_rollups e
                where e.user_id = p_user_id and e.exercise_id = i.exercise_id
                offset 0
            ) d
            where d.day >= p_from_date and i.is_rebuilt
        ) t on t.exercise = n.exercise and t.day = n.day
        where t.day is null or n.day is null
            or (t.sessions, t.sets, t.working_sets, t.reps, t.volume_kg, t.top_weight_kg, t.top_weight_reps,
                t.best_e1rm_kg, t.best_set_volume_kg, t.max_reps, t.duration_seconds, t.distance_m,
                t.first_session_id)
            is distinct from
            (n.sessions, n.sets, n.working_sets, n.reps, n.volume_kg, n.top_weight_kg, n.top_weight_reps,
                n.best_e1rm_kg, n.best_set_volume_kg, n.max_reps, n.duration_seconds, n.distance_m,
                n.first_session_id)
    ),
    record_differences as (
        insert into stats_private.stats_output_records (
            run_id, op, exercise_id, kind, day, value, previous_value, is_baseline, session_id)
        select
            p_run_id,
            (case when t.day is null then 'i' when n.day is null then 'd' else 'u' end)::"char",
            v_ids[coalesce(n.exercise, t.exercise)], coalesce(n.kind, t.kind), coalesce(n.day, t.day),
            n.value, n.previous_value, n.is_baseline, n.session_id
        from records n
        full join (
            select i.exercise, r.*
            from exercises i
            cross join lateral (
                select * from public.user_exercise_records e
                where e.user_id = p_user_id and e.exercise_id = i.exercise_id
                offset 0
            ) r
            where r.day >= p_from_date and i.is_rebuilt
        ) t on t.exercise = n.exercise and t.kind = n.kind and t.day = n.day
        where t.day is null or n.day is null
            or (t.value, t.previous_value, t.is_baseline, t.session_id)
            is distinct from (n.value, n.previous_value, n.is_baseline, n.session_id)
    ),
    step_differences as (
        insert into stats_private.stats_output_rep_max_steps (
            run_id, op, exercise_id, reps, day, weight_kg, session_id)
        select
            p_run_id,
            (case when t.day is null then 'i' when n.day is null then 'd' else 'u' end)::"char",
            v_ids[coalesce(n.exercise, t.exercise)], coalesce(n.reps, t.reps), coalesce(n.day, t.day),
            n.weight_kg, n.session_id
        from steps n
        full join (
            select * from published_steps p where p.day >= p_from_date
        ) t on t.exercise = n.exercise and t.reps = n.reps and t.day = n.day
        where t.day is null or n.day is null
            or (t.weight_kg, t.session_id) is distinct from (n.weight_kg, n.session_id)
    ),
    rep_max_differences as (
        insert into stats_private.stats_output_rep_maxes (
            run_id, op, exercise_id, reps, weight_kg, achieved_on, session_id)
        select
            p_run_id,
            (case when t.reps is null then 'i' when n.reps is null then 'd' else 'u' end)::"char",
            v_ids[coalesce(n.exercise, t.exercise)], coalesce(n.reps, t.reps), n.weight_kg, n.day, n.session_id
        from rep_maxes n
        full join (
            select i.exercise, m.*
            from exercises i
            cross join lateral (
                select * from public.user_exercise_rep_maxes e
                where e.user_id = p_user_id and e.exercise_id = i.exercise_id
                offset 0
            ) m
            where i.is_rebuilt
        ) t on t.exercise = n.exercise and t.reps = n.reps
        where t.reps is null or n.reps is null
            or (t.weight_kg, t.achieved_on, t.session_id) is distinct from (n.weight_kg, n.day, n.session_id)
    )
    insert into stats_private.stats_output_pr_summaries (
        run_id, op, as_of_date, exercise_id, best_weight_kg, best_weight_on, best_weight_session_id,
        best_e1rm_kg, best_e1rm_on, best_e1rm_session_id, one_rm_kg, one_rm_source, one_rm_on, weight_30d_kg,
        e1rm_30d_kg, weight_30d_last_year_kg, e1rm_30d_last_year_kg, last_performed_on, sessions_30d,
        records_30d)
    select
        p_run_id,
        (case when t.exercise is null then 'i' when n.exercise is null then 'd' else 'u' end)::"char",
        coalesce(n.as_of_date, t.as_of_date), v_ids[coalesce(n.exercise, t.exercise)],
        n.best_weight_kg, n.best_weight_on, n.best_weight_session_id, n.best_e1rm_kg, n.best_e1rm_on,
        n.best_e1rm_session_id, n.one_rm_kg, n.one_rm_source, n.one_rm_on, n.weight_30d_kg, n.e1rm_30d_kg,
        n.weight_30d_last_year_kg, n.e1rm_30d_last_year_kg, n.last_performed_on, n.sessions_30d, n.records_30d
    from summaries n
    full join (
        select i.exercise, s.*
        from exercises i
        join (
            -- The day stands before the exercise in their index: read once, not once an exercise.
            select * from public.user_pr_exercise_summary_snapshots a where a.user_id = p_user_id offset 0
        ) s on s.exercise_id = i.exercise_id
    ) t on t.as_of_date = n.as_of_date and t.exercise = n.exercise
    where t.exercise is null or n.exercise is null
        or (t.best_weight_kg, t.best_weight_on, t.best_weight_session_id, t.best_e1rm_kg, t.best_e1rm_on,
            t.best_e1rm_session_id, t.one_rm_kg, t.one_rm_source, t.one_rm_on, t.weight_30d_kg, t.e1rm_30d_kg,
            t.weight_30d_last_year_kg, t.e1rm_30d_last_year_kg, t.last_performed_on, t.sessions_30d,
            t.records_30d)
        is distinct from
        (n.best_weight_kg, n.best_weight_on, n.best_weight_session_id, n.best_e1rm_kg, n.best_e1rm_on,
            n.best_e1rm_session_id, n.one_rm_kg, n.one_rm_source, n.one_rm_on, n.weight_30d_kg, n.e1rm_30d_kg,
            n.weight_30d_last_year_kg, n.e1rm_30d_last_year_kg, n.last_performed_on, n.sessions_30d,
            n.records_30d);
end;
$$;
