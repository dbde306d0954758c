-- stats_private.week_of(day, week_start) -> the first day of the day's week
-- Promises: week_start is an ISO day, 1 Monday to 7 Sunday.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.week_of(p_day date, p_week_start integer)
returns date
language sql immutable
as $$ select p_day - (extract(isodow from p_day)::integer - p_week_start + 7) % 7 $$;
