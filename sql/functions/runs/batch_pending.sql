-- stats_private.batch_pending(run) -> {response: batch_pending, run_id, lease_token, user_id, stage, next_offset,
--   total_exercises}
-- Promises: the answer of a run in batches that asks for the next batch, from where its payload says that it stands.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.batch_pending(p_run public.user_stats_projection_runs)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'response', 'batch_pending', 'run_id', p_run.id, 'lease_token', p_run.lease_token, 'user_id', p_run.user_id,
        'stage', b -> 'stage', 'next_offset', b -> 'next_offset', 'total_exercises', b -> 'total')
    from (select p_run.payload -> '_batch') x (b)
$$;
