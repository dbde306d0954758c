-- public.stats_projection_compute_v1(run_id, lease_token, expected_offset)
--   -> {response: computed | failed | idle | lease_lost | paused, run_id, lease_token, user_id, manifest, ...}
-- Promises: leaves the differences between the published rows and what the canonical rows say, in the private
--   outputs of this lease, and their count in the manifest; no read model changes. A failure rolls the work back and
--   records the attempt in the same transaction. Without arguments: the oldest claimed run that nobody holds.
--   Raises on a person's cancel (57014 that is not the statement timeout).
-- Locks: run row (skip locked, held to the end), job rows (of this run)
-- Writes: private outputs, user_stats_projection_runs, user_exercise_stats_refresh_jobs
-- Next: pipeline/publish.sql
create or replace function public.stats_projection_compute_v1(
    p_run_id uuid default null, p_lease_token uuid default null, p_expected_offset integer default null
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_started_at timestamptz := clock_timestamp();
    v_run public.user_stats_projection_runs;
    v_taken record;
    v_manifest jsonb;
    v_sqlstate text;
    v_error text;
begin
    if stats_private.stage_is_paused('compute') then
        return jsonb_build_object('response', 'paused');
    end if;
    select t.* into v_taken from stats_private.take_run('claimed', p_run_id, p_lease_token) t;
    if v_taken.refusal is not null then
        return jsonb_build_object('response', v_taken.refusal);
    end if;
    v_run := v_taken.run;
    perform stats_private.hold_lease(v_run);
    begin
        v_manifest := stats_private.compute_run(v_run);
        update public.user_stats_projection_runs r
        set phase = 'computed',
            payload = jsonb_build_object('manifest', v_manifest),
            compute_ms = stats_private.elapsed_ms(v_started_at),
            updated_at = clock_timestamp()
        where r.id = v_run.id;
        return jsonb_build_object(
            'response', 'computed', 'run_id', v_run.id, 'lease_token', v_run.lease_token, 'user_id', v_run.user_id,
            'manifest', v_manifest);
    exception
        when query_canceled then
            if sqlerrm <> 'canceling statement due to statement timeout' then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
        when others then
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
    end;
    return stats_private.fail_attempt(v_run, v_sqlstate, v_error);
end;
$$;

-- Projects the run's scope and returns the manifest: for each read model the number of i, u and d rows.
create or replace function stats_private.compute_run(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    v_published_anchor date;
    v_anchor date := stats_private.utc_today();
begin
    perform stats_private.delete_outputs(p_run.id);
    select s.published_anchor into v_published_anchor
    from public.user_stats_refresh_state s where s.user_id = p_run.user_id;
    -- Midnight may have passed since the claim.
    update public.user_stats_projection_runs r set anchor = v_anchor where r.id = p_run.id and r.anchor <> v_anchor;
    return stats_private.project(
        p_run.id, p_run.lease_token, p_run.user_id,
        case when p_run.window_only then 'infinity' else p_run.from_date end,
        case when cardinality(p_run.exercise_ids) > 0 then p_run.exercise_ids end,
        v_anchor, v_published_anchor is distinct from v_anchor or p_run.window_only);
end;
$$;

-- True where an operator paused the stage.
create or replace function stats_private.stage_is_paused(p_stage text)
returns boolean
language sql stable
as $$ select p_stage = any (s.paused_stages) from public.stats_projection_worker_settings s $$;

-- Milliseconds of real time since p_since.
create or replace function stats_private.elapsed_ms(p_since timestamptz)
returns numeric
language sql volatile
as $$ select (extract(epoch from clock_timestamp() - p_since) * 1000)::numeric(12, 3) $$;
