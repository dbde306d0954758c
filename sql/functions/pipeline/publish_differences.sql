-- Applies a run's differences to the read models, one function a read model -> rows written
-- Promises: one statement for each read model that has differences, none for the others. What the manifest announces
--   is written, row for row: an error (55000), so a failed attempt, where a published row is not what the differences
--   were computed from. The caller holds the run row and the account's write lock, and has compared the manifest with
--   the outputs.
-- Locks: read models
-- Writes: user_exercise_daily_rollups, user_exercise_records, user_exercise_rep_maxes, rep_max_steps,
--   user_pr_exercise_summary_snapshots, user_training_period_stats, user_calendar_day_summaries

create or replace function stats_private.publish_daily_rollups(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_announced integer := stats_private.announced(p_run.payload #> '{manifest,daily_rollups}');
    v_written integer;
begin
    if v_announced = 0 then
        return 0;
    end if;
    merge into public.user_exercise_daily_rollups t
    using (select * from stats_private.stats_output_daily_rollups x where x.run_id = p_run.id) o
    on t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.day = o.day
    when matched and o.op = 'd' then
        delete
    when matched and o.op = 'u' then
        update set
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
    when not matched and o.op = 'i' then
        insert (
            user_id, exercise_id, day, sessions, sets, working_sets, reps, volume_kg, top_weight_kg, top_weight_reps,
            best_e1rm_kg, best_set_volume_kg, max_reps, duration_seconds, distance_m, first_session_id)
        values (
            p_run.user_id, o.exercise_id, o.day, o.sessions, o.sets, o.working_sets, o.reps, o.volume_kg,
            o.top_weight_kg, o.top_weight_reps, o.best_e1rm_kg, o.best_set_volume_kg, o.max_reps, o.duration_seconds,
            o.distance_m, o.first_session_id);
    get diagnostics v_written = row_count;
    return stats_private.all_written('daily_rollups', v_announced, v_written);
end;
$$;

create or replace function stats_private.publish_records(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_announced integer := stats_private.announced(p_run.payload #> '{manifest,records}');
    v_written integer;
begin
    if v_announced = 0 then
        return 0;
    end if;
    merge into public.user_exercise_records t
    using (select * from stats_private.stats_output_records x where x.run_id = p_run.id) o
    on t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.kind = o.kind and t.day = o.day
    when matched and o.op = 'd' then
        delete
    when matched and o.op = 'u' then
        update set
            value = o.value,
            previous_value = o.previous_value,
            is_baseline = o.is_baseline,
            session_id = o.session_id
    when not matched and o.op = 'i' then
        insert (
            user_id, exercise_id, kind, day, value, previous_value, is_baseline, session_id)
        values (
            p_run.user_id, o.exercise_id, o.kind, o.day, o.value, o.previous_value, o.is_baseline, o.session_id);
    get diagnostics v_written = row_count;
    return stats_private.all_written('records', v_announced, v_written);
end;
$$;

create or replace function stats_private.publish_pr_summaries(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_announced integer := stats_private.announced(p_run.payload #> '{manifest,pr_summaries}');
    v_written integer;
begin
    if v_announced = 0 then
        return 0;
    end if;
    merge into public.user_pr_exercise_summary_snapshots t
    using (select * from stats_private.stats_output_pr_summaries x where x.run_id = p_run.id) o
    on t.user_id = p_run.user_id and t.as_of_date = o.as_of_date and t.exercise_id = o.exercise_id
    when matched and o.op = 'd' then
        delete
    when matched and o.op = 'u' then
        update set
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
    when not matched and o.op = 'i' then
        insert (
            user_id, as_of_date, exercise_id, best_weight_kg, best_weight_on, best_weight_session_id, best_e1rm_kg,
            best_e1rm_on, best_e1rm_session_id, one_rm_kg, one_rm_source, one_rm_on, weight_30d_kg, e1rm_30d_kg,
            weight_30d_last_year_kg, e1rm_30d_last_year_kg, last_performed_on, sessions_30d, records_30d)
        values (
            p_run.user_id, o.as_of_date, o.exercise_id, o.best_weight_kg, o.best_weight_on, o.best_weight_session_id,
            o.best_e1rm_kg, o.best_e1rm_on, o.best_e1rm_session_id, o.one_rm_kg, o.one_rm_source, o.one_rm_on,
            o.weight_30d_kg, o.e1rm_30d_kg, o.weight_30d_last_year_kg, o.e1rm_30d_last_year_kg, o.last_performed_on,
            o.sessions_30d, o.records_30d);
    get diagnostics v_written = row_count;
    return stats_private.all_written('pr_summaries', v_announced, v_written);
end;
$$;

create or replace function stats_private.publish_rep_maxes(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_announced integer := stats_private.announced(p_run.payload #> '{manifest,rep_maxes}');
    v_written integer;
begin
    if v_announced = 0 then
        return 0;
    end if;
    merge into public.user_exercise_rep_maxes t
    using (select * from stats_private.stats_output_rep_maxes x where x.run_id = p_run.id) o
    on t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.reps = o.reps
    when matched and o.op = 'd' then
        delete
    when matched and o.op = 'u' then
        update set
            weight_kg = o.weight_kg,
            achieved_on = o.achieved_on,
            session_id = o.session_id
    when not matched and o.op = 'i' then
        insert (
            user_id, exercise_id, reps, weight_kg, achieved_on, session_id)
        values (
            p_run.user_id, o.exercise_id, o.reps, o.weight_kg, o.achieved_on, o.session_id);
    get diagnostics v_written = row_count;
    return stats_private.all_written('rep_maxes', v_announced, v_written);
end;
$$;

create or replace function stats_private.publish_rep_max_steps(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_announced integer := stats_private.announced(p_run.payload #> '{manifest,rep_max_steps}');
    v_written integer;
begin
    if v_announced = 0 then
        return 0;
    end if;
    merge into stats_private.rep_max_steps t
    using (select * from stats_private.stats_output_rep_max_steps x where x.run_id = p_run.id) o
    on t.user_id = p_run.user_id and t.exercise_id = o.exercise_id and t.reps = o.reps and t.day = o.day
    when matched and o.op = 'd' then
        delete
    when matched and o.op = 'u' then
        update set
            weight_kg = o.weight_kg,
            session_id = o.session_id
    when not matched and o.op = 'i' then
        insert (
            user_id, exercise_id, reps, day, weight_kg, session_id)
        values (
            p_run.user_id, o.exercise_id, o.reps, o.day, o.weight_kg, o.session_id);
    get diagnostics v_written = row_count;
    return stats_private.all_written('rep_max_steps', v_announced, v_written);
end;
$$;

create or replace function stats_private.publish_periods(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_announced integer := stats_private.announced(p_run.payload #> '{manifest,periods}');
    v_written integer;
begin
    if v_announced = 0 then
        return 0;
    end if;
    merge into public.user_training_period_stats t
    using (select * from stats_private.stats_output_periods x where x.run_id = p_run.id) o
    on t.user_id = p_run.user_id and t.grain = o.grain and t.period_start = o.period_start
    when matched and o.op = 'd' then
        delete
    when matched and o.op = 'u' then
        update set
            sessions = o.sessions,
            active_days = o.active_days,
            duration_seconds = o.duration_seconds,
            exercises = o.exercises,
            working_sets = o.working_sets,
            reps = o.reps,
            volume_kg = o.volume_kg,
            distance_m = o.distance_m,
            record_count = o.record_count
    when not matched and o.op = 'i' then
        insert (
            user_id, grain, period_start, sessions, active_days, duration_seconds, exercises, working_sets, reps,
            volume_kg, distance_m, record_count)
        values (
            p_run.user_id, o.grain, o.period_start, o.sessions, o.active_days, o.duration_seconds, o.exercises,
            o.working_sets, o.reps, o.volume_kg, o.distance_m, o.record_count);
    get diagnostics v_written = row_count;
    return stats_private.all_written('periods', v_announced, v_written);
end;
$$;

create or replace function stats_private.publish_calendar(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_announced integer := stats_private.announced(p_run.payload #> '{manifest,calendar}');
    v_written integer;
begin
    if v_announced = 0 then
        return 0;
    end if;
    merge into public.user_calendar_day_summaries t
    using (select * from stats_private.stats_output_calendar x where x.run_id = p_run.id) o
    on t.user_id = p_run.user_id and t.day = o.day
    when matched and o.op = 'd' then
        delete
    when matched and o.op = 'u' then
        update set
            sessions = o.sessions,
            titles = o.titles,
            exercises = o.exercises,
            working_sets = o.working_sets,
            volume_kg = o.volume_kg,
            duration_seconds = o.duration_seconds,
            record_count = o.record_count
    when not matched and o.op = 'i' then
        insert (
            user_id, day, sessions, titles, exercises, working_sets, volume_kg, duration_seconds, record_count)
        values (
            p_run.user_id, o.day, o.sessions, o.titles, o.exercises, o.working_sets, o.volume_kg, o.duration_seconds,
            o.record_count);
    get diagnostics v_written = row_count;
    return stats_private.all_written('calendar', v_announced, v_written);
end;
$$;

-- The number of differences that a manifest announces for a read model.
create or replace function stats_private.announced(p_operations jsonb)
returns integer
language sql immutable
as $$
    select (p_operations ->> 'i')::integer + (p_operations ->> 'u')::integer + (p_operations ->> 'd')::integer
$$;

-- Returns the number of rows written where it is the number announced.
create or replace function stats_private.all_written(p_read_model text, p_announced integer, p_written integer)
returns integer
language plpgsql immutable
as $$
begin
    if p_written <> p_announced then
        raise exception using errcode = '55000', message = format(
            '%s: %s of %s differences fit the published rows; the others were computed from something else',
            p_read_model, p_written, p_announced);
    end if;
    return p_written;
end;
$$;
