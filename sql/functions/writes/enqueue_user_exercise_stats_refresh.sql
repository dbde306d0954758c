-- public.enqueue_user_exercise_stats_refresh(user_id, from_date, exercise_ids, reason) -> the new generation
-- Promises: the queue as an app may use it: for the signed-in account (service and administrators: any), a refresh
--   of the named exercises from that date; null date: whole history, no exercises: all of them. Raises 42501 for
--   another account, 22023 for a date outside of the years 1 to 9999, more than 2,000 exercises, or texts that are no
--   ids or reasons, 55P03 and 40001 as every write (queue/lock_account.sql).
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
declare
    v_user_id uuid := stats_private.account_of_call(user_id);
    v_problem text := case
        when cardinality(exercise_ids) > 2000 then 'exercise_ids: must be at most 2000; none stands for all'
        when char_length(reason) > 500 then 'reason: must have at most 500 characters'
    end;
begin
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;
    return public.enqueue_user_exercise_stats_refresh_job(
        v_user_id, from_date, exercise_ids, 'manual_refresh', p_reason => reason);
end;
$$;
