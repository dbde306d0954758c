-- stats_private.sessions_by_day(user, from_date) -> one row a day with a session: what its sessions say themselves
-- Promises: every saved session counts, also one without a set. Days from p_from_date on ('-infinity': all). Titles in
--   session order (started_at, unknown last, then id) without those that have none; an unknown duration is 0.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.sessions_by_day(p_user_id uuid, p_from_date date)
returns table (day date, sessions integer, titles text [], duration_seconds bigint)
language sql stable
as $$
    select
        w.session_date,
        count(*)::integer,
        coalesce(array_agg(w.title order by w.started_at nulls last, w.id) filter (where w.title is not null), '{}'),
        coalesce(sum(w.duration_seconds), 0)::bigint
    from public.workout_sessions w
    where w.user_id = p_user_id and w.session_date >= p_from_date
    group by w.session_date
$$;
