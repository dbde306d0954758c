-- stats_private.ordered_sessions(user, from_date) -> the account's sessions with their turn on their day
-- Promises: turn counts a day's sessions from 1 by started_at, unknown last, then id: the earliest wins a tie. Days
--   from p_from_date on ('-infinity': all).
-- Locks: none
-- Writes: nothing
create or replace function stats_private.ordered_sessions(p_user_id uuid, p_from_date date)
returns table (id uuid, day date, turn integer)
language sql stable
as $$
    select
        w.id, w.session_date,
        row_number() over (partition by w.session_date order by w.started_at nulls last, w.id)::integer
    from public.workout_sessions w
    where w.user_id = p_user_id and w.session_date >= p_from_date
$$;
