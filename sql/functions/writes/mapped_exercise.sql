-- stats_private.mapped_exercise(provider, external_id, user_id) -> the exercise, archived or not; no row: none
-- Promises: what a provider's exact identity stands for to an account, by the account's own mapping before the global
--   one. A mapping that leads to another account's exercise counts for nothing: no save may name that exercise.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.mapped_exercise(p_provider text, p_external_id text, p_user_id uuid)
returns setof public.exercises
language sql stable
as $$
    select x.*
    from public.exercise_external_mappings m
    join public.exercises x on x.id = m.exercise_id and (x.owner_user_id is null or x.owner_user_id = p_user_id)
    where m.provider = p_provider and m.external_id = p_external_id
        and (m.owner_user_id = p_user_id or m.owner_user_id is null)
    order by m.owner_user_id nulls last
    limit 1
$$;
