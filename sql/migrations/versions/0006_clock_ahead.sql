-- The rollovers that wait for their retry time: one that no backoff explains was set by a clock that ran ahead. Partial,
-- because few accounts wait: building it reads the table once and keeps publications away for that long.
create index user_pr_overview_rollover_state_retry_idx
on public.user_pr_overview_rollover_state (next_retry_at) where next_retry_at is not null;
