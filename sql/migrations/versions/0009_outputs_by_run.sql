-- Private outputs are keyed by the run alone: an attempt is a run of its own, which has one token from its claim to its end.

-- The tables hold what is being computed now, so a key is built in a moment; nobody but the stages reads the column or
-- calls the function.
-- squawk-ignore-file ban-drop-column, constraint-missing-not-valid, adding-serial-primary-key-field, ban-drop-function

-- Rows under another token than their run's are nobody's, and would stand in the way of the new keys.
delete from stats_private.stats_batch_exercises o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_input_days o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_output_daily_rollups o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_output_records o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_output_rep_maxes o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_output_rep_max_steps o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_output_pr_summaries o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_output_periods o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);
delete from stats_private.stats_output_calendar o where not exists (
    select from public.user_stats_projection_runs r where r.id = o.run_id and r.lease_token = o.lease_token
);

-- Dropping the column drops the old key.
alter table stats_private.stats_batch_exercises
drop column lease_token,
add constraint stats_batch_exercises_pkey primary key (run_id, position);
alter table stats_private.stats_input_days
drop column lease_token,
add constraint stats_input_days_pkey primary key (run_id, day);
alter table stats_private.stats_output_daily_rollups
drop column lease_token,
add constraint stats_output_daily_rollups_pkey primary key (run_id, exercise_id, day);
alter table stats_private.stats_output_records
drop column lease_token,
add constraint stats_output_records_pkey primary key (run_id, exercise_id, kind, day);
alter table stats_private.stats_output_rep_maxes
drop column lease_token,
add constraint stats_output_rep_maxes_pkey primary key (run_id, exercise_id, reps);
alter table stats_private.stats_output_rep_max_steps
drop column lease_token,
add constraint stats_output_rep_max_steps_pkey primary key (run_id, exercise_id, reps, day);
alter table stats_private.stats_output_pr_summaries
drop column lease_token,
add constraint stats_output_pr_summaries_pkey primary key (run_id, as_of_date, exercise_id);
alter table stats_private.stats_output_periods
drop column lease_token,
add constraint stats_output_periods_pkey primary key (run_id, grain, period_start);
alter table stats_private.stats_output_calendar
drop column lease_token,
add constraint stats_output_calendar_pkey primary key (run_id, day);

-- It returns something now, which no replacement of a function can change.
drop function if exists stats_private.delete_outputs(uuid);
