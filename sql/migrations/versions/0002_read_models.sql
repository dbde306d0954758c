-- Rep maxes, training periods and calendar days: the read models, and the private tables that a run fills for them.

-- ---------------------------------------------------------------- read models

create table public.user_exercise_rep_maxes (
    user_id uuid not null,
    exercise_id text collate "C" not null,
    reps integer not null,
    weight_kg numeric(8, 2) not null,
    achieved_on date not null,
    session_id uuid,
    constraint user_exercise_rep_maxes_pkey primary key (user_id, exercise_id, reps),
    constraint user_exercise_rep_maxes_reps_range check (reps between 1 and 12),
    constraint user_exercise_rep_maxes_session_id_fkey foreign key (session_id)
        references public.workout_sessions (id) on delete set null deferrable initially deferred
);
create index user_exercise_rep_maxes_session_id_idx on public.user_exercise_rep_maxes (session_id);

create table public.user_training_period_stats (
    user_id uuid not null,
    grain text collate "C" not null,
    period_start date not null,
    sessions integer not null,
    active_days integer not null,
    duration_seconds bigint not null,
    exercises integer not null,
    working_sets integer not null,
    reps bigint not null,
    volume_kg numeric not null,
    distance_m numeric not null,
    record_count integer not null,
    constraint user_training_period_stats_pkey primary key (user_id, grain, period_start),
    constraint user_training_period_stats_grain_known check (grain in ('day', 'week', 'month', 'quarter', 'year'))
);

create table public.user_calendar_day_summaries (
    user_id uuid not null,
    day date not null,
    sessions integer not null,
    titles text [] not null,
    exercises integer not null,
    working_sets integer not null,
    volume_kg numeric not null,
    duration_seconds bigint not null,
    record_count integer not null,
    constraint user_calendar_day_summaries_pkey primary key (user_id, day)
);

-- What looks across exercises asks for an account's days, and the keys begin with the exercise.
create index user_exercise_daily_rollups_user_day_idx on public.user_exercise_daily_rollups (user_id, day);
create index user_exercise_records_user_day_idx on public.user_exercise_records (user_id, day);

-- ---------------------------------------------------------------- published, but read by no client

-- Every load that was heavier, on its day, than all earlier ones of at least as many reps (12: 12 or more). The rep
-- maxes of any day follow from the steps up to it, so a scope that begins there never reads older sets.
create table stats_private.rep_max_steps (
    user_id uuid not null,
    exercise_id text collate "C" not null,
    reps integer not null,
    day date not null,
    weight_kg numeric(8, 2) not null,
    session_id uuid,
    constraint rep_max_steps_pkey primary key (user_id, exercise_id, reps, day),
    constraint rep_max_steps_session_id_fkey foreign key (session_id)
        references public.workout_sessions (id) on delete set null deferrable initially deferred
);
create index rep_max_steps_session_id_idx on stats_private.rep_max_steps (session_id);

-- ---------------------------------------------------------------- what a run reads for its last step

-- The account's sessions by day, from the same snapshot as the sets: what looks across exercises is derived after them.
create table stats_private.stats_input_days (
    run_id uuid not null,
    lease_token uuid not null,
    day date not null,
    sessions integer not null,
    titles text [] not null,
    duration_seconds bigint not null,
    constraint stats_input_days_pkey primary key (run_id, lease_token, day)
);

-- ---------------------------------------------------------------- private outputs

create table stats_private.stats_output_rep_maxes (
    run_id uuid not null,
    lease_token uuid not null,
    exercise_id text collate "C" not null,
    reps integer not null,
    op "char" not null,
    weight_kg numeric(8, 2),
    achieved_on date,
    session_id uuid,
    constraint stats_output_rep_maxes_pkey primary key (run_id, lease_token, exercise_id, reps),
    constraint stats_output_rep_maxes_op_known check (op in ('i', 'u', 'd'))
);

create table stats_private.stats_output_rep_max_steps (
    run_id uuid not null,
    lease_token uuid not null,
    exercise_id text collate "C" not null,
    reps integer not null,
    day date not null,
    op "char" not null,
    weight_kg numeric(8, 2),
    session_id uuid,
    constraint stats_output_rep_max_steps_pkey primary key (run_id, lease_token, exercise_id, reps, day),
    constraint stats_output_rep_max_steps_op_known check (op in ('i', 'u', 'd'))
);

create table stats_private.stats_output_periods (
    run_id uuid not null,
    lease_token uuid not null,
    grain text collate "C" not null,
    period_start date not null,
    op "char" not null,
    sessions integer,
    active_days integer,
    duration_seconds bigint,
    exercises integer,
    working_sets integer,
    reps bigint,
    volume_kg numeric,
    distance_m numeric,
    record_count integer,
    constraint stats_output_periods_pkey primary key (run_id, lease_token, grain, period_start),
    constraint stats_output_periods_op_known check (op in ('i', 'u', 'd'))
);

create table stats_private.stats_output_calendar (
    run_id uuid not null,
    lease_token uuid not null,
    day date not null,
    op "char" not null,
    sessions integer,
    titles text [],
    exercises integer,
    working_sets integer,
    volume_kg numeric,
    duration_seconds bigint,
    record_count integer,
    constraint stats_output_calendar_pkey primary key (run_id, lease_token, day),
    constraint stats_output_calendar_op_known check (op in ('i', 'u', 'd'))
);

-- What is published so far has none of these rows; under a new policy version every account's next run rebuilds all.
update public.stats_projection_policy p
set policy_version = p.policy_version + 1
where exists (select from public.user_stats_refresh_state s where s.applied_version > 0);
