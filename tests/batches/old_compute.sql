-- The compute of the incident, kept to show what it runs into: for each exercise of the account a set of scratch
-- tables with an index each, made and dropped again in one transaction. Dropping a table gives its lock-table entries
-- back only at the end of the transaction.
-- Says after each exercise how many tables it has made. Computes the daily rollups into a table of its own.
create table public.old_daily_rollups (exercise_id text, day date, sets bigint, reps bigint, top_weight_kg numeric);

create function public.old_compute(p_user_id uuid)
returns integer
language plpgsql
as $$
declare
    v_exercise_id text;
    v_scratch text;
    v_tables integer := 0;
begin
    for v_exercise_id in
        select distinct p.exercise_id from public.session_exercise_part p where p.user_id = p_user_id order by 1
    loop
        create temporary table scratch_sets as
        select w.session_date as day, s.weight_kg, s.reps
        from public.workout_sessions w
        join public.session_exercise_part p on p.session_id = w.id
        join public.session_sets s on s.part_id = p.id
        where w.user_id = p_user_id and p.exercise_id = v_exercise_id and s.is_completed and s.set_type <> 'warmup';
        create index on scratch_sets (day);
        create temporary table scratch_days as
        select d.day, count(*) as sets, sum(d.reps) as reps, max(d.weight_kg) as top_weight_kg
        from scratch_sets d
        group by d.day;
        create index on scratch_days (day);
        v_tables := v_tables + 2;
        foreach v_scratch in array array['records', 'rep_maxes', 'periods', 'calendar', 'summaries', 'window'] loop
            execute format('create temporary table scratch_%s (day date, value numeric)', v_scratch);
            execute format('create index on scratch_%s (day)', v_scratch);
            v_tables := v_tables + 1;
        end loop;
        insert into public.old_daily_rollups
        select v_exercise_id, d.day, d.sets, d.reps, d.top_weight_kg from scratch_days d;
        drop table
        scratch_sets, scratch_days, scratch_records, scratch_rep_maxes, scratch_periods, scratch_calendar,
        scratch_summaries, scratch_window;
        raise notice '% tables', v_tables;
    end loop;
    return v_tables;
end;
$$;
