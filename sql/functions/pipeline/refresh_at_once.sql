-- public.refresh_user_exercise_stats_from(user_id, from_date, exercise_ids)
--   -> {response: published | deferred | the stage's own answer, statsRequestedVersion, user_id, reason, ...}
-- Promises: the engine at once: requests a refresh of that scope and makes one attempt at it, as refresh_at_once says.
--   Applications enqueue instead: this holds up the account's saves until the commit, and it is not bounded by
--   active_lease_cap. Service only (42501); raises 22023 for a date outside of the years 1 to 9999.
-- Locks: worker (try), run row (its own: inserted here), write, state row, job rows (skip locked), read models,
--   canonical rows (key share, by the foreign keys), rollover rows (the account's)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs,
--   read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state
create or replace function public.refresh_user_exercise_stats_from(
    p_user_id uuid, p_from_date date default null, p_exercise_ids text [] default '{}'
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return stats_private.run_engine(
        p_user_id, p_from_date, p_exercise_ids, 'manual_refresh', 'refresh_user_exercise_stats_from', false);
end;
$$;

-- public.refresh_user_pr_overview_snapshot_window(user_id)
--   -> {response: published | deferred | the stage's own answer, statsRequestedVersion, user_id, reason, ...}
-- Promises: the three snapshot days around the UTC date at once, from published rows: requests a window-only refresh
--   and makes one attempt at everything of the account that waits, as refresh_at_once says. The rollover requests the
--   same by itself. Service only (42501).
-- Locks: worker (try), run row (its own: inserted here), write, state row, job rows (skip locked), read models,
--   canonical rows (key share, by the foreign keys), rollover rows (the account's)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs,
--   read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state
create or replace function public.refresh_user_pr_overview_snapshot_window(p_user_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return stats_private.run_engine(
        p_user_id, null, '{}', 'pr_snapshot_rollover', 'refresh_user_pr_overview_snapshot_window', true);
end;
$$;

-- What the two have in common: one request, and one attempt at all that waits.
create or replace function stats_private.run_engine(
    p_user_id uuid, p_from_date date, p_exercise_ids text [], p_event_type text, p_caller text, p_window_only boolean
)
returns jsonb
language plpgsql
as $$
declare
    v_is_ours boolean;
    v_generation bigint;
begin
    if not stats_private.is_service() then
        raise exception using errcode = '42501', message = 'only service runs the engine; enqueue a refresh instead';
    end if;
    -- Before the write lock: everybody takes the two in this order.
    v_is_ours := stats_private.try_worker_lock(p_user_id);
    v_generation := public.enqueue_user_exercise_stats_refresh_job(
        p_user_id, p_from_date, p_exercise_ids, p_event_type, p_reason => p_caller, p_window_only => p_window_only);
    return stats_private.refresh_at_once(p_user_id, v_is_ours, p_caller)
        || jsonb_build_object('user_id', p_user_id, 'statsRequestedVersion', v_generation);
end;
$$;

-- stats_private.refresh_at_once(user_id, is_ours, lock_owner)
--   -> {response: published | deferred | failed | another answer of compute or publish, reason, ...}
-- Promises: one attempt, in this transaction, at everything of the account that waits. Where somebody is at work on
--   it (busy), a stage is paused, the transaction is not READ COMMITTED (isolation), or the account is computed in
--   batches, which take a transaction each, the answer is `deferred` and the request stands; a run in batches is claimed
--   here, with a live lease, and the compute beat goes on with it. A run that met a lock answers `busy`, and claim goes
--   on with it. Only a person's cancel is raised: whatever else fails, what the caller wrote stays and what it
--   requested waits again.
-- Locks: run row (its own: inserted here), job rows (skip locked), read models,
--   canonical rows (key share, by the foreign keys), rollover rows (the account's), state row
--   (the caller holds write, and worker where is_ours)
-- Writes: user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs, read models,
--   user_pr_overview_snapshot_headers, user_pr_overview_rollover_state, user_stats_refresh_state
create or replace function stats_private.refresh_at_once(p_user_id uuid, p_is_ours boolean, p_lock_owner text)
returns jsonb
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
    v_sqlstate text;
    v_error text;
    v_constraint text;
begin
    -- Asked first: a run that is claimed for a paused stage would only use up its lease.
    if stats_private.stage_is_paused('claim') or stats_private.stage_is_paused('compute')
        or stats_private.stage_is_paused('publish')
    then
        return '{"response": "deferred", "reason": "paused"}';
    elsif not stats_private.is_read_committed() then
        -- What the caller wrote stands; the stages would refuse.
        return '{"response": "deferred", "reason": "isolation"}';
    elsif not p_is_ours or exists (
        select from public.user_stats_projection_runs r
        where r.user_id = p_user_id and r.phase in ('claimed', 'computed'))
    then
        return '{"response": "deferred", "reason": "busy"}';
    end if;
    -- The stages record their own failures; this is for what fails outside them.
    begin
        v_run := stats_private.claim_account(p_user_id, p_lock_owner);
        if v_run.id is null then
            return '{"response": "deferred", "reason": "busy"}';
        elsif v_run.needs_batches then
            return '{"response": "deferred", "reason": "batches"}';
        end if;
        return stats_private.attempt_at_once(v_run);
    exception
        when query_canceled or others then
            if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                raise;
            end if;
            get stacked diagnostics
                v_sqlstate = returned_sqlstate, v_error = message_text, v_constraint = constraint_name;
    end;
    if stats_private.is_contention(v_sqlstate, v_constraint) then
        return '{"response": "deferred", "reason": "busy"}';
    end if;
    return jsonb_build_object('response', 'failed', 'sqlstate', v_sqlstate, 'error', v_error);
end;
$$;

-- Compute, and publish where it was computed, in this transaction: their answers in one, without the token.
create or replace function stats_private.attempt_at_once(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    v_answer jsonb := public.stats_projection_compute_v1(p_run.id, p_run.lease_token);
begin
    if v_answer ->> 'response' = 'computed' then
        v_answer := v_answer || public.stats_projection_publish_v1(p_run.id, p_run.lease_token);
    end if;
    return v_answer - 'lease_token';
end;
$$;
