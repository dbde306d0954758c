-- The tables of the main path: canonical rows, queue, projection runs, private outputs, read models.
-- Weights are kilograms in numeric(8,2); days are the account's local days as the client sent them; times are UTC.
-- Exercise ids compare byte by byte (collate "C"): they are keys, never sorted for a person.

create schema stats_private;

-- ---------------------------------------------------------------- canonical

create table public.exercises (
    id text collate "C" not null default pg_catalog.gen_random_uuid()::text,
    owner_user_id uuid,
    name text not null,
    tracking text not null,
    archived_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint exercises_pkey primary key (id),
    constraint exercises_name_length check (char_length(name) between 1 and 200),
    constraint exercises_tracking_known check (tracking in (
        'weight_reps', 'bodyweight_reps', 'assisted_reps', 'reps_only', 'duration', 'distance_duration',
        'weight_duration', 'weight_distance'))
);
create index exercises_owner_user_id_idx on public.exercises (owner_user_id);
comment on column public.exercises.owner_user_id is 'null: a global exercise of the catalog';

create table public.exercise_external_mappings (
    id bigint generated always as identity,
    provider text not null,
    external_id text not null,
    owner_user_id uuid,
    exercise_id text collate "C" not null,
    created_at timestamptz not null default now(),
    constraint exercise_external_mappings_pkey primary key (id),
    constraint exercise_external_mappings_exercise_id_fkey foreign key (exercise_id) references public.exercises (id),
    constraint exercise_external_mappings_identity unique nulls not distinct (provider, external_id, owner_user_id)
);
create index exercise_external_mappings_exercise_id_idx on public.exercise_external_mappings (exercise_id);

create table public.workout_sessions (
    id uuid not null default pg_catalog.gen_random_uuid(),
    user_id uuid not null,
    session_date date not null,
    title text,
    started_at timestamptz,
    duration_seconds integer,
    notes text,
    source text,
    source_ref text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint workout_sessions_pkey primary key (id),
    constraint workout_sessions_duration_not_negative check (duration_seconds >= 0)
);
create index workout_sessions_user_day_idx on public.workout_sessions (user_id, session_date);
create unique index workout_sessions_source_key on public.workout_sessions (user_id, source, source_ref)
where source is not null and source_ref is not null;

create table public.session_exercise_part (
    id uuid not null default pg_catalog.gen_random_uuid(),
    session_id uuid not null,
    user_id uuid not null,
    exercise_id text collate "C" not null,
    position integer not null,
    notes text,
    constraint session_exercise_part_pkey primary key (id),
    constraint session_exercise_part_session_id_fkey
        foreign key (session_id) references public.workout_sessions (id) on delete cascade,
    constraint session_exercise_part_exercise_id_fkey foreign key (exercise_id) references public.exercises (id),
    constraint session_exercise_part_position_key unique (session_id, position)
);
create index session_exercise_part_user_exercise_idx on public.session_exercise_part (user_id, exercise_id);
-- A catalog walk goes through the accounts of an exercise in the order of their ids.
create index session_exercise_part_exercise_user_idx on public.session_exercise_part (exercise_id, user_id);

create table public.session_sets (
    part_id uuid not null,
    set_no integer not null,
    set_type text not null default 'normal',
    weight_kg numeric(8, 2),
    reps integer,
    distance_m numeric(10, 2),
    duration_seconds integer,
    rpe numeric(3, 1),
    is_completed boolean not null default true,
    constraint session_sets_pkey primary key (part_id, set_no),
    constraint session_sets_part_id_fkey
        foreign key (part_id) references public.session_exercise_part (id) on delete cascade,
    constraint session_sets_type_known check (set_type in ('normal', 'warmup', 'drop', 'failure')),
    constraint session_sets_not_negative
        check (weight_kg >= 0 and reps >= 0 and distance_m >= 0 and duration_seconds >= 0)
);

create table public.user_manual_pr_records (
    id uuid not null default pg_catalog.gen_random_uuid(),
    user_id uuid not null,
    exercise_id text collate "C" not null,
    achieved_on date not null,
    one_rm_kg numeric(8, 2) not null,
    source text not null,
    created_at timestamptz not null default now(),
    constraint user_manual_pr_records_pkey primary key (id),
    constraint user_manual_pr_records_exercise_id_fkey foreign key (exercise_id) references public.exercises (id),
    constraint user_manual_pr_records_positive check (one_rm_kg > 0),
    constraint user_manual_pr_records_source_known check (source in ('manual', 'onboarding'))
);
create index user_manual_pr_records_user_exercise_idx
on public.user_manual_pr_records (user_id, exercise_id, achieved_on);
create index user_manual_pr_records_exercise_user_idx on public.user_manual_pr_records (exercise_id, user_id);

