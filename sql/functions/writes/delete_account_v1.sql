-- public.delete_account_v1(user_id) -> {done, deleted, waiting_for}
-- Promises: deletes everything of an account, with all mappings that lead to its exercises, at most 5,000 rows (and
--   the sets of deleted parts) a call: call it again, each in a transaction of its own, until done is true. done false
--   with waiting_for (worker or run) means that somebody computes the account right now: nothing was deleted, call
--   again in a second. Open work goes first, and a run in flight loses its lease with its row, so nothing comes back.
--   Close the account's sign-in before: what it saves meanwhile is saved. Its id stays in the cursors of repair and
--   of a walk until these go on, and in the history of runs for 7 days. Raises 42501 and 22023, and 55P03 or 40001 as
--   lock_account.sql says.
-- Locks: worker (try), run row (skip locked), write, then every row of the account
-- Writes: every table of ours that names the account
create or replace function public.delete_account_v1(user_id uuid)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_waiting_for text;
    v_deleted integer := 0;
begin
    if not stats_private.is_service() then
        raise exception using errcode = '42501', message = 'only the service deletes accounts';
    end if;
    perform stats_private.require_argument('user_id', user_id is null);
    v_waiting_for := case
        when not stats_private.try_worker_lock(user_id) then 'worker'
        when not stats_private.take_account_run(user_id) then 'run'
    end;
    if v_waiting_for is null then
        perform stats_private.lock_account(user_id);
        v_deleted := stats_private.delete_account_rows(user_id, 5000);
    end if;
    return jsonb_build_object(
        'done', v_waiting_for is null and v_deleted < 5000, 'deleted', v_deleted, 'waiting_for', v_waiting_for);
end;
$$;

-- Locks the account's run in flight and declares its token; true where there is none, or none any more. The caller
-- holds the worker lock, so no claim begins another.
-- Locks: run row (skip locked)
create or replace function stats_private.take_account_run(p_user_id uuid)
returns boolean
language plpgsql
as $$
declare
    v_lease_token uuid;
begin
    select r.lease_token into v_lease_token
    from public.user_stats_projection_runs r
    where r.user_id = p_user_id and r.phase in ('claimed', 'computed')
    for update skip locked;
    if found then
        perform set_config('lift_guild.stats_lease_token', v_lease_token::text, true);
        return true;
    end if;
    return not exists (
        select from public.user_stats_projection_runs r
        where r.user_id = p_user_id and r.phase in ('claimed', 'computed'));
end;
$$;

-- Deletes up to p_limit rows of the account and returns how many; fewer than p_limit: there are no more.
create or replace function stats_private.delete_account_rows(p_user_id uuid, p_limit integer)
returns integer
language plpgsql
as $$
declare
    v_part record;
    v_deleted integer;
    v_total integer := 0;
begin
    -- Without open work and its run nothing more is published, however many calls the rest takes.
    delete from public.user_exercise_stats_refresh_jobs j
    where j.user_id = p_user_id and j.status <> 'completed';
    perform stats_private.delete_outputs(r.id)
    from public.user_stats_projection_runs r
    where r.user_id = p_user_id and r.phase in ('claimed', 'computed');
    delete from public.user_stats_projection_runs r
    where r.user_id = p_user_id and r.phase in ('claimed', 'computed');

    for v_part in select p.table_name, p.condition from stats_private.tables_of_accounts() p order by p.place loop
        -- First, and waiting for whoever changes one: a delete by place would pass by a row that has just moved.
        execute format('select from %1$s x where %2$s limit $2 for update', v_part.table_name, v_part.condition)
        using p_user_id, p_limit - v_total;
        execute format(
            'delete from %1$s t where t.ctid = any (array(select x.ctid from %1$s x where %2$s limit $2))',
            v_part.table_name, v_part.condition)
        using p_user_id, p_limit - v_total;
        get diagnostics v_deleted = row_count;
        v_total := v_total + v_deleted;
        exit when v_total >= p_limit;
    end loop;
    return v_total;
end;
$$;

-- Every table of ours with rows of accounts, and which rows x are those of account $1, in the order in which they
-- may go: what refers before what it refers to, what the trigger on exercises writes after these; the generations
-- last. A table stands here once for each of its columns that leads to the account. Read from the catalog, so that no
-- table added later is forgotten.
create or replace function stats_private.tables_of_accounts()
returns table (table_name regclass, condition text, place bigint)
language sql stable
as $$
    select c.oid::regclass, k.condition, row_number() over (
        order by array_position(
            array[
                'user_stats_projection_runs', 'session_exercise_part', 'workout_sessions', 'user_manual_pr_records',
                'exercise_external_mappings', 'exercises', 'exercise_catalog_changes', 'stats_catalog_scopes',
                'user_stats_refresh_state'],
            c.relname::text) nulls first,
        c.relname)
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
    cross join lateral (values (case
        when a.attname in ('user_id', 'owner_user_id') and a.atttypid = 'uuid'::regtype
            then format('x.%I = $1', a.attname)
        when a.attname = 'run_id' and c.relnamespace = 'stats_private'::regnamespace
            then 'x.run_id in (select r.id from public.user_stats_projection_runs r where r.user_id = $1)'
        when a.attname = 'scope' then 'x.scope::text = $1::text'
        -- Whoever's they are: they hold the exercise, and lead nobody but this account to it.
        when c.relname = 'exercise_external_mappings' and a.attname = 'exercise_id'
            then 'x.exercise_id in (select e.id from public.exercises e where e.owner_user_id = $1)'
    end)) k (condition)
    where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'stats_private'::regnamespace)
        -- The app's own tables in the same schema are not ours to empty.
        and c.relowner = 'stats_refresh_owner'::regrole
        and k.condition is not null
$$;
