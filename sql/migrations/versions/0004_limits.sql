-- Limits: budgets that a task can keep, and dates that can be computed.

-- Celery ends a task after 90 s: a stage has to end and record that it failed before that.
update public.stats_projection_worker_settings set
    claim_budget_ms = least(claim_budget_ms, 80000),
    compute_budget_ms = least(compute_budget_ms, 80000),
    maintenance_budget_ms = least(maintenance_budget_ms, 80000);
alter table public.stats_projection_worker_settings
-- One row: there is nothing to be gained by validating later.
-- squawk-ignore constraint-missing-not-valid
add constraint stats_projection_worker_settings_budgets_below_task_limit
check (claim_budget_ms <= 80000 and compute_budget_ms <= 80000 and maintenance_budget_ms <= 80000);

-- Not every date has a timestamp, which a compute needs. The whole history covers it; what was exhausted by it waits
-- again. A run that has such a date fails once more, and its job is claimed without it.
update public.user_exercise_stats_refresh_jobs set
    from_date = null,
    status = case status when 'failed' then 'pending' else status end,
    attempts = case status when 'failed' then 0 else attempts end,
    retry_not_before = case when status <> 'failed' then retry_not_before end
where status <> 'completed' and from_date not between '0001-01-01' and '9999-12-31';
