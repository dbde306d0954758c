-- public.enqueue_user_exercise_stats_refresh(user_id, from_date, exercise_ids, reason) -> the new generation
-- Promises: the queue as an app may use it: for the signed-in account (service and administrators: any), a refresh
--   of the named exercises from that date; null date: whole history, no exercises: all of them. Raises 42501 for
--   another account.
-- Locks: write, state row, job rows (skip locked)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs
create or replace function public.enqueue_user_exercise_stats_refresh(
    user_id uuid, from_date date, exercise_ids text [], reason text
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return public.enqueue_user_exercise_stats_refresh_job(
        stats_private.account_of_call(user_id), from_date, exercise_ids, 'manual_refresh',
        p_reason => coalesce(reason, ''));
end;
$$;
