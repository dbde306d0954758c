-- stats_private.project_account(run, token, user, from_date, anchor)
-- Promises: the differences of what looks across exercises, training periods and calendar days, as i, u and d rows of
--   this lease. Called once, after the last project() of the lease: it reads no set, part or exercise, only
--   stats_input_days and the published rollups and records with the lease's own outputs over them.
--   Calendar days from p_from_date on are rebuilt, and every period that has such a day, whole: its earlier days come
--   from the published periods of one day. Distinct exercises go up day, month, quarter, year, and day, week.
--   The outputs are fresh and have no statistics, so nested loops are off: a guess of one row would make each pair
--   of tables a product.
-- Locks: none
-- Writes: private outputs
create or replace function stats_private.project_account(
    p_run_id uuid, p_lease_token uuid, p_user_id uuid, p_from_date date, p_anchor date
)
returns void
language plpgsql
set enable_nestloop = off
set jit = off
as $$
declare
    v_week_start integer := (select p.week_start from public.stats_projection_policy p);
    v_day date := coalesce(p_from_date, '-infinity');
    -- The first period of each grain that has a day of the scope, and the first day of all of them.
    v_week date := case
        when p_from_date is null then '-infinity' else stats_private.week_of(p_from_date, v_week_start)
    end;
    v_month date := date_trunc('month', v_day::timestamp)::date;
    v_quarter date := date_trunc('quarter', v_day::timestamp)::date;
    v_year date := date_trunc('year', v_day::timestamp)::date;
    v_first date := least(v_week, v_year);
