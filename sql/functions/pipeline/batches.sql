-- The steps of a run that is computed in batches: prepare, at most batch_size exercises at a time, finalize.
-- Promises: each step is one transaction; payload._batch says where the run stands (stage, next_offset, total), what
--   it is valid for (source revision, anchor) and what its outputs were when the last step ended. A lease-holder that
--   comes back, in the same transaction or with a doubled message, can't advance it twice. The caller holds the run
--   row and has declared its token.
--   Each function returns the run as it stands after its step; compute writes it (record_step).
-- Locks: none
-- Writes: private outputs, stats_batch_exercises, stats_input_days

-- Freezes the exact list of exercises, the sessions by day and the inputs that every later step checks.
create or replace function stats_private.prepare_batches(p_run public.user_stats_projection_runs)
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    -- Before the list: a write that comes between is then noticed by the next step.
    v_source_revision bigint := stats_private.source_revision(p_run.user_id);
    v_total integer;
begin
    insert into stats_private.stats_batch_exercises (run_id, position, exercise_id)
    select p_run.id, row_number() over (order by c.exercise_id) - 1, c.exercise_id
    from stats_private.candidate_exercises(p_run.user_id, p_run.exercise_ids) c;
    get diagnostics v_total = row_count;
    perform stats_private.note_input_days(p_run.id, p_run.user_id, coalesce(p_run.from_date, '-infinity'));
    return stats_private.after_batch_step(
        p_run,
        jsonb_build_object(
            'stage', 'exercises', 'next_offset', 0, 'total', v_total, 'source_revision', v_source_revision,
            'anchor', stats_private.utc_today(), 'retries', 0));
end;
$$;

-- Projects the next exercises of the frozen list.
create or replace function stats_private.compute_batch(
    p_run public.user_stats_projection_runs, p_batch_size integer, p_policy public.stats_projection_policy
)
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_batch jsonb := p_run.payload -> '_batch';
    v_offset integer := v_batch ->> 'next_offset';
    v_next integer := v_offset + p_batch_size;
begin
    perform stats_private.project(
        p_run.id, p_run.user_id, p_policy, coalesce(p_run.from_date, '-infinity'),
        array(
            select e.exercise_id
            from stats_private.stats_batch_exercises e
            where e.run_id = p_run.id and e.position >= v_offset and e.position < v_next
            order by e.position),
        '{}', (v_batch ->> 'anchor')::date, false);
    return stats_private.after_batch_step(
        p_run,
        jsonb_build_object(
            'stage', case when v_next >= (v_batch ->> 'total')::integer then 'finalize' else 'exercises' end,
            'next_offset', least(v_next, (v_batch ->> 'total')::integer)));
end;
$$;

-- Adds what looks across exercises, and the window of those outside the list where the published one has moved on.
create or replace function stats_private.finalize_batches(
    p_run public.user_stats_projection_runs, p_policy public.stats_projection_policy
)
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_from_date date := coalesce(p_run.from_date, '-infinity');
begin
    p_run.anchor := p_run.payload #>> '{_batch,anchor}';
    if stats_private.published_anchor(p_run.user_id) is distinct from p_run.anchor then
        perform stats_private.project(
            p_run.id, p_run.user_id, p_policy, 'infinity', '{}',
            array(
                select w.exercise_id from stats_private.window_exercises(p_run.user_id) w
                except
                select e.exercise_id from stats_private.stats_batch_exercises e where e.run_id = p_run.id),
            p_run.anchor, false);
    end if;
    perform stats_private.project_account(p_run.id, p_run.user_id, p_policy, v_from_date);
    p_run.phase := 'computed';
    return p_run;
end;
$$;

-- The run with a step's end merged into payload._batch, and this transaction's id.
create or replace function stats_private.after_batch_step(p_run public.user_stats_projection_runs, p_step jsonb)
returns public.user_stats_projection_runs
language plpgsql
as $$
begin
    p_run.payload := p_run.payload || jsonb_build_object(
        '_batch',
        coalesce(p_run.payload -> '_batch', '{}') || p_step
        || jsonb_build_object('xid', pg_current_xact_id()::text));
    return p_run;
end;
$$;

-- The number of canonical writes of the account so far.
create or replace function stats_private.source_revision(p_user_id uuid)
returns bigint
language sql stable
as $$ select s.source_revision from public.user_stats_refresh_state s where s.user_id = p_user_id $$;
