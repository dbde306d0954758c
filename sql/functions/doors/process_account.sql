-- One account in one transaction: what both doors do.
-- Promises: takes all that the account has waiting, or nothing and no lock. Locks that were tried for an account that
--   can't be had are given back at once, so no account waits for another one. A failed comparison with a rebuild takes
--   the publication back, and only the failed attempt is left.
-- Locks: worker (try), run row (its own: inserted here), write, state row, job rows (skip locked), read models,
--   canonical rows (key share, by the foreign keys), rollover rows (the account's)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs, private outputs,
--   read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state
-- Next: pipeline/refresh_at_once.sql

-- Makes one attempt at what the account has waiting -> {user_id, outcome: completed | failed | deferred, response,
--   reason, generation, rows, ...}; null where it can't be had now. Deferred: others go on with it (batches, busy,
--   rejected), or it is published and a newer request makes a comparison meaningless (newer_request).
create or replace function stats_private.process_account(
    p_user_id uuid, p_validate_integrity boolean, p_lock_owner text
)
returns jsonb
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
    v_answer jsonb;
    v_integrity jsonb;
begin
    v_run := stats_private.take_account(p_user_id, p_lock_owner);
    if v_run.id is null then
        return null;
    elsif v_run.needs_batches then
        return stats_private.with_outcome(jsonb_build_object(
            'response', 'deferred', 'reason', 'batches', 'run_id', v_run.id, 'user_id', p_user_id));
    end if;
    begin
        v_answer := stats_private.attempt_at_once(v_run);
        if p_validate_integrity and v_answer ->> 'response' = 'published' then
            v_integrity := stats_private.integrity_of_publication(v_run);
            if v_integrity is null then
                v_answer := v_answer || '{"response": "deferred", "reason": "newer_request"}';
            elsif v_integrity -> 'differences' <> '[]' then
                raise exception using errcode = 'SR002', message = 'the publication differs from a rebuild';
            end if;
        end if;
        return stats_private.with_outcome(v_answer);
    exception
        -- What compute and publish wrote is undone here, the claim stays.
        when sqlstate 'SR002' then
            return stats_private.with_outcome(stats_private.fail_integrity(v_run, v_integrity));
    end;
end;
$$;

-- Turns all that the account has waiting into a run; a null one where somebody is at work on it, or holds a row.
create or replace function stats_private.take_account(p_user_id uuid, p_lock_owner text)
returns public.user_stats_projection_runs
language plpgsql
as $$
declare
    v_run public.user_stats_projection_runs;
begin
    -- The error ends the subtransaction, which releases what was tried.
    begin
        if not stats_private.try_worker_lock(p_user_id) then
            raise exception using errcode = 'SR001', message = 'somebody is at work on the account';
        end if;
        -- A statement of its own: it sees the run of whoever had the lock until a moment ago.
        if exists (
            select from public.user_stats_projection_runs r
            where r.user_id = p_user_id and r.phase in ('claimed', 'computed'))
        then
            raise exception using errcode = 'SR001', message = 'a run of the account is in flight';
        end if;
        v_run := stats_private.claim_account(p_user_id, p_lock_owner);
        if v_run.id is null then
            raise exception using errcode = 'SR001', message = 'somebody holds a row of the account';
        end if;
        return v_run;
    exception
        when sqlstate 'SR001' then
            return null;
    end;
end;
$$;

-- Compares what the run has published with a rebuild, under the write lock that the publication took; null where the
-- account's next refresh is already requested, by a write or by a changed policy, before or meanwhile.
create or replace function stats_private.integrity_of_publication(p_run public.user_stats_projection_runs)
returns jsonb
language plpgsql
as $$
declare
    v_integrity jsonb;
begin
    v_integrity := (
        select stats_private.compare_with_rebuild(p_run.user_id)
        from public.user_stats_refresh_state s
        join public.stats_projection_policy p on p.policy_version = s.applied_policy_version
        where s.user_id = p_run.user_id and s.requested_version = p_run.target_version);
    return case when not (v_integrity ->> 'stale')::boolean then v_integrity end;
end;
$$;

-- Ends the attempt as failed, with the first differences in the jobs' metadata.
create or replace function stats_private.fail_integrity(
    p_run public.user_stats_projection_runs, p_integrity jsonb
)
returns jsonb
language plpgsql
as $$
begin
    update public.user_exercise_stats_refresh_jobs j
    set metadata = j.metadata || jsonb_build_object(
        'integrity', jsonb_build_object(
            'generation', p_run.target_version, 'counts', p_integrity -> 'counts',
            'differences', p_integrity -> 'differences'))
    where j.run_id = p_run.id;
    perform stats_private.declare_lease(p_run.lease_token);
    return stats_private.fail_attempt(
        p_run, 'XX001', 'integrity: the publication differs from a rebuild; the differences are in the job''s metadata')
        || '{"reason": "integrity"}';
end;
$$;

-- The stages' answer, and which of the three counts it belongs to.
create or replace function stats_private.with_outcome(p_answer jsonb)
returns jsonb
language sql immutable
as $$
    select p_answer - 'lease_token' - 'manifest' || jsonb_build_object('outcome', case p_answer ->> 'response'
        when 'published' then 'completed' when 'failed' then 'failed' else 'deferred'
    end)
$$;

-- The part of an answer that both doors share, of one result or none.
create or replace function stats_private.counts_of_result(p_result jsonb)
returns jsonb
language sql immutable
as $$
    select jsonb_build_object(
        'processed_count', (p_result is not null)::integer,
        'completed_count', coalesce(p_result ->> 'outcome' = 'completed', false)::integer,
        'failed_count', coalesce(p_result ->> 'outcome' = 'failed', false)::integer,
        'deferred_count', coalesce(p_result ->> 'outcome' = 'deferred', false)::integer,
        'results', case when p_result is null then '[]' else jsonb_build_array(p_result) end)
$$;

-- How much a door looks at: 0 to 100, 10 where nothing is said.
create or replace function stats_private.limit_of_door(p_limit integer)
returns integer
language sql immutable
as $$ select least(greatest(coalesce(p_limit, 10), 0), 100) $$;

-- Who a door works as. Raises 22023 for a name of more than 200 characters.
create or replace function stats_private.owner_of_door(p_lock_owner text, p_door text)
returns text
language plpgsql immutable
as $$
begin
    if length(p_lock_owner) > 200 then
        raise exception using errcode = '22023', message = 'lock_owner: must have at most 200 characters';
    end if;
    return coalesce(nullif(p_lock_owner, ''), p_door);
end;
$$;

-- True where no stage is paused. A run that is claimed for a paused stage would only use up its lease.
create or replace function stats_private.stages_run()
returns boolean
language sql stable
as $$
    select not (
        stats_private.stage_is_paused('claim') or stats_private.stage_is_paused('compute')
        or stats_private.stage_is_paused('publish'))
$$;
