-- What makes a run's work worthless while it is under way, and what happens then.
-- Promises: a run goes on only while its policy, and in batches its source, anchor, base, frozen list and private
--   outputs, are those it began with. What explains itself (source, policy, anchor, base) gives the attempt back, all
--   but the source as a rejection does (runs/end_attempt.sql); outputs that somebody touched cost one. After
--   max_attempts source invalidations in a row the account is computed in one transaction, so one that is saved all the
--   time still converges.
-- Locks: run row, job rows (of this run; skip locked for others of the account)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs, private outputs

-- Says which input moved; null: none. A run that is computed at once reads all but the policy anew.
create or replace function stats_private.invalidation_of(
    p_run public.user_stats_projection_runs, p_policy_version integer
)
returns text
language plpgsql stable
as $$
declare
    v_moved text;
begin
    if p_run.payload ? '_batch' then
        select case
            when (b ->> 'source_revision')::bigint <> s.source_revision then 'source'
            when (b ->> 'anchor')::date <> stats_private.utc_today() then 'anchor'
            when p_run.base_version <> s.applied_version then 'base'
            when b -> 'outputs' <> (select o.revision from stats_private.outputs_of(p_run.id) o) then 'outputs'
        end
        into v_moved
        from (select p_run.payload -> '_batch') x (b)
        left join public.user_stats_refresh_state s on s.user_id = p_run.user_id;
    end if;
    return case
        when p_run.policy_version <> p_policy_version then 'policy'
        else v_moved
    end;
end;
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
            -- status || '': by the account's index (pipeline/claim_account.sql).
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
