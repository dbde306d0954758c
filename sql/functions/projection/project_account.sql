-- stats_private.project_account(run, user, policy, from_date)
-- Promises: the differences of what looks across exercises, training periods and calendar days, as i, u and d rows of
--   this run. Called once, after the last project() of the run: it reads no set, part or exercise, only
--   stats_input_days and the published rollups and records with the run's own outputs over them.
--   Calendar days from p_from_date on ('-infinity': all; 'infinity': none) are rebuilt, and every period that has such
--   a day, whole: its earlier days come from the published periods of one day. A period's distinct exercises are the
--   sum over its days of those that no earlier day of the period has.
--   The outputs are fresh and have no statistics, so nested loops are off: a guess of one row would make each pair
--   of tables a product.
-- Locks: none
-- Writes: private outputs
create or replace function stats_private.project_account(
    p_run_id uuid, p_user_id uuid, p_policy public.stats_projection_policy, p_from_date date
)
returns void
language plpgsql
set enable_nestloop = off
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_week_start integer := p_policy.week_start;
    -- The first period of each grain that has a day of the scope, and the first day of all of them.
    v_week date := case
        when isfinite(p_from_date) then stats_private.week_of(p_from_date, v_week_start) else p_from_date
    end;
    v_month date := date_trunc('month', p_from_date::timestamp)::date;
    v_quarter date := date_trunc('quarter', p_from_date::timestamp)::date;
    v_year date := date_trunc('year', p_from_date::timestamp)::date;
    v_first date := least(v_week, v_year);
