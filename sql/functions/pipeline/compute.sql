-- public.stats_projection_compute_v1(run_id, lease_token, expected_offset)
--   -> {response: computed | batch_pending | retry_pending | failed | invalidated | busy | idle | lease_lost | paused,
--       run_id, lease_token, user_id, ...}
-- Promises: leaves the differences between the published rows and what the canonical rows say, in the private
--   outputs of this run; no read model changes. An account of more than batch_size exercises takes one step a
--   transaction (pipeline/batches.sql). A failure rolls the step back and records the attempt in the same
--   transaction. Without arguments: the oldest claimed run that nobody holds. With expected_offset: only where the
--   run stands there, so a doubled message of a chain dies. Busy: others hold what it needs; nothing is lost or counted,
--   and the run comes back after a wait (runs/waiting.sql). Raises on a person's cancel (57014 that is not the
--   statement timeout) and 25000 outside of READ COMMITTED.
-- Locks: run row (skip locked, held to the end), job rows (skip locked)
-- Writes: private outputs, user_stats_projection_runs, user_exercise_stats_refresh_jobs
-- Next: projection/project.sql
create or replace function public.stats_projection_compute_v1(
    p_run_id uuid default null, p_lease_token uuid default null, p_expected_offset integer default null
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- A plan is kept as long as its connection, and may have been made when the tables were empty.
set enable_seqscan = off
set jit = off
-- The server would plan some statements at each call, which costs more than what they do.
set plan_cache_mode = force_generic_plan
as $$
declare
    v_started_at timestamptz := clock_timestamp();
    v_settings public.stats_projection_worker_settings;
    v_policy public.stats_projection_policy;
    v_taken record;
    v_run public.user_stats_projection_runs;
    v_token text;
    v_invalidation text;
    v_sqlstate text;
    v_error text;
    v_constraint text;
begin
    perform stats_private.require_read_committed();
    select s.* into v_settings from public.stats_projection_worker_settings s;
    if 'compute' = any (v_settings.paused_stages) then
        return jsonb_build_object('response', 'paused');
    end if;
    v_taken := stats_private.take_run('claimed', p_run_id, p_lease_token);
    if v_taken.refusal is not null then
        return jsonb_build_object('response', v_taken.refusal);
    end if;
    v_run := v_taken.run;
    if p_expected_offset is distinct from (v_run.payload #>> '{_batch,next_offset}')::integer
        and p_expected_offset is not null
    then
        return jsonb_build_object('response', 'idle', 'user_id', v_run.user_id);
    elsif v_run.payload #>> '{_batch,xid}' = pg_current_xact_id()::text then
        return stats_private.batch_pending(v_run) || '{"reason": "transaction_boundary_required"}';
    end if;

    v_token := stats_private.declare_lease(v_run.lease_token);
    begin
        select p.* into v_policy from public.stats_projection_policy p;
        v_invalidation := stats_private.invalidation_of(v_run, v_policy.policy_version);
        if v_invalidation is null then
            return stats_private.record_step(
                stats_private.compute_step(v_run, v_settings.batch_size, v_policy), v_started_at,
                v_settings.lease_seconds);
        end if;
    exception
        when query_canceled or others then
            if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                raise;
            end if;
            get stacked diagnostics
                v_sqlstate = returned_sqlstate, v_error = message_text, v_constraint = constraint_name;
    end;
    if stats_private.is_contention(v_sqlstate, v_constraint) then
        return stats_private.wait_for_others(v_run, v_sqlstate, v_error);
    elsif v_sqlstate = '57014' and v_run.payload ? '_batch' and stats_private.batch_may_retry(v_run) then
        return stats_private.retry_batch(v_run, v_sqlstate, v_error);
    elsif not stats_private.try_lock_jobs(v_run.id) then
        return stats_private.wait_for_others(v_run, '55P03', 'somebody holds a job of the run');
    elsif v_invalidation is not null then
        return stats_private.invalidate_run(v_run, v_invalidation);
    end if;
    return stats_private.fail_attempt(v_run, v_sqlstate, v_error);
end;
$$;

-- Does what the run's next step is, all at once or one step of a batched one -> the run as it stands then
create or replace function stats_private.compute_step(
    p_run public.user_stats_projection_runs, p_batch_size integer, p_policy public.stats_projection_policy
)
returns public.user_stats_projection_runs
language plpgsql
as $$
begin
    if not p_run.needs_batches then
        return stats_private.compute_at_once(p_run, p_policy);
    elsif not p_run.payload ? '_batch' then
        return stats_private.prepare_batches(p_run);
    elsif p_run.payload #>> '{_batch,stage}' = 'exercises' then
        return stats_private.compute_batch(p_run, p_batch_size, p_policy);
    end if;
    return stats_private.finalize_batches(p_run, p_policy);
end;
$$;

-- Projects the run's whole scope. The run is an attempt of its own, so it has no outputs yet.
create or replace function stats_private.compute_at_once(
    p_run public.user_stats_projection_runs, p_policy public.stats_projection_policy
)
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_from_date date := case when p_run.window_only then 'infinity' else coalesce(p_run.from_date, '-infinity') end;
    v_exercise_ids text [] := case
        when p_run.window_only then '{}'
        else array(select c.exercise_id from stats_private.candidate_exercises(p_run.user_id, p_run.exercise_ids) c)
    end;
    v_window_ids text [] := '{}';
begin
    -- Midnight may have passed since the claim.
    p_run.anchor := stats_private.utc_today();
    if p_run.window_only or stats_private.published_anchor(p_run.user_id) is distinct from p_run.anchor then
        v_window_ids := array(
            select w.exercise_id from stats_private.window_exercises(p_run.user_id) w
            except
            select i.exercise_id from unnest(v_exercise_ids) i (exercise_id));
    end if;
    perform stats_private.project(
        p_run.id, p_run.user_id, p_policy, v_from_date, v_exercise_ids, v_window_ids, p_run.anchor);
    perform stats_private.project_account(p_run.id, p_run.user_id, p_policy, v_from_date);
    p_run.phase := 'computed';
    return p_run;
end;
$$;

-- Writes how the run stands after its step, and what its outputs are then, renews its lease, and answers. One update, of
-- a row that nobody reads between.
create or replace function stats_private.record_step(
    p_run public.user_stats_projection_runs, p_started_at timestamptz, p_lease_seconds integer
)
returns jsonb
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
begin
    update public.user_stats_projection_runs r
    set phase = p_run.phase,
        anchor = p_run.anchor,
        payload = case p_run.phase
            when 'computed' then p_run.payload || jsonb_build_object('manifest', o.manifest, 'outputs', o.revision)
            else jsonb_set(p_run.payload, '{_batch,outputs}', o.revision)
        end,
        lease_until = clock_timestamp() + p_lease_seconds * interval '1 second',
        compute_ms = coalesce(r.compute_ms, 0) + stats_private.elapsed_ms(p_started_at),
        busy_waits = 0,
        busy_since = null,
        updated_at = clock_timestamp()
    from stats_private.outputs_of(p_run.id) o
    where r.id = p_run.id
    returning r.* into v_run;
    if v_run.phase <> 'computed' then
        return stats_private.batch_pending(v_run);
    end if;
    return jsonb_build_object(
        'response', 'computed', 'run_id', v_run.id, 'lease_token', v_run.lease_token, 'user_id', v_run.user_id,
        'manifest', v_run.payload -> 'manifest');
end;
$$;
