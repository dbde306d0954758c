-- public.stats_projection_compute_v1(run_id, lease_token, expected_offset)
--   -> {response: computed | batch_pending | retry_pending | failed | invalidated | busy | idle | lease_lost | paused,
--       run_id, lease_token, user_id, ...}
-- Promises: leaves the differences between the published rows and what the canonical rows say, in the private
--   outputs of this lease; no read model changes. An account of more than batch_size exercises takes one step a
--   transaction (pipeline/batches.sql). A failure rolls the step back and records the attempt in the same
--   transaction. Without arguments: the oldest claimed run that nobody holds. With expected_offset: only where the
--   run stands there, so a doubled message of a chain dies. Busy: others hold what it needs; nothing is lost or counted,
--   and the run comes back after a wait (pipeline/waiting.sql). Raises on a person's cancel (57014 that is not the
--   statement timeout) and 25000 outside of READ COMMITTED.
-- Locks: run row (skip locked, held to the end), job rows (skip locked)
-- Writes: private outputs, user_stats_projection_runs, user_exercise_stats_refresh_jobs
-- Next: pipeline/publish.sql
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
as $$
declare
    v_started_at timestamptz := clock_timestamp();
    v_taken record;
    v_run public.user_stats_projection_runs;
    v_invalidation text;
    v_answer jsonb;
    v_sqlstate text;
    v_error text;
    v_constraint text;
begin
    perform stats_private.require_read_committed();
    if stats_private.stage_is_paused('compute') then
        return jsonb_build_object('response', 'paused');
    end if;
    select t.* into v_taken from stats_private.take_run('claimed', p_run_id, p_lease_token) t;
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

    perform stats_private.hold_lease(v_run);
    begin
        v_invalidation := stats_private.invalidation_of(v_run);
        if v_invalidation is null then
            v_answer := stats_private.compute_step(v_run);
            update public.user_stats_projection_runs r
            set compute_ms = coalesce(r.compute_ms, 0) + stats_private.elapsed_ms(v_started_at),
                busy_waits = 0,
                busy_since = null
            where r.id = v_run.id;
            return v_answer || jsonb_build_object(
                'run_id', v_run.id, 'lease_token', v_run.lease_token, 'user_id', v_run.user_id);
        end if;
    exception
        when query_canceled then
            if sqlerrm <> 'canceling statement due to statement timeout' then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
        when others then
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

-- Does what the run's next step is: all at once, or one step of a batched one.
create or replace function stats_private.compute_step(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
begin
    if not p_run.needs_batches then
        return stats_private.compute_at_once(p_run);
    elsif not p_run.payload ? '_batch' then
        return stats_private.prepare_batches(p_run);
    elsif p_run.payload #>> '{_batch,stage}' = 'exercises' then
        return stats_private.compute_batch(p_run);
    end if;
    return stats_private.finalize_batches(p_run);
end;
$$;

-- Projects the run's whole scope.
create or replace function stats_private.compute_at_once(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    v_anchor date := stats_private.utc_today();
    v_from_date date := case when p_run.window_only then 'infinity' else coalesce(p_run.from_date, '-infinity') end;
    v_exercise_ids text [] := case
        when p_run.window_only then '{}'
        else array(select c.exercise_id from stats_private.candidate_exercises(p_run.user_id, p_run.exercise_ids) c)
    end;
    v_window_ids text [] := '{}';
begin
    perform stats_private.delete_outputs(p_run.id);
    -- Midnight may have passed since the claim.
    update public.user_stats_projection_runs r set anchor = v_anchor where r.id = p_run.id and r.anchor <> v_anchor;
    if p_run.window_only or stats_private.published_anchor(p_run.user_id) is distinct from v_anchor then
        v_window_ids := array(
            select w.exercise_id from stats_private.window_exercises(p_run.user_id) w
            except
            select i.exercise_id from unnest(v_exercise_ids) i (exercise_id));
    end if;
    perform stats_private.project(
        p_run.id, p_run.lease_token, p_run.user_id, v_from_date, v_exercise_ids, v_window_ids, v_anchor);
    perform stats_private.project_account(p_run.id, p_run.lease_token, p_run.user_id, v_from_date, v_anchor);
    return stats_private.complete_outputs(p_run);
end;
$$;

-- The outputs are complete: the run waits for its publication.
create or replace function stats_private.complete_outputs(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    v_manifest jsonb := stats_private.count_outputs(p_run.id, p_run.lease_token);
begin
    update public.user_stats_projection_runs r
    set phase = 'computed',
        payload = r.payload || jsonb_build_object(
            'manifest', v_manifest, 'outputs', stats_private.output_revision(r.id, r.lease_token)),
        updated_at = clock_timestamp()
    where r.id = p_run.id;
    return jsonb_build_object('response', 'computed', 'manifest', v_manifest);
end;
$$;

-- The day in the middle of the account's published snapshot window; null before its first publication.
create or replace function stats_private.published_anchor(p_user_id uuid)
returns date
language sql stable
as $$ select s.published_anchor from public.user_stats_refresh_state s where s.user_id = p_user_id $$;