create table public.stats_mutation_receipts (
    user_id uuid not null,
    mutation_id uuid not null,
    operation text not null,
    payload_hash bytea not null,
    session_id uuid,
    requested_version bigint not null,
    response jsonb not null,
    created_at timestamptz not null default now(),
    constraint stats_mutation_receipts_pkey primary key (user_id, mutation_id)
);
comment on column public.stats_mutation_receipts.session_id is
'no foreign key: a receipt outlives the session that it is about';

-- ---------------------------------------------------------------- queue and generations

create table public.stats_refresh_event_types (
    id text not null,
    description text not null,
    is_canonical_write boolean not null,
    constraint stats_refresh_event_types_pkey primary key (id)
);
comment on column public.stats_refresh_event_types.is_canonical_write is
'true: the event changed the account''s own rows, so source_revision counts it';
insert into public.stats_refresh_event_types (id, description, is_canonical_write) values
('session_created', 'a completed session was saved', true),
('session_updated', 'a completed session was replaced', true),
('session_deleted', 'a completed session was deleted', true),
('manual_pr_changed', 'a direct 1RM was set or deleted', true),
('onboarding_1rm', 'an initial 1RM was given at onboarding', true),
('exercise_changed', 'a personal exercise changed how it is tracked', true),
('catalog_changed', 'a global exercise changed how it is tracked', true),
('policy_changed', 'the formula, the repetition cap or the week start changed', false),
('wodup_import', 'a WodUp batch was imported', true),
('file_import', 'a file was imported', true),
('manual_refresh', 'somebody asked for a refresh', false),
('scheduled_stats_backfill', 'the repair scan found damage', false),
('pr_snapshot_rollover', 'the snapshot window moved to the next day', false);

