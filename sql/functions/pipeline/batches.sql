-- The steps of a run that is computed in batches: prepare, at most batch_size exercises at a time, finalize.
-- Promises: each step is one transaction; payload._batch says where the run stands (stage, next_offset, total), what
--   it is valid for (source revision, anchor) and what its outputs were when the last step ended. A lease-holder that
--   comes back, in the same transaction or with a doubled message, can't advance it twice. The caller holds the run
--   row and has declared its token.
-- Locks: run row
-- Writes: user_stats_projection_runs, private outputs, stats_batch_exercises, stats_input_days

-- Freezes the exact list of exercises, the sessions by day and the inputs that every later step checks.
create or replace function stats_private.prepare_batches(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    -- Before the list: a write that comes between is then noticed by the next step.
    v_source_revision bigint := stats_private.source_revision(p_run.user_id);
    v_total integer;
    v_run public.user_stats_projection_runs;
begin
    perform stats_private.delete_outputs(p_run.id);
    insert into stats_private.stats_batch_exercises (run_id, lease_token, position, exercise_id)
    select p_run.id, p_run.lease_token, row_number() over (order by c.exercise_id) - 1, c.exercise_id
    from stats_private.candidate_exercises(p_run.user_id, p_run.exercise_ids) c;
    get diagnostics v_total = row_count;
    perform stats_private.note_input_days(
        p_run.id, p_run.lease_token, p_run.user_id, coalesce(p_run.from_date, '-infinity'));
    v_run := stats_private.record_batch_step(
        p_run,
        jsonb_build_object(
            'stage', 'exercises', 'next_offset', 0, 'total', v_total, 'source_revision', v_source_revision,
            'anchor', stats_private.utc_today(), 'retries', 0));
    return stats_private.batch_pending(v_run);
end;
$$;

-- Projects the next exercises of the frozen list.
create or replace function stats_private.compute_batch(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    v_batch jsonb := p_run.payload -> '_batch';
    v_offset integer := v_batch ->> 'next_offset';
    v_next integer := v_offset + (select s.batch_size from public.stats_projection_worker_settings s);
begin
    perform stats_private.project(
        p_run.id, p_run.lease_token, p_run.user_id, coalesce(p_run.from_date, '-infinity'),
        array(
            select e.exercise_id
            from stats_private.stats_batch_exercises e
            where e.run_id = p_run.id and e.lease_token = p_run.lease_token
                and e.position >= v_offset and e.position < v_next
            order by e.position),
        '{}', (v_batch ->> 'anchor')::date, false);
    return stats_private.batch_pending(stats_private.record_batch_step(
        p_run,
        jsonb_build_object(
            'stage', case when v_next >= (v_batch ->> 'total')::integer then 'finalize' else 'exercises' end,
            'next_offset', least(v_next, (v_batch ->> 'total')::integer))));
end;
$$;

-- Adds what looks across exercises, and the window of those outside the list where the published one has moved on.
create or replace function stats_private.finalize_batches(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    v_anchor date := p_run.payload #>> '{_batch,anchor}';
begin
    update public.user_stats_projection_runs r set anchor = v_anchor where r.id = p_run.id and r.anchor <> v_anchor;
    if stats_private.published_anchor(p_run.user_id) is distinct from v_anchor then
        perform stats_private.project(
            p_run.id, p_run.lease_token, p_run.user_id, 'infinity', '{}',
            array(
                select w.exercise_id from stats_private.window_exercises(p_run.user_id) w
                except
                select e.exercise_id from stats_private.stats_batch_exercises e
                where e.run_id = p_run.id and e.lease_token = p_run.lease_token),
            v_anchor, false);
    end if;
    perform stats_private.project_account(
        p_run.id, p_run.lease_token, p_run.user_id, coalesce(p_run.from_date, '-infinity'), v_anchor);
    return stats_private.complete_outputs(p_run);
end;
$$;

-- Merges a step's end into payload._batch, with this transaction's id and the state of the outputs.
create or replace function stats_private.record_batch_step(p_run public.user_stats_projection_runs, p_step jsonb)
returns public.user_stats_projection_runs
language sql
as $$
    update public.user_stats_projection_runs r
    set payload = r.payload || jsonb_build_object(
            '_batch',
            coalesce(r.payload -> '_batch', '{}') || p_step || jsonb_build_object(
                'xid', pg_current_xact_id()::text,
                'outputs', stats_private.output_revision(r.id, r.lease_token))),
        updated_at = clock_timestamp()
    where r.id = p_run.id
    returning r
$$;

-- The answer that asks for the next step.
create or replace function stats_private.batch_pending(p_run public.user_stats_projection_runs)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'response', 'batch_pending', 'run_id', p_run.id, 'lease_token', p_run.lease_token, 'user_id', p_run.user_id,
        'stage', b -> 'stage', 'next_offset', b -> 'next_offset', 'total_exercises', b -> 'total')
    from (select p_run.payload -> '_batch') x (b)
$$;

-- The number of canonical writes of the account so far.
create or replace function stats_private.source_revision(p_user_id uuid)
returns bigint
language sql stable
as $$ select s.source_revision from public.user_stats_refresh_state s where s.user_id = p_user_id $$;
