-- The one manifest of who may call and read what; a test compares it with the catalog.
-- Promises: nothing is open to PUBLIC or anon; authenticated has its writes, its readers and SELECT on its own
--   canonical rows (row security picks them); service_role has the stages, the settings and the queue besides.
-- Locks: none
-- Writes: nothing
alter default privileges for role stats_refresh_owner revoke execute on functions from public;
revoke all on all functions in schema stats_private from public;
revoke all on all tables in schema stats_private from public;
revoke all on schema stats_private from public;

revoke all on function public.save_session_v5(jsonb) from public;
revoke all on function public.delete_session_v5(uuid, uuid, uuid) from public;
revoke all on function public.upsert_exercise_v1(text, text, uuid, text, boolean) from public;
revoke all on function public.archive_exercise_v1(text, uuid) from public;
revoke all on function public.resolve_external_exercise_v1(text, text, text, text, uuid) from public;
revoke all on function public.set_manual_pr_v1(text, numeric, date, text, uuid, uuid) from public;
revoke all on function public.delete_manual_pr_v1(uuid, uuid, uuid) from public;
revoke all on function public.delete_account_v1(uuid) from public;
revoke all on function public.save_workout_v4(jsonb) from public;
revoke all on function public.update_completed_session_v4(jsonb) from public;
revoke all on function public.update_completed_session_v4(uuid, jsonb) from public;
revoke all on function public.delete_completed_session_v4(jsonb) from public;
revoke all on function public.delete_completed_session_v4(uuid) from public;
revoke all on function public.delete_completed_session_v4(text) from public;
revoke all on function public.enqueue_user_exercise_stats_refresh(uuid, date, text [], text) from public;
revoke all on function public.get_pr_overview(date, uuid) from public;
revoke all on function public.enqueue_user_exercise_stats_refresh_job(
    uuid, date, text [], text, text, text, jsonb, integer, boolean) from public;
revoke all on function public.stats_projection_statement_budget_v1(text) from public;
revoke all on function public.stats_projection_claim_v1(text) from public;
revoke all on function public.stats_projection_compute_v1(uuid, uuid, integer) from public;
revoke all on function public.stats_projection_publish_v1(uuid, uuid) from public;
revoke all on function public.stats_projection_worker_status_v1() from public;

grant execute on function public.save_session_v5(jsonb) to authenticated;
grant execute on function public.delete_session_v5(uuid, uuid, uuid) to authenticated;
grant execute on function public.upsert_exercise_v1(text, text, uuid, text, boolean) to authenticated;
grant execute on function public.archive_exercise_v1(text, uuid) to authenticated;
grant execute on function public.resolve_external_exercise_v1(text, text, text, text, uuid) to authenticated;
grant execute on function public.set_manual_pr_v1(text, numeric, date, text, uuid, uuid) to authenticated;
grant execute on function public.delete_manual_pr_v1(uuid, uuid, uuid) to authenticated;
grant execute on function public.delete_account_v1(uuid) to service_role;
grant execute on function public.save_workout_v4(jsonb) to authenticated;
grant execute on function public.update_completed_session_v4(jsonb) to authenticated;
grant execute on function public.update_completed_session_v4(uuid, jsonb) to authenticated;
grant execute on function public.delete_completed_session_v4(jsonb) to authenticated;
grant execute on function public.delete_completed_session_v4(uuid) to authenticated;
grant execute on function public.delete_completed_session_v4(text) to authenticated;
grant execute on function public.enqueue_user_exercise_stats_refresh(uuid, date, text [], text)
to authenticated, service_role;
grant execute on function public.get_pr_overview(date, uuid) to authenticated, service_role;
grant execute on function public.stats_projection_worker_status_v1() to authenticated, service_role;

grant execute on function public.enqueue_user_exercise_stats_refresh_job(
    uuid, date, text [], text, text, text, jsonb, integer, boolean) to service_role;
grant execute on function public.stats_projection_statement_budget_v1(text) to service_role;
grant execute on function public.stats_projection_claim_v1(text) to service_role;
grant execute on function public.stats_projection_compute_v1(uuid, uuid, integer) to service_role;
grant execute on function public.stats_projection_publish_v1(uuid, uuid) to service_role;

revoke all on function public.update_stats_projection_settings_v1(jsonb) from public;
revoke all on function public.pause_stats_stages_v1(text [], boolean) from public;
revoke all on function public.stats_projection_resume_job_v1(uuid) from public;
grant execute on function public.update_stats_projection_settings_v1(jsonb) to authenticated, service_role;
grant execute on function public.pause_stats_stages_v1(text [], boolean) to authenticated, service_role;
grant execute on function public.stats_projection_resume_job_v1(uuid) to authenticated, service_role;

