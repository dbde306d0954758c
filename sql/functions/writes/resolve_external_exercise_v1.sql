-- public.resolve_external_exercise_v1(provider, external_id, name, tracking, expected_user_id)
--   -> {exercise_id, tracking, created}
-- Promises: the exercise that a provider's exact identity stands for: by the account's own mapping, else the global
--   one, else a new personal exercise with the given name and tracking, and the mapping to find it again.
--   Raises 42501 and 22023.
-- Locks: write, canonical rows
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
    v_created jsonb;
begin
    v_user_id := stats_private.owner_of_write(p_expected_user_id::text);
    if coalesce(p_provider, '') = '' or coalesce(p_external_id, '') = '' then
        raise exception using errcode = '22023',
            message = case when coalesce(p_provider, '') = '' then 'provider' else 'external_id' end || ': is required';
    end if;
    perform stats_private.lock_writes(v_user_id);
    select jsonb_build_object('exercise_id', x.id, 'tracking', x.tracking, 'created', false) into v_found
    from public.exercise_external_mappings m
    join public.exercises x on x.id = m.exercise_id
    where m.provider = p_provider and m.external_id = p_external_id
        and (m.owner_user_id = v_user_id or m.owner_user_id is null)
    order by m.owner_user_id nulls last
    limit 1;
    if found then
        return v_found;
    end if;
    v_created := public.upsert_exercise_v1(p_name, p_tracking, v_user_id);
    insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)
    values (p_provider, p_external_id, v_user_id, v_created ->> 'exercise_id');
    return jsonb_build_object(
        'exercise_id', v_created ->> 'exercise_id', 'tracking', p_tracking, 'created', true);
end;
$$;
