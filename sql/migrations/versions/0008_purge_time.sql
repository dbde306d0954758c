-- The time by which the purge judges ages, so that a clock that jumps ahead makes nothing old. Null for the other jobs,
-- and until the first page has succeeded: that one goes by the clock.
alter table public.stats_maintenance_cursors add column counted_until timestamptz;
