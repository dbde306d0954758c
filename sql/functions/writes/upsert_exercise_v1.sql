-- public.upsert_exercise_v1(name, tracking, expected_user_id, exercise_id, global) -> {exercise_id, ...}
-- Promises: without exercise_id a new exercise, personal or (administrators only) global; with it a change of the
--   account's own or a global one, which also brings it back from the archive. A change of tracking dirties the
--   exercise over all history: the account's own at once, a global one by a walk through the accounts that use it
--   (maintenance/catalog.sql). No import changes the tracking after that. No account's open transaction holds up a
--   change of the catalog; another administrator's and an import of a WodUp batch do, for 10 s (55P03). Raises 42501,
--   22023, P0002 (this account has no such exercise), and 55P03 or 40001 as lock_account.sql says.
-- Locks: write, state row, job rows (skip locked), canonical rows, scope row
-- Writes: exercises, user_stats_refresh_state, user_exercise_stats_refresh_jobs, exercise_catalog_changes,
--   stats_catalog_scopes, pr_overview_projection_control
create or replace function public.upsert_exercise_v1(
    p_name text, p_tracking text, p_expected_user_id uuid, p_exercise_id text default null,
    p_global boolean default false
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_global boolean := coalesce(p_global, false);
    v_old public.exercises;
    v_exercise_id text := coalesce(p_exercise_id, gen_random_uuid()::text);
    v_generation bigint;
    v_created boolean;
    v_lock_timeout text;
begin
    v_user_id := stats_private.owner_of_write(p_expected_user_id::text);
    if v_global and not stats_private.is_admin() then
        raise exception using errcode = '42501', message = 'global: only an administrator changes the catalog';
    end if;
    perform stats_private.validate_exercise(p_name, p_tracking, p_exercise_id);

    perform stats_private.lock_account(v_user_id);
    v_lock_timeout := stats_private.limit_waits();
    if not v_global then
        select x.* into v_old
        from public.exercises x where x.id = p_exercise_id and x.owner_user_id = v_user_id;
        if not found and p_exercise_id is not null then
            raise exception using errcode = 'P0002', message = 'exercise_id: this account has no such exercise';
        elsif v_old.tracking <> p_tracking then
            v_generation := public.enqueue_user_exercise_stats_refresh_job(
                v_user_id, null, array[p_exercise_id], 'exercise_changed', 'exercise:' || p_exercise_id,
                'exercise tracking changed');
            -- For the trigger on exercises: no walk is needed besides.
            perform set_config('lift_guild.stats_enqueued_exercise', p_exercise_id, true);
        end if;
    end if;

    insert into public.exercises as x (id, owner_user_id, name, tracking)
    values (v_exercise_id, case when not v_global then v_user_id end, p_name, p_tracking)
    on conflict (id) do update set
        name = excluded.name, tracking = excluded.tracking, tracking_from_import = false, archived_at = null,
        updated_at = clock_timestamp()
    where x.owner_user_id is not distinct from excluded.owner_user_id
    -- Another one may have added the id since it was looked for; a row that was there has been locked for its update.
    returning x.xmax = 0 into v_created;
    if not found then
        raise exception using errcode = '22023', message = 'exercise_id: is taken';
    end if;
    perform set_config('lock_timeout', v_lock_timeout, true);
    return jsonb_build_object(
        'exercise_id', v_exercise_id, 'name', p_name, 'tracking', p_tracking, 'global', v_global,
        'created', v_created, 'statsRequestedVersion', v_generation);
end;
$$;

-- Raises 22023 naming the field that breaks a rule.
create or replace function stats_private.validate_exercise(p_name text, p_tracking text, p_exercise_id text)
returns void
language plpgsql immutable
as $$
declare
    v_problem text := stats_private.exercise_problem(p_name, p_tracking, p_exercise_id);
begin
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;
end;
$$;

-- Names the first field that breaks a rule, and the rule; null where none does.
create or replace function stats_private.exercise_problem(p_name text, p_tracking text, p_exercise_id text)
returns text
language sql immutable
as $$
    select case
        when p_name is null or btrim(p_name) = '' then 'name: is required'
        when char_length(p_name) > 200 then 'name: must have at most 200 characters'
        when p_tracking is null then 'tracking: is required'
        when p_tracking not in (
            'weight_reps', 'bodyweight_reps', 'assisted_reps', 'reps_only', 'duration', 'distance_duration',
            'weight_duration', 'weight_distance') then 'tracking: is not a known way of tracking'
        when p_exercise_id is not null and char_length(p_exercise_id) not between 1 and 200
            then 'exercise_id: must have 1 to 200 characters'
    end
$$;
