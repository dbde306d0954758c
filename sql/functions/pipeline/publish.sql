-- public.stats_projection_publish_v1(run_id, lease_token)
--   -> {response: published | rejected | busy | failed | idle | lease_lost | paused, user_id, generation, rows, reason,
--       ...}
-- Promises: the run's differences, the headers of its three days and applied_version become visible in one commit,
--   or nothing does. Rejected (base_moved, canonical_deleted, manifest): no read model changes and the scope waits
--   again; the attempt is given back where the base did move or a session that the outputs name is gone. Busy: others
--   hold the account or a row; the run stays computed and comes back after a wait (runs/waiting.sql). Without
--   arguments: the oldest computed run that nobody holds. Raises on a person's cancel, and 25000 outside of
--   READ COMMITTED.
-- Locks: run row (skip locked, held to the end), write, job rows (of this run), read models,
--   canonical rows (key share, by the foreign keys), rollover rows (the account's), state row
-- Writes: read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state,
--   user_stats_refresh_state, user_stats_projection_runs, user_exercise_stats_refresh_jobs, private outputs
-- Next: readers/get_pr_overview.sql
create or replace function public.stats_projection_publish_v1(
    p_run_id uuid default null, p_lease_token uuid default null
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
-- A plan is kept as long as its connection, and may have been made when the tables were empty.
set enable_seqscan = off
set jit = off
-- Published rows are looked up by the keys of the differences, whatever the statistics say of the private outputs: they
-- may be of a whole history, and the account's every row would be read for one session.
set enable_hashjoin = off
set enable_mergejoin = off
-- The server would plan some statements at each call, which costs more than what they do.
set plan_cache_mode = force_generic_plan
as $$
declare
    v_started_at timestamptz := clock_timestamp();
    v_settings public.stats_projection_worker_settings;
    v_taken record;
    v_run public.user_stats_projection_runs;
    v_token text;
    v_rejection text;
    v_sqlstate text;
    v_error text;
    v_constraint text;
begin
    perform stats_private.require_read_committed();
    select s.* into v_settings from public.stats_projection_worker_settings s;
    if 'publish' = any (v_settings.paused_stages) then
        return jsonb_build_object('response', 'paused');
    end if;
    v_taken := stats_private.take_run('computed', p_run_id, p_lease_token);
    if v_taken.refusal is not null then
        return jsonb_build_object('response', v_taken.refusal);
    end if;
    v_run := v_taken.run;
    v_token := stats_private.declare_lease(v_run.lease_token);
    begin
        perform stats_private.lock_writes(v_run.user_id);
        v_rejection := stats_private.rejection_of(v_run);
        if v_rejection is null then
            return stats_private.publish_run(v_run, v_started_at, v_settings.lease_seconds);
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
    elsif not stats_private.try_lock_jobs(v_run.id) then
        return stats_private.wait_for_others(v_run, '55P03', 'somebody holds a job of the run');
    elsif v_sqlstate = '23503' and v_constraint = any (stats_private.links_to_sessions())
        and stats_private.names_a_lost_session(v_run)
    then
        v_rejection := 'canonical_deleted';
    end if;
    if v_rejection is null then
        return stats_private.fail_attempt(v_run, v_sqlstate, v_error);
    end if;
    return stats_private.end_rejected(v_run, v_rejection);
end;
$$;

-- Ends the attempt as rejected. Outputs that somebody touched explain nothing, and cost one.
create or replace function stats_private.end_rejected(p_run public.user_stats_projection_runs, p_reason text)
returns jsonb
language plpgsql
as $$
declare
    v_ended jsonb := case p_reason
        when 'manifest' then stats_private.fail_attempt(p_run, '55000', 'manifest: its private outputs were changed')
        else stats_private.reject_run(p_run, p_reason)
    end;
begin
    return jsonb_build_object(
        'response', 'rejected', 'reason', p_reason, 'run_id', p_run.id, 'user_id', p_run.user_id,
        'retry_not_before', v_ended -> 'retry_not_before');
end;
$$;

-- The foreign keys from read models to the sessions that they name: what a publication forces before its commit.
create or replace function stats_private.links_to_sessions()
returns text []
language sql immutable
as $$
    select array[
        'user_exercise_daily_rollups_first_session_id_fkey',
        'user_exercise_records_session_id_fkey',
        'user_exercise_rep_maxes_session_id_fkey',
        'rep_max_steps_session_id_fkey',
        'user_pr_exercise_summary_snapshots_best_weight_session_id_fkey',
        'user_pr_exercise_summary_snapshots_best_e1rm_session_id_fkey']
$$;

-- True where the run's outputs name a session that is not there any more.
create or replace function stats_private.names_a_lost_session(p_run public.user_stats_projection_runs)
returns boolean
language sql stable
as $$
    select exists (
        select o.session_id
        from (
            select r.run_id, r.first_session_id from stats_private.stats_output_daily_rollups r
            union all
            select r.run_id, r.session_id from stats_private.stats_output_records r
            union all
            select m.run_id, m.session_id from stats_private.stats_output_rep_maxes m
            union all
            select t.run_id, t.session_id from stats_private.stats_output_rep_max_steps t
            union all
            select s.run_id, s.best_weight_session_id from stats_private.stats_output_pr_summaries s
            union all
            select s.run_id, s.best_e1rm_session_id from stats_private.stats_output_pr_summaries s
        ) o (run_id, session_id)
        where o.run_id = p_run.id and o.session_id is not null
            and not exists (select from public.workout_sessions w where w.id = o.session_id))
$$;

-- Says why the run may not be published; null: it may. Asked under the write lock, so the answer stays true.
create or replace function stats_private.rejection_of(p_run public.user_stats_projection_runs)
returns text
-- Not in SQL: up to PostgreSQL 17 the server plans the body of such a function at each call.
language plpgsql stable
as $$
begin
    return (
        select case
            when (select s.applied_version from public.user_stats_refresh_state s where s.user_id = p_run.user_id)
                is distinct from p_run.base_version then 'base_moved'
            when o.revision is distinct from p_run.payload -> 'outputs' then 'manifest'
        end
        from stats_private.outputs_of(p_run.id) o);
end;
$$;

-- Makes the generation visible; the caller holds the run row and the write lock and knows that nothing rejects it.
create or replace function stats_private.publish_run(
    p_run public.user_stats_projection_runs, p_started_at timestamptz, p_lease_seconds integer
)
returns jsonb
language plpgsql
as $$
declare
    v_rows integer;
    v_others integer;
begin
    -- Assigned, as all here: PERFORM is a statement of its own, which costs as much as a small update.
    v_others := stats_private.complete_jobs(p_run.id);
    v_rows := stats_private.publish_daily_rollups(p_run)
        + stats_private.publish_records(p_run)
        + stats_private.publish_rep_maxes(p_run)
        + stats_private.publish_rep_max_steps(p_run)
        + stats_private.publish_pr_summaries(p_run)
        + stats_private.publish_periods(p_run)
        + stats_private.publish_calendar(p_run);
    -- Now, not at the commit: a session deleted during the compute must reject this run, not abort the transaction.
    -- Ours alone: the caller's transaction may have deferred constraints of the app's own.
    set constraints
        public.user_exercise_daily_rollups_first_session_id_fkey,
        public.user_exercise_records_session_id_fkey,
        public.user_exercise_rep_maxes_session_id_fkey,
        stats_private.rep_max_steps_session_id_fkey,
        public.user_pr_exercise_summary_snapshots_best_weight_session_id_fkey,
        public.user_pr_exercise_summary_snapshots_best_e1rm_session_id_fkey
        immediate;
    v_others := stats_private.publish_window(p_run) + stats_private.delete_outputs(p_run.id);
    update public.user_stats_projection_runs r
    set phase = 'completed',
        lease_until = clock_timestamp() + p_lease_seconds * interval '1 second',
        publish_ms = stats_private.elapsed_ms(p_started_at),
        error = null,
        completed_at = clock_timestamp(),
        updated_at = clock_timestamp()
    where r.id = p_run.id;
    update public.user_stats_refresh_state s
    set applied_version = p_run.target_version,
        applied_policy_version = p_run.policy_version,
        published_anchor = p_run.anchor,
        updated_at = clock_timestamp()
    where s.user_id = p_run.user_id and s.applied_version = p_run.base_version;
    if not found then
        raise exception 'the published base moved under the write lock';
    end if;
    return jsonb_build_object(
        'response', 'published', 'run_id', p_run.id, 'user_id', p_run.user_id, 'generation', p_run.target_version,
        'rows', v_rows);
end;
$$;

-- Closes the run's jobs and returns how many; those that the newest one absorbed name it. First of what a publication
-- writes: it waits for whoever holds one of them, and holds no read model meanwhile.
create or replace function stats_private.complete_jobs(p_run_id uuid)
returns integer
language plpgsql
as $$
declare
    v_jobs integer;
begin
    update public.user_exercise_stats_refresh_jobs j
    set status = 'completed',
        completed_at = clock_timestamp(),
        updated_at = clock_timestamp(),
        error_message = null,
        metadata = case
            when j.id = newest.id then j.metadata
            else j.metadata || jsonb_build_object('absorbed_by', newest.id)
        end
    from (
        select n.id from public.user_exercise_stats_refresh_jobs n
        where n.run_id = p_run_id
        order by n.requested_version desc
        limit 1
    ) newest
    where j.run_id = p_run_id and j.status = 'processing';
    get diagnostics v_jobs = row_count;
    return v_jobs;
end;
$$;

-- The window moves: the headers of the run's three days carry the generation, those of other days go, and the account
-- is due for the next rollover when the window's middle is yesterday. Returns the number of headers.
-- Locks: read models, rollover rows (the account's own, under write: pages only try write, so nobody waits in a circle)
create or replace function stats_private.publish_window(p_run public.user_stats_projection_runs)
returns integer
language plpgsql
as $$
declare
    v_headers integer;
begin
    with rollover as (
        insert into public.user_pr_overview_rollover_state (user_id, due_at, generation, catalog_epoch)
        select p_run.user_id, (p_run.anchor + 1)::timestamp at time zone 'UTC', p_run.target_version, c.catalog_epoch
        from public.pr_overview_projection_control c
        on conflict (user_id) do update set
            due_at = excluded.due_at, generation = excluded.generation, catalog_epoch = excluded.catalog_epoch,
            failures = 0, next_retry_at = null, last_error = null, updated_at = clock_timestamp()
    ),
    passed as (
        delete from public.user_pr_overview_snapshot_headers h
        where h.user_id = p_run.user_id and h.as_of_date not between p_run.anchor - 1 and p_run.anchor + 1
    )
    insert into public.user_pr_overview_snapshot_headers (user_id, as_of_date, generation, exercises, generated_at)
    select
        p_run.user_id, w.as_of_date, p_run.target_version,
        (
            select count(*) from public.user_pr_exercise_summary_snapshots s
            where s.user_id = p_run.user_id and s.as_of_date = w.as_of_date
        ),
        clock_timestamp()
    from unnest(array[p_run.anchor - 1, p_run.anchor, p_run.anchor + 1]) w (as_of_date)
    on conflict (user_id, as_of_date) do update set
        generation = excluded.generation, exercises = excluded.exercises, generated_at = excluded.generated_at;
    get diagnostics v_headers = row_count;
    return v_headers;
end;
$$;
