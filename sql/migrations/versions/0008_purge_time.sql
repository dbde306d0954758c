-- The time by which the purge judges ages, so that a clock that jumps ahead makes nothing old. Null for the other jobs.
alter table public.stats_maintenance_cursors add column counted_until timestamptz;

update public.stats_maintenance_cursors set counted_until = now() where job = 'history';