create table public.user_stats_refresh_state (
    user_id uuid not null,
    requested_version bigint not null default 0,
    applied_version bigint not null default 0,
    source_revision bigint not null default 0,
    applied_policy_version integer,
    published_anchor date,
    updated_at timestamptz not null default now(),
    constraint user_stats_refresh_state_pkey primary key (user_id),
    constraint user_stats_refresh_state_not_ahead check (applied_version <= requested_version)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

create table public.user_exercise_stats_refresh_jobs (
    id uuid not null default pg_catalog.gen_random_uuid(),
    user_id uuid not null,
    event_type text not null,
    from_date date,
    exercise_ids text [] collate "C" not null default '{}',
    reason text not null default '',
    source_ref text,
    status text not null default 'pending',
    locked_at timestamptz,
    lock_owner text,
    attempts integer not null default 0,
    error_message text,
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    completed_at timestamptz,
    run_id uuid,
    requested_version bigint not null,
    priority smallint not null default 0,
    window_only boolean not null default false,
    retry_not_before timestamptz,
    constraint user_exercise_stats_refresh_jobs_pkey primary key (id),
    constraint user_exercise_stats_refresh_jobs_event_type_fkey
        foreign key (event_type) references public.stats_refresh_event_types (id),
    constraint user_exercise_stats_refresh_jobs_status_known
        check (status in ('pending', 'processing', 'completed', 'failed')),
    constraint user_exercise_stats_refresh_jobs_priority_known check (priority in (0, 1))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
-- Plain indexes, none partial: a predicate on a column that a merge writes would cost every merge its HOT update.
create index user_exercise_stats_refresh_jobs_due_idx
on public.user_exercise_stats_refresh_jobs (status, priority, created_at);
create index user_exercise_stats_refresh_jobs_user_idx
on public.user_exercise_stats_refresh_jobs (user_id, status);
create index user_exercise_stats_refresh_jobs_run_id_idx on public.user_exercise_stats_refresh_jobs (run_id);

create type stats_private.refresh_scope as (
    from_date date,
    exercise_ids text [],
    window_only boolean
);

-- ---------------------------------------------------------------- projection

create table public.stats_projection_worker_settings (
    id integer not null default 1,
    claim_budget_ms integer not null default 3000,
    compute_budget_ms integer not null default 60000,
    publish_budget_ms integer not null default 6000,
    maintenance_budget_ms integer not null default 3000,
    lease_seconds integer not null default 300,
    active_lease_cap integer not null default 2,
    max_attempts integer not null default 3,
    retry_backoff_seconds integer not null default 30,
    batch_size integer not null default 100,
    rollover_page integer not null default 10,
    paused_stages text [] not null default '{}',
    updated_at timestamptz not null default now(),
    constraint stats_projection_worker_settings_pkey primary key (id),
    constraint stats_projection_worker_settings_one_row check (id = 1),
    constraint stats_projection_worker_settings_publish_below_save_deadline check (publish_budget_ms < 8000),
    constraint stats_projection_worker_settings_lease_covers_a_run
        check (lease_seconds * 1000 >= compute_budget_ms + publish_budget_ms),
    constraint stats_projection_worker_settings_batch_size_range check (batch_size between 1 and 100),
    constraint stats_projection_worker_settings_rollover_page_range check (rollover_page between 1 and 25),
    constraint stats_projection_worker_settings_stages_known
        check (paused_stages <@ array['claim', 'compute', 'publish', 'maintenance']),
    constraint stats_projection_worker_settings_positive check (
        claim_budget_ms > 0 and compute_budget_ms > 0 and publish_budget_ms > 0 and maintenance_budget_ms > 0
        and lease_seconds > 0 and active_lease_cap > 0 and max_attempts > 0 and retry_backoff_seconds > 0)
);
insert into public.stats_projection_worker_settings (id) values (1);

create table public.stats_projection_policy (
    id integer not null default 1,
    e1rm_formula text not null default 'brzycki',
    e1rm_max_reps integer not null default 12,
    week_start integer not null default 1,
    policy_version integer not null default 1,
    updated_at timestamptz not null default now(),
    constraint stats_projection_policy_pkey primary key (id),
    constraint stats_projection_policy_one_row check (id = 1),
    constraint stats_projection_policy_formula_known check (e1rm_formula in ('brzycki', 'epley', 'lombardi')),
    -- Brzycki's formula divides by 37 - reps.
    constraint stats_projection_policy_max_reps_range check (e1rm_max_reps between 1 and 36),
    constraint stats_projection_policy_week_start_range check (week_start between 1 and 7)
);
insert into public.stats_projection_policy (id) values (1);

create table public.user_stats_projection_runs (
    id uuid not null default pg_catalog.gen_random_uuid(),
    user_id uuid not null,
    target_version bigint not null,
    base_version bigint not null,
    policy_version integer not null,
    anchor date not null,
    from_date date,
    exercise_ids text [] collate "C" not null default '{}',
    window_only boolean not null default false,
    needs_batches boolean not null default false,
    phase text not null default 'claimed',
    payload jsonb not null default '{}',
    lease_token uuid not null default pg_catalog.gen_random_uuid(),
    lease_until timestamptz not null,
    lock_owner text,
    attempts integer not null default 1,
    retry_not_before timestamptz,
    compute_ms numeric(12, 3),
    publish_ms numeric(12, 3),
    error text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    completed_at timestamptz,
    constraint user_stats_projection_runs_pkey primary key (id),
    constraint user_stats_projection_runs_phase_known check (phase in ('claimed', 'computed', 'completed', 'failed')),
    constraint user_stats_projection_runs_forward check (target_version > base_version)
) with (fillfactor = 70);
create unique index user_stats_projection_runs_one_in_flight
on public.user_stats_projection_runs (user_id) where phase in ('claimed', 'computed');
create index user_stats_projection_runs_in_flight_idx
on public.user_stats_projection_runs (created_at) where phase in ('claimed', 'computed');
create index user_stats_projection_runs_user_idx on public.user_stats_projection_runs (user_id, created_at);
create index user_stats_projection_runs_completed_at_idx on public.user_stats_projection_runs (completed_at);

-- ---------------------------------------------------------------- read models

create table public.user_exercise_daily_rollups (
    user_id uuid not null,
    exercise_id text collate "C" not null,
    day date not null,
    sessions integer not null,
    sets integer not null,
    working_sets integer not null,
    reps bigint not null,
    volume_kg numeric not null,
    top_weight_kg numeric(8, 2),
    top_weight_reps integer,
    best_e1rm_kg numeric(10, 2),
    best_set_volume_kg numeric,
    max_reps integer,
    duration_seconds bigint not null,
    distance_m numeric not null,
    first_session_id uuid,
    constraint user_exercise_daily_rollups_pkey primary key (user_id, exercise_id, day),
    constraint user_exercise_daily_rollups_first_session_id_fkey foreign key (first_session_id)
        references public.workout_sessions (id) on delete set null deferrable initially deferred
);
create index user_exercise_daily_rollups_first_session_id_idx on public.user_exercise_daily_rollups (first_session_id);

create table public.user_exercise_records (
    user_id uuid not null,
    exercise_id text collate "C" not null,
    kind text collate "C" not null,
    day date not null,
    value numeric not null,
    previous_value numeric,
    is_baseline boolean not null,
    session_id uuid,
    constraint user_exercise_records_pkey primary key (user_id, exercise_id, kind, day),
    constraint user_exercise_records_kind_known check (kind in (
        'weight', 'e1rm', 'set_volume', 'day_volume', 'reps', 'duration', 'distance', 'least_assistance')),
    constraint user_exercise_records_session_id_fkey foreign key (session_id)
        references public.workout_sessions (id) on delete set null deferrable initially deferred
);
create index user_exercise_records_session_id_idx on public.user_exercise_records (session_id);

create table public.user_pr_overview_snapshot_headers (
    user_id uuid not null,
    as_of_date date not null,
    generation bigint not null,
    exercises integer not null,
    generated_at timestamptz not null,
    constraint user_pr_overview_snapshot_headers_pkey primary key (user_id, as_of_date)
) with (fillfactor = 70);

create table public.user_pr_exercise_summary_snapshots (
    user_id uuid not null,
    as_of_date date not null,
    exercise_id text collate "C" not null,
    best_weight_kg numeric(8, 2),
    best_weight_on date,
    best_weight_session_id uuid,
    best_e1rm_kg numeric(10, 2),
    best_e1rm_on date,
    best_e1rm_session_id uuid,
    one_rm_kg numeric(10, 2),
    one_rm_source text,
    one_rm_on date,
    weight_30d_kg numeric(8, 2),
    e1rm_30d_kg numeric(10, 2),
    weight_30d_last_year_kg numeric(8, 2),
    e1rm_30d_last_year_kg numeric(10, 2),
    last_performed_on date,
    sessions_30d integer not null,
    records_30d integer not null,
    constraint user_pr_exercise_summary_snapshots_pkey primary key (user_id, as_of_date, exercise_id),
    constraint user_pr_exercise_summary_snapshots_source_known check (one_rm_source in ('manual', 'estimate')),
    constraint user_pr_exercise_summary_snapshots_best_weight_session_id_fkey foreign key (best_weight_session_id)
        references public.workout_sessions (id) on delete set null deferrable initially deferred,
    constraint user_pr_exercise_summary_snapshots_best_e1rm_session_id_fkey foreign key (best_e1rm_session_id)
        references public.workout_sessions (id) on delete set null deferrable initially deferred
);
create index user_pr_exercise_summary_snapshots_best_weight_session_id_idx
on public.user_pr_exercise_summary_snapshots (best_weight_session_id);
create index user_pr_exercise_summary_snapshots_best_e1rm_session_id_idx
on public.user_pr_exercise_summary_snapshots (best_e1rm_session_id);

-- ---------------------------------------------------------------- private outputs: one table a read model
-- A row is one operation (i insert, u update, d delete) on one published row, valid only against the run's
-- base_version. `d` rows carry the key alone.

-- The exercises of a run that is computed in batches, frozen by its first step. position counts from 0.
create table stats_private.stats_batch_exercises (
    run_id uuid not null,
    lease_token uuid not null,
    position integer not null,
    exercise_id text collate "C" not null,
    constraint stats_batch_exercises_pkey primary key (run_id, lease_token, position)
);

create table stats_private.stats_output_daily_rollups (
    run_id uuid not null,
    lease_token uuid not null,
    exercise_id text collate "C" not null,
    day date not null,
    op "char" not null,
    sessions integer,
    sets integer,
    working_sets integer,
    reps bigint,
    volume_kg numeric,
    top_weight_kg numeric(8, 2),
    top_weight_reps integer,
    best_e1rm_kg numeric(10, 2),
    best_set_volume_kg numeric,
    max_reps integer,
    duration_seconds bigint,
    distance_m numeric,
    first_session_id uuid,
    constraint stats_output_daily_rollups_pkey primary key (run_id, lease_token, exercise_id, day),
    constraint stats_output_daily_rollups_op_known check (op in ('i', 'u', 'd'))
);

create table stats_private.stats_output_records (
    run_id uuid not null,
    lease_token uuid not null,
    exercise_id text collate "C" not null,
    kind text collate "C" not null,
    day date not null,
    op "char" not null,
    value numeric,
    previous_value numeric,
    is_baseline boolean,
    session_id uuid,
    constraint stats_output_records_pkey primary key (run_id, lease_token, exercise_id, kind, day),
    constraint stats_output_records_op_known check (op in ('i', 'u', 'd'))
);

create table stats_private.stats_output_pr_summaries (
    run_id uuid not null,
    lease_token uuid not null,
    as_of_date date not null,
    exercise_id text collate "C" not null,
    op "char" not null,
    best_weight_kg numeric(8, 2),
    best_weight_on date,
    best_weight_session_id uuid,
    best_e1rm_kg numeric(10, 2),
    best_e1rm_on date,
    best_e1rm_session_id uuid,
    one_rm_kg numeric(10, 2),
    one_rm_source text,
    one_rm_on date,
    weight_30d_kg numeric(8, 2),
    e1rm_30d_kg numeric(10, 2),
    weight_30d_last_year_kg numeric(8, 2),
    e1rm_30d_last_year_kg numeric(10, 2),
    last_performed_on date,
    sessions_30d integer,
    records_30d integer,
    constraint stats_output_pr_summaries_pkey primary key (run_id, lease_token, as_of_date, exercise_id),
    constraint stats_output_pr_summaries_op_known check (op in ('i', 'u', 'd'))
);
