-- public.enqueue_user_exercise_stats_refresh_job(...) -> the new generation (requested_version)
-- Promises: one more generation for the account, in the caller's transaction, and one unlocked pending row whose
--   scope covers it. requested_version order is commit order: the state row's lock is held to the commit. A row
--   that a claim holds is left to it and the next row begins; processing rows are never touched. One NOTIFY where
--   a pending row begins, none where it grows. A row stays small whatever is merged into it: its exercises by
--   merge_scopes, its reasons and its metadata by limits of their own. Raises 22023 naming the argument that breaks a
--   rule, and 55P03 or 40001 as lock_account.sql says.
-- Locks: write, state row, job rows (skip locked)
-- Writes: user_stats_refresh_state, user_exercise_stats_refresh_jobs
-- Next: pipeline/claim.sql
create or replace function public.enqueue_user_exercise_stats_refresh_job(
    p_user_id uuid,
    p_from_date date,
    p_exercise_ids text [],
    p_event_type text,
    p_source_ref text default null,
    p_reason text default '',
    p_metadata jsonb default '{}',
    p_priority integer default 0,
    p_window_only boolean default false
)
returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_is_canonical_write boolean;
    v_has_long_id boolean;
    v_generation bigint;
    v_exercise_ids text [] := coalesce(p_exercise_ids, '{}');
    v_reason text := coalesce(p_reason, '');
    v_metadata jsonb := coalesce(p_metadata, '{}');
    v_priority integer := coalesce(p_priority, 0);
    v_scope stats_private.refresh_scope;
    v_problem text;
begin
    select
        (select t.is_canonical_write from public.stats_refresh_event_types t where t.id = p_event_type),
        exists (select from unnest(v_exercise_ids) x (id) where char_length(x.id) > 200)
    into v_is_canonical_write, v_has_long_id;
    v_problem := case
        when p_user_id is null then 'user_id: is required'
        when v_is_canonical_write is null then 'event_type: is not one of stats_refresh_event_types'
        -- Not every date has a timestamp, which a compute needs.
        when p_from_date not between '0001-01-01' and '9999-12-31'
            then 'from_date: must be a day of the years 1 to 9999, or null for the whole history'
        when array_ndims(v_exercise_ids) > 1 then 'exercise_ids: must be a plain list'
        when array_position(v_exercise_ids, null) is not null then 'exercise_ids: must not contain null'
        when v_has_long_id then 'exercise_ids: must have at most 200 characters each'
        when char_length(p_source_ref) > 500 then 'source_ref: must have at most 500 characters'
        when char_length(v_reason) > 2000 then 'reason: must have at most 2000 characters'
        when jsonb_typeof(v_metadata) <> 'object' then 'metadata: must be an object'
        when v_metadata <> '{}' and stats_private.size_problem(v_metadata, 8192) is not null
            then 'metadata: ' || stats_private.size_problem(v_metadata, 8192)
        when v_priority not in (0, 1) then 'priority: must be 0 (a person''s write) or 1 (maintenance)'
    end;
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;

    v_scope := stats_private.merge_scopes(
        array[(p_from_date, v_exercise_ids, coalesce(p_window_only, false))::stats_private.refresh_scope]);
    perform stats_private.lock_account(p_user_id);
    v_generation := stats_private.request_generation(p_user_id, v_is_canonical_write);
    if not stats_private.merge_into_pending_job(
        p_user_id, v_generation, v_scope, p_event_type, p_source_ref, v_reason, v_metadata, v_priority)
    then
        insert into public.user_exercise_stats_refresh_jobs (
            user_id, event_type, from_date, exercise_ids, reason, source_ref, metadata, requested_version, priority,
            window_only)
        values (
            p_user_id, p_event_type, v_scope.from_date, v_scope.exercise_ids, v_reason, p_source_ref,
            v_metadata || jsonb_build_object(
                'event_type', p_event_type, 'source_ref', p_source_ref, 'enqueued_at', clock_timestamp(),
                'merge_count', 0),
            v_generation, v_priority, v_scope.window_only);
        -- The payload is constant so that the server folds repeats within a transaction into one.
        perform pg_notify('stats_refresh_dirty', '');
    end if;
    return v_generation;
end;
$$;

-- Grows the account's unlocked pending row by one event; false where there is none to be had.
-- Locks: job rows (skip locked; the caller holds write and the state row)
create or replace function stats_private.merge_into_pending_job(
    p_user_id uuid, p_generation bigint, p_scope stats_private.refresh_scope,
    p_event_type text, p_source_ref text, p_reason text, p_metadata jsonb, p_priority integer
)
returns boolean
language plpgsql
as $$
declare
    v_job public.user_exercise_stats_refresh_jobs;
    v_scope stats_private.refresh_scope;
begin
    select j.* into v_job
    from public.user_exercise_stats_refresh_jobs j
    -- status || '': by the account's index, whatever the statistics say of the queue's.
    where j.user_id = p_user_id and j.status || '' = 'pending'
    order by j.requested_version desc
    limit 1
    for update skip locked;
    if not found then
        return false;
    end if;
    v_scope := stats_private.merge_scopes(
        array[(v_job.from_date, v_job.exercise_ids, v_job.window_only)::stats_private.refresh_scope, p_scope]);
    update public.user_exercise_stats_refresh_jobs j
    set from_date = v_scope.from_date,
        exercise_ids = v_scope.exercise_ids,
        window_only = v_scope.window_only,
        reason = stats_private.reason_with(v_job.reason, p_reason),
        metadata = stats_private.metadata_with(v_job.metadata, p_metadata) || jsonb_build_object(
            'event_type', p_event_type, 'source_ref', p_source_ref, 'enqueued_at', clock_timestamp(),
            'merge_count', coalesce((v_job.metadata ->> 'merge_count')::integer, 0) + 1),
        requested_version = p_generation,
        priority = least(v_job.priority, p_priority),
        updated_at = clock_timestamp()
    where j.id = v_job.id;
    return true;
end;
$$;

-- Appends a reason to the accumulated ones, once, and none over 2,000 characters: a row that is merged into all
-- day must stay small enough to be updated in place.
create or replace function stats_private.reason_with(p_reasons text, p_reason text)
returns text
language sql immutable
as $$
    select case
        when p_reason = '' or strpos('; ' || p_reasons || '; ', '; ' || p_reason || '; ') > 0 then p_reasons
        when p_reasons = '' then p_reason
        when char_length(p_reasons) + char_length(p_reason) > 2000 then p_reasons
        else p_reasons || '; ' || p_reason
    end
$$;

-- The metadata of a row with that of one more event; the event's is left out where the two are over 16 kB.
create or replace function stats_private.metadata_with(p_metadata jsonb, p_more jsonb)
returns jsonb
language sql immutable
as $$
    select case
        when octet_length(p_metadata::text) + octet_length(p_more::text) > 16384 then p_metadata
        else p_metadata || p_more
    end
$$;