revoke all on function public.get_volume_overview(date, text, uuid) from public;
revoke all on function public.get_home_overview(date, uuid) from public;
revoke all on function public.get_pr_detail(text, date, uuid) from public;
revoke all on function public.get_calendar_month(date, uuid) from public;
revoke all on function public.update_stats_projection_policy_v1(text, integer, integer) from public;
revoke all on function public.validate_user_exercise_stats_integrity(uuid) from public;
revoke all on function public.refresh_user_exercise_stats_from(uuid, date, text []) from public;
revoke all on function public.refresh_user_pr_overview_snapshot_window(uuid) from public;
grant execute on function public.get_volume_overview(date, text, uuid) to authenticated, service_role;
grant execute on function public.get_home_overview(date, uuid) to authenticated, service_role;
grant execute on function public.get_pr_detail(text, date, uuid) to authenticated, service_role;
grant execute on function public.get_calendar_month(date, uuid) to authenticated, service_role;
grant execute on function public.update_stats_projection_policy_v1(text, integer, integer)
to authenticated, service_role;
grant execute on function public.validate_user_exercise_stats_integrity(uuid) to authenticated, service_role;
grant execute on function public.refresh_user_exercise_stats_from(uuid, date, text []) to service_role;
grant execute on function public.refresh_user_pr_overview_snapshot_window(uuid) to service_role;

revoke all on function public.refresh_stats_now_v1(uuid) from public;
grant execute on function public.refresh_stats_now_v1(uuid) to authenticated, service_role;
revoke all on function public.import_wodup_batch_to_canonical(jsonb) from public;
grant execute on function public.import_wodup_batch_to_canonical(jsonb) to authenticated, service_role;

revoke all on function public.imported_workouts_v1(text, uuid) from public;
revoke all on function public.save_imported_session_v1(jsonb, jsonb) from public;
revoke all on function public.remember_imported_workouts_v1(text, jsonb, uuid) from public;
revoke all on function public.import_exercises_v1(text, jsonb, uuid) from public;
revoke all on function public.take_import_turn_v1(boolean, uuid) from public;
revoke all on function public.import_exercise_v1(text, text, text, boolean, uuid) from public;
grant execute on function public.imported_workouts_v1(text, uuid) to authenticated;
grant execute on function public.save_imported_session_v1(jsonb, jsonb) to authenticated;
grant execute on function public.remember_imported_workouts_v1(text, jsonb, uuid) to authenticated;
grant execute on function public.import_exercises_v1(text, jsonb, uuid) to authenticated;
grant execute on function public.take_import_turn_v1(boolean, uuid) to authenticated;
grant execute on function public.import_exercise_v1(text, text, text, boolean, uuid) to authenticated;

revoke all on function public.stats_refresh_release_v1() from public;
grant execute on function public.stats_refresh_release_v1() to service_role;

revoke all on function public.stats_try_beat_lock_v1(text) from public;
revoke all on function public.record_stats_cron_run_v1(
    text, text, text, text, jsonb, text, timestamptz) from public;
revoke all on function public.purge_stats_history_v1(integer) from public;
revoke all on function public.run_user_pr_overview_rollover_v1(integer) from public;
revoke all on function public.run_stats_catalog_walk_v1(integer) from public;
revoke all on function public.enqueue_stale_user_exercise_stats_refresh_jobs(integer) from public;
revoke all on function public.run_user_exercise_stats_backfill_scan_cron(integer) from public;
grant execute on function public.stats_try_beat_lock_v1(text) to service_role;
grant execute on function public.record_stats_cron_run_v1(
    text, text, text, text, jsonb, text, timestamptz) to service_role;
grant execute on function public.purge_stats_history_v1(integer) to service_role;
grant execute on function public.run_user_pr_overview_rollover_v1(integer) to service_role;
grant execute on function public.run_stats_catalog_walk_v1(integer) to service_role;
grant execute on function public.enqueue_stale_user_exercise_stats_refresh_jobs(integer) to service_role;
grant execute on function public.run_user_exercise_stats_backfill_scan_cron(integer) to service_role;

