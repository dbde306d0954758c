-- public.run_stats_catalog_walk_v1(limit) -> {response: walked | idle | paused | failed, scope, requested, has_more}
-- Promises: one page of one walk: at most limit (1 to 1000) accounts after the cursor, each asked for a generation
--   of the walked exercises over all history. It stops before an account whose write lock is not to be had, and
--   after a quarter of a second; the next page begins there.
-- Locks: cursor row (skip locked), scope row (skip locked), write (try), state row, job rows (skip locked)
-- Writes: stats_catalog_scopes, stats_maintenance_cursors, user_stats_refresh_state,
--   user_exercise_stats_refresh_jobs
create or replace function public.run_stats_catalog_walk_v1(p_limit integer default 100)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_begun record;
    v_answer jsonb;
    v_sqlstate text;
    v_error text;
begin
    select b.* into v_begun from stats_private.begin_page('catalog') b;
    if v_begun.refusal is not null then
        return jsonb_build_object('response', v_begun.refusal, 'has_more', false);
    end if;
    begin
        v_answer := stats_private.walk_page(least(greatest(p_limit, 1), 1000));
        perform stats_private.end_page('catalog', null);
        return v_answer;
    exception
        when query_canceled or others then
            if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
    end;
    return stats_private.fail_page('catalog', v_sqlstate, v_error);
end;
$$;

create or replace function stats_private.walk_page(p_limit integer)
returns jsonb
language plpgsql
as $$
declare
    v_scope public.stats_catalog_scopes;
    v_ends_at timestamptz;
    v_user_id uuid;
    v_requested integer := 0;
begin
    select s.* into v_scope
    from public.stats_catalog_scopes s
    where cardinality(s.walking_exercise_ids) > 0 or cardinality(s.pending_exercise_ids) > 0
    -- The one that waits longest; one that a clock which ran ahead dated would come last of all.
    order by not stats_private.is_ahead(s.updated_at), s.updated_at
    limit 1
    for update skip locked;
    if not found then
        return jsonb_build_object('response', 'idle', 'requested', 0, 'has_more', false);
    elsif cardinality(v_scope.walking_exercise_ids) = 0 then
        v_scope.walking_exercise_ids := v_scope.pending_exercise_ids;
        v_scope.pending_exercise_ids := '{}';
        v_scope.walking_token := v_scope.token;
        v_scope.cursor := null;
    end if;

    v_ends_at := stats_private.page_ends_at();
    loop
        v_user_id := stats_private.next_account_to_walk(v_scope);
        exit when v_user_id is null or v_requested >= p_limit or clock_timestamp() > v_ends_at;
        exit when not stats_private.try_enqueue_maintenance(
            v_user_id, null,
            case when v_scope.scope = 'policy' then '{}' else v_scope.walking_exercise_ids end,
            case when v_scope.scope = 'policy' then 'policy_changed' else 'catalog_changed' end,
            'catalog:' || v_scope.scope || ':' || v_scope.walking_token, false);
        v_scope.cursor := v_user_id;
        v_requested := v_requested + 1;
    end loop;
    -- Ended only when nobody is left behind the cursor, so not by a busy account.
    if v_user_id is null then
        v_scope.walking_exercise_ids := '{}';
        -- It names an account, which may be deleted.
        v_scope.cursor := null;
    end if;
    perform stats_private.remember_walk(v_scope);
    return jsonb_build_object(
        'response', 'walked', 'scope', v_scope.scope, 'requested', v_requested,
        'has_more', (v_requested > 0 or v_user_id is null) and exists (
            select from public.stats_catalog_scopes s
            where cardinality(s.walking_exercise_ids) > 0 or cardinality(s.pending_exercise_ids) > 0));
end;
$$;

create or replace function stats_private.remember_walk(p_scope public.stats_catalog_scopes)
returns void
language plpgsql
as $$
begin
    -- An account's own scope has nothing more to remember; the two that last keep their tokens.
    if p_scope.scope not in ('global', 'policy')
        and p_scope.pending_exercise_ids = '{}' and p_scope.walking_exercise_ids = '{}'
    then
        delete from public.stats_catalog_scopes s where s.scope = p_scope.scope;
        return;
    end if;
    update public.stats_catalog_scopes s
    set pending_exercise_ids = p_scope.pending_exercise_ids,
        walking_exercise_ids = p_scope.walking_exercise_ids,
        walking_token = p_scope.walking_token,
        cursor = p_scope.cursor,
        updated_at = clock_timestamp()
    where s.scope = p_scope.scope;
end;
$$;

-- The next account behind the walk's cursor: one that uses its exercises in sessions or manual records; for the
-- policy, one whose published rows, or the run that will publish the first ones, may follow an older one. Two index
-- probes an exercise, however many rows an account has of it.
create or replace function stats_private.next_account_to_walk(p_scope public.stats_catalog_scopes)
returns uuid
language plpgsql stable
as $$
declare
    v_after uuid := coalesce(p_scope.cursor, '00000000-0000-0000-0000-000000000000');
begin
    if p_scope.scope = 'policy' then
        return (
            select s.user_id from public.user_stats_refresh_state s
            where s.user_id > v_after and s.applied_policy_version is distinct from (
                select p.policy_version from public.stats_projection_policy p)
            order by s.user_id
            limit 1);
    end if;
    return (
        select a.user_id
        from unnest(p_scope.walking_exercise_ids) e (id)
        cross join lateral (
            (
                select p.user_id from public.session_exercise_part p
                where p.exercise_id = e.id and p.user_id > v_after
                order by p.user_id
                limit 1
            )
            union all
            (
                select m.user_id from public.user_manual_pr_records m
                where m.exercise_id = e.id and m.user_id > v_after
                order by m.user_id
                limit 1
            )
        ) a
        order by a.user_id
        limit 1);
end;
$$;
