-- Catalog and policy walks: when a number's definition changes, every account that it touches gets a new generation.
-- Promises: the change notes itself in its own transaction, so none is lost to a late commit or a pruned log, whoever
--   made it. A walk moves the pending ids to walking and goes through the accounts that use them by a persistent
--   cursor; a change during a walk leaves one follow-up walk. A change by upsert_exercise_v1 of an account's own
--   exercise asks for the generation itself and leaves no walk.
-- Locks: scope row
-- Writes: exercise_catalog_changes, stats_catalog_scopes, pr_overview_projection_control

-- Notes exercises for the next walk of a scope.
create or replace function stats_private.note_catalog_change(p_scope text, p_exercise_ids text [])
returns void
language sql
as $$
    insert into public.stats_catalog_scopes as s (scope, pending_exercise_ids, token)
    values (p_scope, p_exercise_ids, 1)
    on conflict (scope) do update set
        pending_exercise_ids = array(
            select distinct i.id from unnest(s.pending_exercise_ids || excluded.pending_exercise_ids) i (id)
            order by i.id),
        token = s.token + 1,
        updated_at = clock_timestamp()
$$;

create or replace function stats_private.note_exercise_change_v1()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into public.exercise_catalog_changes (exercise_id, scope, change)
    values (new.id, new.owner_user_id, format('tracking %s -> %s', old.tracking, new.tracking));
    if current_setting('lift_guild.stats_enqueued_exercise', true) is distinct from new.id then
        perform stats_private.note_catalog_change(coalesce(new.owner_user_id::text, 'global'), array[new.id]);
    end if;
    if new.owner_user_id is null then
        update public.pr_overview_projection_control c
        set catalog_epoch = c.catalog_epoch + 1, updated_at = clock_timestamp();
    end if;
    return null;
end;
$$;

create or replace trigger note_exercise_change_v1
after update of tracking on public.exercises
for each row when (old.tracking is distinct from new.tracking)
execute function stats_private.note_exercise_change_v1();

-- A policy change touches every account; its "exercise" is the policy itself.
create or replace function stats_private.note_policy_change_v1()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.note_catalog_change('policy', array['policy']);
    return null;
end;
$$;

create or replace trigger note_policy_change_v1
after update of policy_version on public.stats_projection_policy
for each row when (old.policy_version is distinct from new.policy_version)
execute function stats_private.note_policy_change_v1();
