-- public.validate_user_exercise_stats_integrity(user_id)
--   -> {user_id, valid, stale, moved, generation, requested_version, anchor, counts, differences}
-- Promises: projects the account's whole history as a run would, under an id that no run has, and says what a
--   publication would change: counts as in a manifest, and the first 100 rows as {read_model, operation, key}. The
--   snapshot headers are compared with those that it would write under the published generation. Nothing that is
--   written here stays, no read model changes. valid: nothing would change. stale: the account waits for a run, or
--   for the walk that a changed policy sends through all accounts, so differences are expected. moved: a publication
--   came in between, the answer says nothing, ask again. The window compared is the published one, also where it has
--   passed; where it is of days to come, by a clock that ran ahead, it is today's, so the account is not valid.
--   Service and administrators only (42501); 55000 where rows are hidden.
-- Locks: none
-- Writes: private outputs, stats_input_days (removed again)
create or replace function public.validate_user_exercise_stats_integrity(p_user_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = 'only service and administrators validate an account';
    elsif p_user_id is null then
        raise exception using errcode = '22023', message = 'user_id: is required';
    end if;
    return stats_private.compare_with_rebuild(p_user_id);
end;
$$;

-- The same for whoever has checked the caller.
create or replace function stats_private.compare_with_rebuild(p_user_id uuid)
returns jsonb
language plpgsql
as $$
declare
    v_run_id uuid := gen_random_uuid();
    v_policy public.stats_projection_policy;
    v_state public.user_stats_refresh_state;
    v_anchor date;
    v_generation bigint;
    v_counts jsonb;
    v_differences jsonb;
    v_moved boolean;
begin
    perform stats_private.require_sight();
    select s.* into v_state from public.user_stats_refresh_state s where s.user_id = p_user_id;
    if v_state.published_anchor > stats_private.latest_day() then
        v_state.published_anchor := stats_private.utc_today();
    end if;
    v_anchor := coalesce(v_state.published_anchor, stats_private.utc_today());
    select p.* into v_policy from public.stats_projection_policy p;
    perform stats_private.project(
        v_run_id, p_user_id, v_policy, '-infinity',
        array(select c.exercise_id from stats_private.candidate_exercises(p_user_id, '{}') c), '{}', v_anchor);
    perform stats_private.project_account(v_run_id, p_user_id, v_policy, '-infinity');
    v_counts := (select o.manifest from stats_private.outputs_of(v_run_id) o) || (
        select jsonb_build_object('headers', jsonb_build_object(
            'i', count(*) filter (where h.op = 'i'), 'u', count(*) filter (where h.op = 'u'),
            'd', count(*) filter (where h.op = 'd')))
        from stats_private.header_differences(v_run_id, p_user_id, v_state) h);
    v_differences := stats_private.list_differences(v_run_id, p_user_id, v_state, 100);
    perform stats_private.delete_outputs(v_run_id);

    select s.applied_version into v_generation from public.user_stats_refresh_state s where s.user_id = p_user_id;
    v_moved := v_generation is distinct from v_state.applied_version;
    return jsonb_build_object(
        'user_id', p_user_id,
        'valid', case when not v_moved then v_differences = '[]' end,
        -- The policy is looked at last: the projection may have been the first to see a new one.
        'stale', coalesce(
            v_state.applied_version < v_state.requested_version
            or v_state.applied_policy_version <> (select p.policy_version from public.stats_projection_policy p),
            false),
        'moved', v_moved,
        'generation', coalesce(v_state.applied_version, 0),
        'requested_version', coalesce(v_state.requested_version, 0),
        'anchor', v_anchor,
        'counts', v_counts,
        'differences', v_differences);
end;
$$;

-- How the account's snapshot headers differ from those of its published generation, were the outputs of the run
-- applied. An account that was never published has none.
create or replace function stats_private.header_differences(
    p_run_id uuid, p_user_id uuid, p_state public.user_stats_refresh_state
)
returns table (op "char", as_of_date date)
language sql stable
as $$
    with expected as (
        select w.as_of_date, p_state.applied_version as generation, (
            select count(*) from public.user_pr_exercise_summary_snapshots s
            where s.user_id = p_user_id and s.as_of_date = w.as_of_date
        ) + (
            select count(*) filter (where o.op = 'i') - count(*) filter (where o.op = 'd')
            from stats_private.stats_output_pr_summaries o
            where o.run_id = p_run_id and o.as_of_date = w.as_of_date
        ) as exercises
        from unnest(array[
            p_state.published_anchor - 1, p_state.published_anchor, p_state.published_anchor + 1]) w (as_of_date)
        where p_state.published_anchor is not null
    )
    select
        (case when h.as_of_date is null then 'i' when e.as_of_date is null then 'd' else 'u' end)::"char",
        coalesce(e.as_of_date, h.as_of_date)
    from expected e
    full join (
        select * from public.user_pr_overview_snapshot_headers a where a.user_id = p_user_id
    ) h on h.as_of_date = e.as_of_date
    where (h.generation, h.exercises) is distinct from (e.generation, e.exercises)
$$;

-- The first rows of a run's outputs, then the headers: what a publication would do, and to which row.
create or replace function stats_private.list_differences(
    p_run_id uuid, p_user_id uuid, p_state public.user_stats_refresh_state, p_limit integer
)
returns jsonb
language sql stable
as $$
    select coalesce(jsonb_agg(l.line order by l.place, l.line), '[]')
    from (
        select o.place, jsonb_build_object(
            'read_model', o.read_model,
            'operation', case o.op when 'i' then 'insert' when 'u' then 'update' else 'delete' end,
            'key', o.key) as line
        from (
            select 1 as place, 'daily_rollups' as read_model, r.op,
                jsonb_build_object('exercise_id', r.exercise_id, 'day', r.day) as key
            from stats_private.stats_output_daily_rollups r
            where r.run_id = p_run_id
            union all
            select 2, 'records', r.op, jsonb_build_object('exercise_id', r.exercise_id, 'kind', r.kind, 'day', r.day)
            from stats_private.stats_output_records r
            where r.run_id = p_run_id
            union all
            select 3, 'rep_maxes', m.op, jsonb_build_object('exercise_id', m.exercise_id, 'reps', m.reps)
            from stats_private.stats_output_rep_maxes m
            where m.run_id = p_run_id
            union all
            select 4, 'rep_max_steps', t.op,
                jsonb_build_object('exercise_id', t.exercise_id, 'reps', t.reps, 'day', t.day)
            from stats_private.stats_output_rep_max_steps t
            where t.run_id = p_run_id
            union all
            select 5, 'pr_summaries', s.op,
                jsonb_build_object('as_of_date', s.as_of_date, 'exercise_id', s.exercise_id)
            from stats_private.stats_output_pr_summaries s
            where s.run_id = p_run_id
            union all
            select 6, 'periods', p.op, jsonb_build_object('grain', p.grain, 'period_start', p.period_start)
            from stats_private.stats_output_periods p
            where p.run_id = p_run_id
            union all
            select 7, 'calendar', c.op, jsonb_build_object('day', c.day)
            from stats_private.stats_output_calendar c
            where c.run_id = p_run_id
            union all
            select 8, 'headers', h.op, jsonb_build_object('as_of_date', h.as_of_date)
            from stats_private.header_differences(p_run_id, p_user_id, p_state) h
        ) o
        order by o.place, o.key
        limit p_limit
    ) l
$$;