begin
    if p_from_date = 'infinity' then
        return;
    end if;
    perform set_config(
        'plan_cache_mode', case when p_from_date is null then 'force_custom_plan' else 'auto' end, true);

    with rollups as materialized (
        select r.exercise_id, r.day, r.working_sets, r.reps, r.volume_kg, r.distance_m
        from public.user_exercise_daily_rollups r
        left join stats_private.stats_output_daily_rollups o
            on o.run_id = p_run_id and o.lease_token = p_lease_token
            and o.exercise_id = r.exercise_id and o.day = r.day
        where r.user_id = p_user_id and r.day >= v_first and o.op is null
        union all
        select o.exercise_id, o.day, o.working_sets, o.reps, o.volume_kg, o.distance_m
        from stats_private.stats_output_daily_rollups o
        where o.run_id = p_run_id and o.lease_token = p_lease_token and o.op <> 'd'
    ),
    records as (
        select r.day, r.is_baseline
        from public.user_exercise_records r
        left join stats_private.stats_output_records o
            on o.run_id = p_run_id and o.lease_token = p_lease_token
            and o.exercise_id = r.exercise_id and o.kind = r.kind and o.day = r.day
        where r.user_id = p_user_id and r.day >= v_day and o.op is null
        union all
        select o.day, o.is_baseline
        from stats_private.stats_output_records o
        where o.run_id = p_run_id and o.lease_token = p_lease_token and o.op <> 'd'
    ),
    work_of_day as (
        select
            r.day,
            count(*)::integer as exercises,
            sum(r.working_sets)::integer as working_sets,
            sum(r.reps)::bigint as reps,
            sum(r.volume_kg) as volume_kg,
            sum(r.distance_m) as distance_m
        from rollups r
        where r.day >= v_day
        group by r.day
    ),
    records_of_day as (
        select r.day, count(*)::integer as record_count from records r where not r.is_baseline group by r.day
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
        where i.run_id = p_run_id and i.lease_token = p_lease_token
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
        where p.user_id = p_user_id and p.grain = 'day' and p.period_start >= v_first and p.period_start < v_day
    ),
    sums as (
        select
            b.grain, b.period_start,
            sum(d.sessions)::integer as sessions,
            count(*)::integer as active_days,
            sum(d.duration_seconds)::bigint as duration_seconds,
            sum(d.working_sets)::integer as working_sets,
            sum(d.reps)::bigint as reps,
            sum(d.volume_kg) as volume_kg,
            sum(d.distance_m) as distance_m,
            sum(d.record_count)::integer as record_count
        from all_days d
        cross join lateral (values
            ('day', d.day, v_day),
            ('week', stats_private.week_of(d.day, v_week_start), v_week),
            ('month', date_trunc('month', d.day::timestamp)::date, v_month),
            ('quarter', date_trunc('quarter', d.day::timestamp)::date, v_quarter),
            ('year', date_trunc('year', d.day::timestamp)::date, v_year)
        ) b (grain, period_start, first_start)
        where b.period_start >= b.first_start
        group by b.grain, b.period_start
    ),
    by_week as (
        select stats_private.week_of(r.day, v_week_start) as period_start, r.exercise_id
        from rollups r
        group by 1, 2
    ),
    by_month as (
        select date_trunc('month', r.day::timestamp)::date as period_start, r.exercise_id from rollups r group by 1, 2
    ),
    by_quarter as (
        select date_trunc('quarter', m.period_start::timestamp)::date as period_start, m.exercise_id
        from by_month m
        group by 1, 2
    ),
    by_year as (
        select date_trunc('year', q.period_start::timestamp)::date as period_start, q.exercise_id
        from by_quarter q
        group by 1, 2
    ),
    exercise_counts as (
        select 'day' as grain, d.day as period_start, d.exercises from days d
        union all
        select 'week', b.period_start, count(*)::integer from by_week b group by b.period_start
        union all
        select 'month', b.period_start, count(*)::integer from by_month b group by b.period_start
        union all
        select 'quarter', b.period_start, count(*)::integer from by_quarter b group by b.period_start
        union all
        select 'year', b.period_start, count(*)::integer from by_year b group by b.period_start
    ),
    periods as materialized (
        select
            s.grain collate "C" as grain, s.period_start, s.sessions, s.active_days, s.duration_seconds,
            coalesce(c.exercises, 0) as exercises,
            s.working_sets, s.reps, s.volume_kg, s.distance_m, s.record_count
        from sums s
        left join exercise_counts c on c.grain = s.grain and c.period_start = s.period_start
    ),

    -- ------------------------------------------------ the differences
    period_differences as (
        insert into stats_private.stats_output_periods (
            run_id, lease_token, op, grain, period_start, sessions, active_days, duration_seconds, exercises,
            working_sets, reps, volume_kg, distance_m, record_count)
        select
            p_run_id, p_lease_token,
            (case when t.grain is null then 'i' when n.grain is null then 'd' else 'u' end)::"char",
            coalesce(n.grain, t.grain), coalesce(n.period_start, t.period_start),
            n.sessions, n.active_days, n.duration_seconds, n.exercises, n.working_sets, n.reps, n.volume_kg,
            n.distance_m, n.record_count
        from periods n
        full join (
            select * from public.user_training_period_stats p
            where p.user_id = p_user_id
                and (
                    p.grain = 'day' and p.period_start >= v_day
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
        run_id, lease_token, op, day, sessions, titles, exercises, working_sets, volume_kg, duration_seconds,
        record_count)
    select
        p_run_id, p_lease_token,
        (case when t.day is null then 'i' when n.day is null then 'd' else 'u' end)::"char",
        coalesce(n.day, t.day),
        n.sessions, n.titles, n.exercises, n.working_sets, n.volume_kg, n.duration_seconds, n.record_count
    from days n
    full join (
        select * from public.user_calendar_day_summaries c where c.user_id = p_user_id and c.day >= v_day
    ) t on t.day = n.day
    where t.day is null or n.day is null
        or (t.sessions, t.titles, t.exercises, t.working_sets, t.volume_kg, t.duration_seconds, t.record_count)
        is distinct from
        (n.sessions, n.titles, n.exercises, n.working_sets, n.volume_kg, n.duration_seconds, n.record_count);
end;
$$;

-- Notes the account's sessions by day for project_account, where no project() of the lease does so itself: the first
-- step of a run in batches. The caller checks at each later step that no newer write came between.
-- Locks: none
-- Writes: stats_input_days
create or replace function stats_private.note_input_days(
    p_run_id uuid, p_lease_token uuid, p_user_id uuid, p_from_date date
)
returns void
language sql
as $$
    insert into stats_private.stats_input_days (run_id, lease_token, day, sessions, titles, duration_seconds)
    select p_run_id, p_lease_token, d.day, d.sessions, d.titles, d.duration_seconds
    from stats_private.sessions_by_day(p_user_id, p_from_date) d
    on conflict do nothing
$$;
