-- public.import_exercise_v1(provider, name, tracking, assisted, expected_user_id)
--   -> {exercise_id, tracking, archived, created, widened_from}
-- Promises: the exercise that a name of an imported file stands for (imports/exercise_of_import.sql), else a new one of
--   the account with the tracking that the file shows, and the mapping to find it again. One whose tracking an import
--   chose, and nobody has set since, is widened to what the file shows (imports/widened_tracking.sql), which dirties it
--   over all history. One that a person or the catalog set stays as it is. assisted: the name itself says assistance.
--   Raises 42501, 22023, and 55P03 or 40001 as lock_account.sql says.
-- Locks: write, state row, job rows (skip locked), canonical rows
-- Writes: exercises, exercise_external_mappings, user_stats_refresh_state, user_exercise_stats_refresh_jobs,
--   exercise_catalog_changes
create or replace function public.import_exercise_v1(
    p_provider text, p_name text, p_tracking text, p_assisted boolean, p_expected_user_id uuid
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.owner_of_write(p_expected_user_id::text);
    v_found public.exercises;
    v_tracking text := p_tracking;
begin
    perform stats_private.require_argument('provider', coalesce(p_provider, '') = '');
    if char_length(p_provider) > 100 then
        raise exception using errcode = '22023', message = 'provider: must have at most 100 characters';
    end if;
    perform stats_private.validate_exercise(p_name, p_tracking, null);
    perform stats_private.lock_account(v_user_id);

    select x.* into v_found from stats_private.exercise_of_import(p_provider, p_name, v_user_id) x;
    if not found then
        insert into public.exercises as x (owner_user_id, name, tracking, tracking_from_import)
        values (v_user_id, p_name, p_tracking, true)
        returning x.* into v_found;
    else
        v_tracking := stats_private.widened_tracking(v_found, p_tracking, p_assisted, v_user_id);
        if v_tracking <> v_found.tracking then
            perform stats_private.widen_exercise(v_user_id, v_found.id, v_tracking);
        end if;
    end if;
    if not exists (select from stats_private.mapped_exercise(p_provider, p_name, v_user_id)) then
        insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)
        values (p_provider, p_name, v_user_id, v_found.id)
        -- One that leads to another account's exercise.
        on conflict (provider, external_id, owner_user_id) do update set exercise_id = excluded.exercise_id;
    end if;
    return jsonb_build_object(
        'exercise_id', v_found.id, 'tracking', v_tracking, 'archived', v_found.archived_at is not null,
        'widened_from', case when v_tracking <> v_found.tracking then v_found.tracking end);
end;
$$;

-- Changes how an exercise of the account is tracked, as an import found out.
-- Locks: state row, job rows (skip locked), canonical rows (the caller holds write)
create or replace function stats_private.widen_exercise(p_user_id uuid, p_exercise_id text, p_tracking text)
returns void
language plpgsql
as $$
begin
    perform public.enqueue_user_exercise_stats_refresh_job(
        p_user_id, null, array[p_exercise_id], 'exercise_changed', 'exercise:' || p_exercise_id,
        'exercise tracking widened by an import');
    -- For the trigger on exercises: no walk is needed besides.
    perform set_config('lift_guild.stats_enqueued_exercise', p_exercise_id, true);
    update public.exercises x set tracking = p_tracking, updated_at = clock_timestamp() where x.id = p_exercise_id;
end;
$$;
