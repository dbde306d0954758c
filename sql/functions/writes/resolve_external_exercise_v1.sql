-- public.resolve_external_exercise_v1(provider, external_id, name, tracking, expected_user_id)
--   -> {exercise_id, tracking, archived, created}
-- Promises: the exercise that a provider's exact identity stands for: the one that it is mapped to
--   (writes/mapped_exercise.sql), else a new personal exercise with the given name and tracking, and the mapping to
--   find it again. An archived one takes no new sets until upsert_exercise_v1 brings it back. Raises 42501 and 22023,
--   and 55P03 or 40001 as lock_account.sql says.
-- Locks: write, state row, canonical rows
-- Writes: exercises, exercise_external_mappings
create or replace function public.resolve_external_exercise_v1(
    p_provider text, p_external_id text, p_name text, p_tracking text, p_expected_user_id uuid
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_found jsonb;
    v_exercise_id text;
begin
    v_user_id := stats_private.owner_of_write(p_expected_user_id::text);
    perform stats_private.require_argument('provider', coalesce(p_provider, '') = '');
    perform stats_private.require_argument('external_id', coalesce(p_external_id, '') = '');
    if char_length(p_provider) > 100 or char_length(p_external_id) > 500 then
        raise exception using errcode = '22023', message = case
            when char_length(p_provider) > 100 then 'provider: must have at most 100 characters'
            else 'external_id: must have at most 500 characters' end;
    end if;
    perform stats_private.lock_account(v_user_id);
    select jsonb_build_object(
        'exercise_id', x.id, 'tracking', x.tracking, 'archived', x.archived_at is not null, 'created', false)
    into v_found
    from stats_private.mapped_exercise(p_provider, p_external_id, v_user_id) x;
    if found then
        return v_found;
    end if;
    perform stats_private.validate_exercise(p_name, p_tracking, null);
    insert into public.exercises as x (owner_user_id, name, tracking)
    values (v_user_id, p_name, p_tracking)
    returning x.id into v_exercise_id;
    insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)
    values (p_provider, p_external_id, v_user_id, v_exercise_id)
    -- One that leads to another account's exercise.
    on conflict (provider, external_id, owner_user_id) do update set exercise_id = excluded.exercise_id;
    return jsonb_build_object(
        'exercise_id', v_exercise_id, 'tracking', p_tracking, 'archived', false, 'created', true);
end;
$$;