begin
    if p_from_date = 'infinity' then
        return;
    end if;

    with rollups as (
        select r.exercise_id, r.day, r.working_sets, r.reps, r.volume_kg, r.distance_m
        from public.user_exercise_daily_rollups r
        left join stats_private.stats_output_daily_rollups o
            on o.run_id = p_run_id
            and o.exercise_id = r.exercise_id and o.day = r.day
        where r.user_id = p_user_id and r.day >= v_first and o.op is null
        union all
        select o.exercise_id, o.day, o.working_sets, o.reps, o.volume_kg, o.distance_m
        from stats_private.stats_output_daily_rollups o
        where o.run_id = p_run_id and o.op <> 'd'
    ),
    work_of_day as materialized (
        select
            r.day,
            count(*)::integer as exercises,
            (count(*) - count(*) filter (where r.previous >= r.week))::integer as first_in_week,
            (count(*) - count(*) filter (where r.previous >= r.month))::integer as first_in_month,
            (count(*) - count(*) filter (where r.previous >= r.quarter))::integer as first_in_quarter,
            (count(*) - count(*) filter (where r.previous >= r.year))::integer as first_in_year,
            sum(r.working_sets)::integer as working_sets,
            sum(r.reps)::bigint as reps,
            sum(r.volume_kg) as volume_kg,
            sum(r.distance_m) as distance_m
        from (
            select
                u.*,
                lag(u.day) over (partition by u.exercise_id order by u.day) as previous,
                stats_private.week_of(u.day, v_week_start) as week,
                date_trunc('month', u.day::timestamp)::date as month,
                date_trunc('quarter', u.day::timestamp)::date as quarter,
                date_trunc('year', u.day::timestamp)::date as year
            from rollups u
            offset 0
        ) r
        group by r.day
    ),
    records_of_day as (
        select r.day, count(*)::integer as record_count
        from (
            select p.day
            from public.user_exercise_records p
            left join stats_private.stats_output_records o
                on o.run_id = p_run_id
                and o.exercise_id = p.exercise_id and o.kind = p.kind and o.day = p.day
            where p.user_id = p_user_id and p.day >= p_from_date and not p.is_baseline and o.op is null
            union all
            select o.day
            from stats_private.stats_output_records o
            where o.run_id = p_run_id and o.op <> 'd' and not o.is_baseline
        ) r
        group by r.day
    ),
    days as materialized (
        select
            i.day, i.sessions, i.titles, i.duration_seconds,
            coalesce(w.exercises, 0) as exercises,
            coalesce(w.working_sets, 0) as working_sets,
            coalesce(w.reps, 0) as reps,
            coalesce(w.volume_kg, 0) as volume_kg,
            coalesce(w.distance_m, 0) as distance_m,
            coalesce(r.record_count, 0) as record_count
        from stats_private.stats_input_days i
        left join work_of_day w on w.day = i.day
        left join records_of_day r on r.day = i.day
        where i.run_id = p_run_id
    ),

    -- ------------------------------------------------ periods
    all_days as (
        select
            d.day, d.sessions, d.duration_seconds, d.working_sets, d.reps, d.volume_kg, d.distance_m,
            d.record_count
        from days d
        union all
        select
            p.period_start, p.sessions, p.duration_seconds, p.working_sets, p.reps, p.volume_kg, p.distance_m,
            p.record_count
        from public.user_training_period_stats p
        where p.user_id = p_user_id and p.grain = 'day' and p.period_start >= v_first and p.period_start < p_from_date
    ),
    longer_periods as (
        select
            b.grain, b.period_start,
            sum(b.sessions)::integer as sessions,
            count(*)::integer as active_days,
            sum(b.duration_seconds)::bigint as duration_seconds,
            coalesce(sum(b.exercises), 0)::integer as exercises,
            sum(b.working_sets)::integer as working_sets,
            sum(b.reps)::bigint as reps,
            sum(b.volume_kg) as volume_kg,
            sum(b.distance_m) as distance_m,
            sum(b.record_count)::integer as record_count
        from (
            select
                d.*,
                unnest(array['week', 'month', 'quarter', 'year']) as grain,
                unnest(array[
                    stats_private.week_of(d.day, v_week_start), date_trunc('month', d.day::timestamp)::date,
                    date_trunc('quarter', d.day::timestamp)::date, date_trunc('year', d.day::timestamp)::date
                ]) as period_start,
                unnest(array[v_week, v_month, v_quarter, v_year]) as first_start,
                unnest(array[w.first_in_week, w.first_in_month, w.first_in_quarter, w.first_in_year]) as exercises
            from all_days d
            left join work_of_day w on w.day = d.day
        ) b
        where b.period_start >= b.first_start
        group by b.grain, b.period_start
    ),
    periods as materialized (
        select
            'day' collate "C" as grain, d.day as period_start, d.sessions, 1 as active_days, d.duration_seconds,
            d.exercises, d.working_sets, d.reps, d.volume_kg, d.distance_m, d.record_count
        from days d
        union all
        select
            p.grain collate "C", p.period_start, p.sessions, p.active_days, p.duration_seconds, p.exercises,
            p.working_sets, p.reps, p.volume_kg, p.distance_m, p.record_count
        from longer_periods p
    ),

    -- ------------------------------------------------ the differences
    period_differences as (
        insert into stats_private.stats_output_periods (
            run_id, op, grain, period_start, sessions, active_days, duration_seconds, exercises,
            working_sets, reps, volume_kg, distance_m, record_count)
        select
            p_run_id,
            (case when t.grain is null then 'i' when n.grain is null then 'd' else 'u' end)::"char",
            coalesce(n.grain, t.grain), coalesce(n.period_start, t.period_start),
            n.sessions, n.active_days, n.duration_seconds, n.exercises, n.working_sets, n.reps, n.volume_kg,
            n.distance_m, n.record_count
        from periods n
        full join (
            select * from public.user_training_period_stats p
            where p.user_id = p_user_id
                and (
                    p.grain = 'day' and p.period_start >= p_from_date
                    or p.grain = 'week' and p.period_start >= v_week
                    or p.grain = 'month' and p.period_start >= v_month
                    or p.grain = 'quarter' and p.period_start >= v_quarter
                    or p.grain = 'year' and p.period_start >= v_year)
        ) t on t.grain = n.grain and t.period_start = n.period_start
        where t.grain is null or n.grain is null
            or (t.sessions, t.active_days, t.duration_seconds, t.exercises, t.working_sets, t.reps, t.volume_kg,
                t.distance_m, t.record_count)
            is distinct from
            (n.sessions, n.active_days, n.duration_seconds, n.exercises, n.working_sets, n.reps, n.volume_kg,
                n.distance_m, n.record_count)
    )
    insert into stats_private.stats_output_calendar (
        run_id, op, day, sessions, titles, exercises, working_sets, volume_kg, duration_seconds,
        record_count)
    select
        p_run_id,
        (case when t.day is null then 'i' when n.day is null then 'd' else 'u' end)::"char",
        coalesce(n.day, t.day),
        n.sessions, n.titles, n.exercises, n.working_sets, n.volume_kg, n.duration_seconds, n.record_count
    from days n
    full join (
        select * from public.user_calendar_day_summaries c where c.user_id = p_user_id and c.day >= p_from_date
    ) t on t.day = n.day
    where t.day is null or n.day is null
        or (t.sessions, t.titles, t.exercises, t.working_sets, t.volume_kg, t.duration_seconds, t.record_count)
        is distinct from
        (n.sessions, n.titles, n.exercises, n.working_sets, n.volume_kg, n.duration_seconds, n.record_count);
end;
$$;

-- Notes the account's sessions by day for project_account, where no project() of the run does so itself: the first
-- step of a run in batches. The caller checks at each later step that no newer write came between.
-- Locks: none
-- Writes: stats_input_days
create or replace function stats_private.note_input_days(
    p_run_id uuid, p_user_id uuid, p_from_date date
)
returns void
language sql
as $$
    insert into stats_private.stats_input_days (run_id, day, sessions, titles, duration_seconds)
    select p_run_id, d.day, d.sessions, d.titles, d.duration_seconds
    from stats_private.sessions_by_day(p_user_id, p_from_date) d
    on conflict do nothing
$$;
