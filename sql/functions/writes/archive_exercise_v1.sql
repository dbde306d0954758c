-- public.archive_exercise_v1(exercise_id, expected_user_id) -> {exercise_id, archived_at}
-- Promises: no new session may name the exercise; those that have it keep it, through later edits too. Never
--   deletes: ids that clients and mappings hold stay valid. Published numbers do not change, so nothing is dirty.
--   Archiving it again answers the same; upsert_exercise_v1 on its id brings it back.
--   Raises 42501 (a global one, and no administrator), 22023, P0002 (this account has no such exercise), and 55P03 or
--   40001 as lock_account.sql says.
-- Locks: write, state row, canonical rows
-- Writes: exercises
create or replace function public.archive_exercise_v1(p_exercise_id text, p_expected_user_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_exercise public.exercises;
    v_lock_timeout text;
begin
    v_user_id := stats_private.owner_of_write(p_expected_user_id::text);
    perform stats_private.require_argument('exercise_id', p_exercise_id is null);
    perform stats_private.lock_account(v_user_id);
    select x.* into v_exercise
    from public.exercises x
    where x.id = p_exercise_id and (x.owner_user_id is null or x.owner_user_id = v_user_id);
    if not found then
        raise exception using errcode = 'P0002', message = 'exercise_id: this account has no such exercise';
    elsif v_exercise.owner_user_id is null and not stats_private.is_admin() then
        raise exception using errcode = '42501', message = 'exercise_id: only an administrator changes the catalog';
    end if;
    v_lock_timeout := stats_private.limit_waits();
    update public.exercises x
    set archived_at = coalesce(x.archived_at, clock_timestamp()), updated_at = clock_timestamp()
    where x.id = p_exercise_id
    returning x.* into v_exercise;
    perform set_config('lock_timeout', v_lock_timeout, true);
    return jsonb_build_object('exercise_id', v_exercise.id, 'archived_at', v_exercise.archived_at);
end;
$$;
