-- Waiting: runs that others hold up, and a queue that is read in the order in which its rows become due.

alter table public.user_stats_projection_runs
add column busy_waits integer not null default 0,
add column busy_since timestamptz;
comment on column public.user_stats_projection_runs.busy_waits is
'how many times in a row the run had to wait for what others hold';

-- What waits for its retry time stands behind everything that is due, so that no claim reads past it.
-- Not concurrently: the steps are one transaction.
-- squawk-ignore require-concurrent-index-deletion
drop index public.user_exercise_stats_refresh_jobs_due_idx;
create index user_exercise_stats_refresh_jobs_due_idx
on public.user_exercise_stats_refresh_jobs (status, priority, greatest(created_at, retry_not_before));

-- The runs that a slot counts for, and those that wait, apart: any number may wait.
-- Not concurrently: the steps are one transaction.
-- squawk-ignore require-concurrent-index-deletion
drop index public.user_stats_projection_runs_in_flight_idx;
create index user_stats_projection_runs_in_flight_idx on public.user_stats_projection_runs (created_at)
where phase in ('claimed', 'computed') and retry_not_before is null;
create index user_stats_projection_runs_waiting_idx on public.user_stats_projection_runs (retry_not_before)
where phase in ('claimed', 'computed') and retry_not_before is not null;
