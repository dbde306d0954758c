-- What makes a run's work worthless while it is under way, and what happens then.
-- Promises: a run goes on only while its policy, and in batches its source, anchor, base, frozen list and private
--   outputs, are those it began with. What explains itself (source, policy, anchor, base) gives the attempt back, all
--   but the source as a rejection does (pipeline/end_attempt.sql); outputs that somebody touched cost one. After
--   max_attempts source invalidations in a row the account is computed in one transaction, so one that is saved all the
--   time still converges.
-- Locks: run row, job rows (of this run; skip locked for others of the account)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, private outputs

-- Says which input moved; null: none.
create or replace function stats_private.invalidation_of(p_run public.user_stats_projection_runs)
returns text
language sql stable
as $$
    select case
        when p_run.policy_version <> (select p.policy_version from public.stats_projection_policy p) then 'policy'
        when b is null then null
        when (b ->> 'source_revision')::bigint <> stats_private.source_revision(p_run.user_id) then 'source'
        when (b ->> 'anchor')::date <> stats_private.utc_today() then 'anchor'
        when p_run.base_version <> (
            select s.applied_version from public.user_stats_refresh_state s where s.user_id = p_run.user_id
        ) then 'base'
        when b -> 'outputs' <> stats_private.output_revision(p_run.id, p_run.lease_token) then 'outputs'
    end
    from (select p_run.payload -> '_batch') x (b)
$$;

-- A fingerprint of what a lease keeps from one step to the next: for each table the number of rows and the sum of the
-- transactions that wrote them, which any insert, delete or update changes.
create or replace function stats_private.output_revision(p_run_id uuid, p_lease_token uuid)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'exercises', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_batch_exercises o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'input_days', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_input_days o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'daily_rollups', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_output_daily_rollups o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'records', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_output_records o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'rep_maxes', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_output_rep_maxes o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'rep_max_steps', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_output_rep_max_steps o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'pr_summaries', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_output_pr_summaries o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'periods', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_output_periods o
            where o.run_id = p_run_id and o.lease_token = p_lease_token),
        'calendar', (
            select jsonb_build_array(count(*), sum(o.xmin::text::bigint)) from stats_private.stats_output_calendar o
            where o.run_id = p_run_id and o.lease_token = p_lease_token))
$$;

-- Ends the attempt; its scope waits again, together with whatever came since. The account's own writes are counted
-- apart: in the end they make it be computed at once.
create or replace function stats_private.invalidate_run(p_run public.user_stats_projection_runs, p_reason text)
returns jsonb
language plpgsql
as $$
declare
    v_ended jsonb;
begin
    if p_reason = 'outputs' then
        v_ended := stats_private.fail_attempt(p_run, '55000', 'invalidated: its private outputs were changed');
    elsif p_reason = 'source' then
        perform stats_private.give_back_attempt(p_run, 'invalidated: source', 0);
        update public.user_exercise_stats_refresh_jobs j
        set metadata = j.metadata || jsonb_build_object(
            'source_invalidations', coalesce((j.metadata ->> 'source_invalidations')::integer, 0) + 1)
        where j.id in (
            select o.id from public.user_exercise_stats_refresh_jobs o
            -- status || '': by the account's index (pipeline/claim.sql).
            where o.user_id = p_run.user_id and o.requested_version <= p_run.target_version
                and o.status || '' = 'pending'
            for update skip locked);
    else
        v_ended := stats_private.reject_run(p_run, 'invalidated: ' || p_reason);
    end if;
    return jsonb_build_object(
        'response', 'invalidated', 'reason', p_reason, 'run_id', p_run.id, 'user_id', p_run.user_id,
        'retry_not_before', v_ended -> 'retry_not_before');
end;
$$;
