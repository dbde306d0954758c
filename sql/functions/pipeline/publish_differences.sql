-- Applies a run's differences to the read models, one function a read model -> rows written
-- Promises: runs a statement only for the operations that the manifest says have rows. The caller holds the run row
--   and the account's write lock, and has compared the manifest with the outputs.
-- Locks: read models
-- Writes: user_exercise_daily_rollups, user_exercise_records, user_exercise_rep_maxes, rep_max_steps,
--   user_pr_exercise_summary_snapshots, user_training_period_stats, user_calendar_day_summaries

create or replace function stats_private.publish_daily_rollups(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_operations jsonb := p_run.payload #> '{manifest,daily_rollups}';
begin
    if (v_operations ->> 'd')::integer > 0 then
        delete from public.user_exercise_daily_rollups t
        using stats_private.stats_output_daily_rollups o
        where o.run_id = p_run.id and o.op = 'd'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.day = o.day;
    end if;
    if (v_operations ->> 'u')::integer > 0 then
        update public.user_exercise_daily_rollups t
        set
            sessions = o.sessions,
            sets = o.sets,
            working_sets = o.working_sets,
            reps = o.reps,
            volume_kg = o.volume_kg,
            top_weight_kg = o.top_weight_kg,
            top_weight_reps = o.top_weight_reps,
            best_e1rm_kg = o.best_e1rm_kg,
            best_set_volume_kg = o.best_set_volume_kg,
            max_reps = o.max_reps,
            duration_seconds = o.duration_seconds,
            distance_m = o.distance_m,
            first_session_id = o.first_session_id
        from stats_private.stats_output_daily_rollups o
        where o.run_id = p_run.id and o.op = 'u'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.day = o.day;
    end if;
    if (v_operations ->> 'i')::integer > 0 then
        insert into public.user_exercise_daily_rollups (
            user_id, exercise_id, day, sessions, sets, working_sets, reps, volume_kg, top_weight_kg,
            top_weight_reps, best_e1rm_kg, best_set_volume_kg, max_reps, duration_seconds, distance_m,
            first_session_id)
        select
            p_run.user_id, o.exercise_id, o.day, o.sessions, o.sets, o.working_sets, o.reps, o.volume_kg,
            o.top_weight_kg, o.top_weight_reps, o.best_e1rm_kg, o.best_set_volume_kg, o.max_reps,
            o.duration_seconds, o.distance_m, o.first_session_id
        from stats_private.stats_output_daily_rollups o
        where o.run_id = p_run.id and o.op = 'i';
    end if;
    return (v_operations ->> 'd')::integer + (v_operations ->> 'u')::integer + (v_operations ->> 'i')::integer;
end;
$$;

create or replace function stats_private.publish_records(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_operations jsonb := p_run.payload #> '{manifest,records}';
begin
    if (v_operations ->> 'd')::integer > 0 then
        delete from public.user_exercise_records t
        using stats_private.stats_output_records o
        where o.run_id = p_run.id and o.op = 'd'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.kind = o.kind and t.day = o.day;
    end if;
    if (v_operations ->> 'u')::integer > 0 then
        update public.user_exercise_records t
        set
            value = o.value,
            previous_value = o.previous_value,
            is_baseline = o.is_baseline,
            session_id = o.session_id
        from stats_private.stats_output_records o
        where o.run_id = p_run.id and o.op = 'u'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.kind = o.kind and t.day = o.day;
    end if;
    if (v_operations ->> 'i')::integer > 0 then
        insert into public.user_exercise_records (
            user_id, exercise_id, kind, day, value, previous_value, is_baseline, session_id)
        select
            p_run.user_id, o.exercise_id, o.kind, o.day, o.value, o.previous_value, o.is_baseline,
            o.session_id
        from stats_private.stats_output_records o
        where o.run_id = p_run.id and o.op = 'i';
    end if;
    return (v_operations ->> 'd')::integer + (v_operations ->> 'u')::integer + (v_operations ->> 'i')::integer;
end;
$$;

create or replace function stats_private.publish_pr_summaries(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_operations jsonb := p_run.payload #> '{manifest,pr_summaries}';
begin
    if (v_operations ->> 'd')::integer > 0 then
        delete from public.user_pr_exercise_summary_snapshots t
        using stats_private.stats_output_pr_summaries o
        where o.run_id = p_run.id and o.op = 'd'
            and t.user_id = p_run.user_id and t.as_of_date = o.as_of_date and t.exercise_id = o.exercise_id;
    end if;
    if (v_operations ->> 'u')::integer > 0 then
        update public.user_pr_exercise_summary_snapshots t
        set
            best_weight_kg = o.best_weight_kg,
            best_weight_on = o.best_weight_on,
            best_weight_session_id = o.best_weight_session_id,
            best_e1rm_kg = o.best_e1rm_kg,
            best_e1rm_on = o.best_e1rm_on,
            best_e1rm_session_id = o.best_e1rm_session_id,
            one_rm_kg = o.one_rm_kg,
            one_rm_source = o.one_rm_source,
            one_rm_on = o.one_rm_on,
            weight_30d_kg = o.weight_30d_kg,
            e1rm_30d_kg = o.e1rm_30d_kg,
            weight_30d_last_year_kg = o.weight_30d_last_year_kg,
            e1rm_30d_last_year_kg = o.e1rm_30d_last_year_kg,
            last_performed_on = o.last_performed_on,
            sessions_30d = o.sessions_30d,
            records_30d = o.records_30d
        from stats_private.stats_output_pr_summaries o
        where o.run_id = p_run.id and o.op = 'u'
            and t.user_id = p_run.user_id and t.as_of_date = o.as_of_date and t.exercise_id = o.exercise_id;
    end if;
    if (v_operations ->> 'i')::integer > 0 then
        insert into public.user_pr_exercise_summary_snapshots (
            user_id, as_of_date, exercise_id, best_weight_kg, best_weight_on, best_weight_session_id,
            best_e1rm_kg, best_e1rm_on, best_e1rm_session_id, one_rm_kg, one_rm_source, one_rm_on,
            weight_30d_kg, e1rm_30d_kg, weight_30d_last_year_kg, e1rm_30d_last_year_kg, last_performed_on,
            sessions_30d, records_30d)
        select
            p_run.user_id, o.as_of_date, o.exercise_id, o.best_weight_kg, o.best_weight_on,
            o.best_weight_session_id, o.best_e1rm_kg, o.best_e1rm_on, o.best_e1rm_session_id, o.one_rm_kg,
            o.one_rm_source, o.one_rm_on, o.weight_30d_kg, o.e1rm_30d_kg, o.weight_30d_last_year_kg,
            o.e1rm_30d_last_year_kg, o.last_performed_on, o.sessions_30d, o.records_30d
        from stats_private.stats_output_pr_summaries o
        where o.run_id = p_run.id and o.op = 'i';
    end if;
    return (v_operations ->> 'd')::integer + (v_operations ->> 'u')::integer + (v_operations ->> 'i')::integer;
end;
$$;

create or replace function stats_private.publish_rep_maxes(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_operations jsonb := p_run.payload #> '{manifest,rep_maxes}';
begin
    if (v_operations ->> 'd')::integer > 0 then
        delete from public.user_exercise_rep_maxes t
        using stats_private.stats_output_rep_maxes o
        where o.run_id = p_run.id and o.op = 'd'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.reps = o.reps;
    end if;
    if (v_operations ->> 'u')::integer > 0 then
        update public.user_exercise_rep_maxes t
        set
            weight_kg = o.weight_kg,
            achieved_on = o.achieved_on,
            session_id = o.session_id
        from stats_private.stats_output_rep_maxes o
        where o.run_id = p_run.id and o.op = 'u'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.reps = o.reps;
    end if;
    if (v_operations ->> 'i')::integer > 0 then
        insert into public.user_exercise_rep_maxes (
            user_id, exercise_id, reps, weight_kg, achieved_on, session_id)
        select
            p_run.user_id, o.exercise_id, o.reps, o.weight_kg, o.achieved_on, o.session_id
        from stats_private.stats_output_rep_maxes o
        where o.run_id = p_run.id and o.op = 'i';
    end if;
    return (v_operations ->> 'd')::integer + (v_operations ->> 'u')::integer + (v_operations ->> 'i')::integer;
end;
$$;

create or replace function stats_private.publish_rep_max_steps(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_operations jsonb := p_run.payload #> '{manifest,rep_max_steps}';
begin
    if (v_operations ->> 'd')::integer > 0 then
        delete from stats_private.rep_max_steps t
        using stats_private.stats_output_rep_max_steps o
        where o.run_id = p_run.id and o.op = 'd'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.reps = o.reps and t.day = o.day;
    end if;
    if (v_operations ->> 'u')::integer > 0 then
        update stats_private.rep_max_steps t
        set
            weight_kg = o.weight_kg,
            session_id = o.session_id
        from stats_private.stats_output_rep_max_steps o
        where o.run_id = p_run.id and o.op = 'u'
            and t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.reps = o.reps and t.day = o.day;
    end if;
    if (v_operations ->> 'i')::integer > 0 then
        insert into stats_private.rep_max_steps (
            user_id, exercise_id, reps, day, weight_kg, session_id)
        select
            p_run.user_id, o.exercise_id, o.reps, o.day, o.weight_kg, o.session_id
        from stats_private.stats_output_rep_max_steps o
        where o.run_id = p_run.id and o.op = 'i';
    end if;
    return (v_operations ->> 'd')::integer + (v_operations ->> 'u')::integer + (v_operations ->> 'i')::integer;
end;
$$;

create or replace function stats_private.publish_periods(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_operations jsonb := p_run.payload #> '{manifest,periods}';
begin
    if (v_operations ->> 'd')::integer > 0 then
        delete from public.user_training_period_stats t
        using stats_private.stats_output_periods o
        where o.run_id = p_run.id and o.op = 'd'
            and t.user_id = p_run.user_id and t.grain = o.grain and t.period_start = o.period_start;
    end if;
    if (v_operations ->> 'u')::integer > 0 then
        update public.user_training_period_stats t
        set
            sessions = o.sessions,
            active_days = o.active_days,
            duration_seconds = o.duration_seconds,
            exercises = o.exercises,
            working_sets = o.working_sets,
            reps = o.reps,
            volume_kg = o.volume_kg,
            distance_m = o.distance_m,
            record_count = o.record_count
        from stats_private.stats_output_periods o
        where o.run_id = p_run.id and o.op = 'u'
            and t.user_id = p_run.user_id and t.grain = o.grain and t.period_start = o.period_start;
    end if;
    if (v_operations ->> 'i')::integer > 0 then
        insert into public.user_training_period_stats (
            user_id, grain, period_start, sessions, active_days, duration_seconds, exercises, working_sets, reps,
            volume_kg, distance_m, record_count)
        select
            p_run.user_id, o.grain, o.period_start, o.sessions, o.active_days, o.duration_seconds, o.exercises,
            o.working_sets, o.reps, o.volume_kg, o.distance_m, o.record_count
        from stats_private.stats_output_periods o
        where o.run_id = p_run.id and o.op = 'i';
    end if;
    return (v_operations ->> 'd')::integer + (v_operations ->> 'u')::integer + (v_operations ->> 'i')::integer;
end;
$$;

create or replace function stats_private.publish_calendar(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_operations jsonb := p_run.payload #> '{manifest,calendar}';
begin
    if (v_operations ->> 'd')::integer > 0 then
        delete from public.user_calendar_day_summaries t
        using stats_private.stats_output_calendar o
        where o.run_id = p_run.id and o.op = 'd'
            and t.user_id = p_run.user_id and t.day = o.day;
    end if;
    if (v_operations ->> 'u')::integer > 0 then
        update public.user_calendar_day_summaries t
        set
            sessions = o.sessions,
            titles = o.titles,
            exercises = o.exercises,
            working_sets = o.working_sets,
            volume_kg = o.volume_kg,
            duration_seconds = o.duration_seconds,
            record_count = o.record_count
        from stats_private.stats_output_calendar o
        where o.run_id = p_run.id and o.op = 'u'
            and t.user_id = p_run.user_id and t.day = o.day;
    end if;
    if (v_operations ->> 'i')::integer > 0 then
        insert into public.user_calendar_day_summaries (
            user_id, day, sessions, titles, exercises, working_sets, volume_kg, duration_seconds, record_count)
        select
            p_run.user_id, o.day, o.sessions, o.titles, o.exercises, o.working_sets, o.volume_kg,
            o.duration_seconds, o.record_count
        from stats_private.stats_output_calendar o
        where o.run_id = p_run.id and o.op = 'i';
    end if;
    return (v_operations ->> 'd')::integer + (v_operations ->> 'u')::integer + (v_operations ->> 'i')::integer;
end;
$$;
