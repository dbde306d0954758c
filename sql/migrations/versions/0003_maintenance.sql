-- Maintenance: the history of beat-fired runs, the rollover's due times, the catalog's walks, the cursors.

create table public.cron_run_history (
    id bigint generated always as identity,
    job_name text not null,
    task_id text,
    worker text,
    status text not null,
    response jsonb,
    error text,
    started_at timestamptz not null,
    ended_at timestamptz,
    constraint cron_run_history_pkey primary key (id),
    constraint cron_run_history_status_known check (status in ('running', 'succeeded', 'failed'))
);
-- No index on the times: ids rise with them, and the purge goes by id.

create table public.stats_maintenance_cursors (
    job text not null,
    cursor text,
    laps bigint not null default 0,
    lap_started_at timestamptz,
    last_success_at timestamptz,
    attempt_count integer not null default 0,
    last_error text,
    next_retry_at timestamptz,
    updated_at timestamptz not null default now(),
    constraint stats_maintenance_cursors_pkey primary key (job)
);
insert into public.stats_maintenance_cursors (job) values ('history'), ('rollover'), ('repair'), ('catalog');

create table public.user_pr_overview_rollover_state (
    user_id uuid not null,
    due_at timestamptz not null,
    generation bigint not null,
    catalog_epoch bigint not null default 0,
    failures integer not null default 0,
    next_retry_at timestamptz,
    last_error text,
    updated_at timestamptz not null default now(),
    constraint user_pr_overview_rollover_state_pkey primary key (user_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index user_pr_overview_rollover_state_due_idx
on public.user_pr_overview_rollover_state (coalesce(next_retry_at, due_at));

create table public.pr_overview_projection_control (
    id integer not null default 1,
    catalog_epoch bigint not null default 0,
    updated_at timestamptz not null default now(),
    constraint pr_overview_projection_control_pkey primary key (id),
    constraint pr_overview_projection_control_one_row check (id = 1)
);
insert into public.pr_overview_projection_control (id) values (1);

create table public.exercise_catalog_changes (
    seq bigint generated always as identity,
    exercise_id text collate "C" not null,
    scope uuid,
    change text not null,
    changed_at timestamptz not null default now(),
    constraint exercise_catalog_changes_pkey primary key (seq)
);
comment on column public.exercise_catalog_changes.scope is 'the account of a personal exercise; null: the global catalog';

-- One row a scope that ever changed: the global catalog, one account's exercises, or the policy.
create table public.stats_catalog_scopes (
    scope text not null,
    pending_exercise_ids text [] collate "C" not null default '{}',
    walking_exercise_ids text [] collate "C" not null default '{}',
    cursor uuid,
    token bigint not null default 0,
    walking_token bigint,
    updated_at timestamptz not null default now(),
    constraint stats_catalog_scopes_pkey primary key (scope)
);
comment on column public.stats_catalog_scopes.scope is '`global`, `policy`, or the id of an account';

-- Receipts are removed by age alone. Not BRIN: new rows take the place of removed ones all over the table.
create index stats_mutation_receipts_created_at_idx on public.stats_mutation_receipts (created_at);

-- Accounts that were published before this step are due when their window passes.
insert into public.user_pr_overview_rollover_state (user_id, due_at, generation)
select s.user_id, (s.published_anchor + 1)::timestamp at time zone 'UTC', s.applied_version
from public.user_stats_refresh_state s
where s.published_anchor is not null;

-- Those that follow an older policy are walked, as after a change from now on.
insert into public.stats_catalog_scopes (scope, pending_exercise_ids, token)
select 'policy', '{policy}', 1
where exists (
    select from public.user_stats_refresh_state s
    where s.applied_policy_version <> (select p.policy_version from public.stats_projection_policy p));