revoke all on function public.stats_projection_jobs_v1(text [], integer) from public;
revoke all on function public.stats_cron_history_v1(text, boolean, integer) from public;
revoke all on function public.stats_projection_settings_v1() from public;
revoke all on function public.stats_accounts_v1(uuid, integer) from public;
revoke all on function public.stats_account_standing_v1(uuid) from public;
revoke all on function public.stats_account_freshness_v1(uuid) from public;
grant execute on function public.stats_projection_jobs_v1(text [], integer) to authenticated, service_role;
grant execute on function public.stats_cron_history_v1(text, boolean, integer) to authenticated, service_role;
grant execute on function public.stats_projection_settings_v1() to authenticated, service_role;
grant execute on function public.stats_accounts_v1(uuid, integer) to authenticated, service_role;
grant execute on function public.stats_account_standing_v1(uuid) to authenticated, service_role;
grant execute on function public.stats_account_freshness_v1(uuid) to authenticated, service_role;

-- The same for drivers that send json or text (writes/json_arguments.sql).
revoke all on function public.save_session_v5(json) from public;
revoke all on function public.save_session_v5(text) from public;
revoke all on function public.import_wodup_batch_to_canonical(json) from public;
revoke all on function public.import_wodup_batch_to_canonical(text) from public;
revoke all on function public.update_stats_projection_settings_v1(json) from public;
revoke all on function public.update_stats_projection_settings_v1(text) from public;
revoke all on function public.save_workout_v4(json) from public;
revoke all on function public.save_workout_v4(text) from public;
revoke all on function public.update_completed_session_v4(json) from public;
revoke all on function public.update_completed_session_v4(text) from public;
revoke all on function public.update_completed_session_v4(uuid, json) from public;
revoke all on function public.update_completed_session_v4(uuid, text) from public;
revoke all on function public.delete_completed_session_v4(json) from public;
revoke all on function public.enqueue_user_exercise_stats_refresh_job(
    uuid, date, text [], text, text, text, json, integer, boolean) from public;
revoke all on function public.enqueue_user_exercise_stats_refresh_job(
    uuid, date, text [], text, text, text, text, integer, boolean) from public;
grant execute on function public.save_session_v5(json) to authenticated;
grant execute on function public.save_session_v5(text) to authenticated;
grant execute on function public.import_wodup_batch_to_canonical(json) to authenticated, service_role;
grant execute on function public.import_wodup_batch_to_canonical(text) to authenticated, service_role;
grant execute on function public.update_stats_projection_settings_v1(json) to authenticated, service_role;
grant execute on function public.update_stats_projection_settings_v1(text) to authenticated, service_role;
grant execute on function public.save_workout_v4(json) to authenticated;
grant execute on function public.save_workout_v4(text) to authenticated;
grant execute on function public.update_completed_session_v4(json) to authenticated;
grant execute on function public.update_completed_session_v4(text) to authenticated;
grant execute on function public.update_completed_session_v4(uuid, json) to authenticated;
grant execute on function public.update_completed_session_v4(uuid, text) to authenticated;
grant execute on function public.delete_completed_session_v4(json) to authenticated;
grant execute on function public.enqueue_user_exercise_stats_refresh_job(
    uuid, date, text [], text, text, text, json, integer, boolean) to service_role;
grant execute on function public.enqueue_user_exercise_stats_refresh_job(
    uuid, date, text [], text, text, text, text, integer, boolean) to service_role;

grant select on
public.exercises, public.exercise_external_mappings, public.workout_sessions, public.session_exercise_part,
public.session_sets, public.user_manual_pr_records to authenticated;
-- By name: what else is in public is the app's, and often another role's.
grant select on
public.exercises, public.exercise_external_mappings, public.workout_sessions, public.session_exercise_part,
public.session_sets, public.user_manual_pr_records, public.stats_mutation_receipts, public.stats_refresh_event_types,
public.user_stats_refresh_state, public.user_exercise_stats_refresh_jobs, public.stats_projection_worker_settings,
public.stats_projection_policy, public.user_stats_projection_runs, public.user_exercise_daily_rollups,
public.user_exercise_records, public.user_exercise_rep_maxes, public.user_training_period_stats,
public.user_calendar_day_summaries, public.user_pr_overview_snapshot_headers,
public.user_pr_exercise_summary_snapshots, public.cron_run_history, public.stats_maintenance_cursors,
public.user_pr_overview_rollover_state, public.pr_overview_projection_control, public.exercise_catalog_changes,
public.stats_catalog_scopes, public.stats_refresh_schema_version to service_role;

revoke all on function public.process_user_exercise_stats_refresh_jobs(integer, boolean, text) from public;
revoke all on function public.process_user_exercise_stats_refresh_jobs_for_user(
    uuid, integer, boolean, text) from public;
grant execute on function public.process_user_exercise_stats_refresh_jobs(integer, boolean, text)
to authenticated, service_role;
grant execute on function public.process_user_exercise_stats_refresh_jobs_for_user(uuid, integer, boolean, text)
to authenticated, service_role;
