-- public.enqueue_stale_user_exercise_stats_refresh_jobs(limit)
--   -> {response: scanned | idle | paused | failed, checked, found, lap_ended, has_more}
-- Promises: compares the next accounts behind the cursor with a rebuild and asks for a full one where any read model
--   differs, so damage of every kind is found within one lap. Accounts that are stale already, or become so, are left
--   alone: their own generation mends them. A page ends early when half its budget is used; a full lap is counted.
-- Locks: cursor row (skip locked), write (try), state row, job rows (skip locked)
-- Writes: stats_maintenance_cursors, user_stats_refresh_state, user_exercise_stats_refresh_jobs, private outputs
create or replace function public.enqueue_stale_user_exercise_stats_refresh_jobs(p_limit integer default 25)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_begun record;
    v_page jsonb;
    v_sqlstate text;
    v_error text;
begin
    select b.* into v_begun from stats_private.begin_page('repair') b;
    if v_begun.refusal is not null then
        return jsonb_build_object('response', v_begun.refusal, 'has_more', false);
    end if;
    begin
        v_page := stats_private.repair_page((v_begun.page).cursor::uuid, least(greatest(p_limit, 1), 1000));
        perform stats_private.end_page('repair', v_page ->> 'cursor');
        return v_page - 'cursor' || jsonb_build_object('response', 'scanned');
    exception
        when query_canceled then
            if sqlerrm <> 'canceling statement due to statement timeout' then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
        when others then
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
    end;
    return stats_private.fail_page('repair', v_sqlstate, v_error);
end;
$$;

create or replace function stats_private.repair_page(p_after uuid, p_limit integer)
returns jsonb
language plpgsql
as $$
declare
    v_ends_at timestamptz := clock_timestamp() + (
        select s.maintenance_budget_ms / 2 * interval '1 millisecond' from public.stats_projection_worker_settings s);
    v_state public.user_stats_refresh_state;
    v_cursor uuid;
    v_checked integer := 0;
    v_damaged public.user_stats_refresh_state [] := '{}';
    v_found integer := 0;
begin
    for v_state in
        select s.* from public.user_stats_refresh_state s
        where p_after is null or s.user_id > p_after
        order by s.user_id
        limit p_limit
    loop
        exit when clock_timestamp() > v_ends_at;
        v_cursor := v_state.user_id;
        v_checked := v_checked + 1;
        if v_state.applied_version = v_state.requested_version
            and stats_private.published_rows_differ(v_state.user_id)
        then
            v_damaged := v_damaged || v_state;
        end if;
    end loop;

    -- Only now, all together and briefly: a page that compares must not hold up anybody's save.
    foreach v_state in array v_damaged loop
        if stats_private.try_write_lock(v_state.user_id) and exists (
            select from public.user_stats_refresh_state s
            where s.user_id = v_state.user_id and s.requested_version = v_state.requested_version
                and s.applied_version = v_state.applied_version)
        then
            perform stats_private.try_enqueue_maintenance(
                v_state.user_id, null, '{}', 'scheduled_stats_backfill', 'repair', false);
            v_found := v_found + 1;
        end if;
    end loop;
    return jsonb_build_object(
        'checked', v_checked, 'found', v_found,
        'lap_ended', not exists (select from public.user_stats_refresh_state s where s.user_id > v_cursor),
        'cursor', (select v_cursor where exists (
            select from public.user_stats_refresh_state s where s.user_id > v_cursor)),
        'has_more', false);
end;
$$;

-- public.run_user_exercise_stats_backfill_scan_cron(limit): the scan as the schedule calls it.
-- Locks: as enqueue_stale_user_exercise_stats_refresh_jobs
create or replace function public.run_user_exercise_stats_backfill_scan_cron(p_limit integer default 25)
returns jsonb
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$ select public.enqueue_stale_user_exercise_stats_refresh_jobs(p_limit) $$;

-- True where a rebuild would change a published row of an account that nobody is at work on, or a header of its three
-- days is missing, of another generation, or one too many.
create or replace function stats_private.published_rows_differ(p_user_id uuid)
returns boolean
language plpgsql
as $$
declare
    v_integrity jsonb := public.validate_user_exercise_stats_integrity(p_user_id);
begin
    return (
        not (v_integrity ->> 'valid')::boolean
        or 3 <> (
            select count(*) filter (where h.generation = s.applied_version
                and h.as_of_date between s.published_anchor - 1 and s.published_anchor + 1)
                - 4 * count(*) filter (where h.as_of_date not between s.published_anchor - 1 and s.published_anchor + 1)
            from public.user_stats_refresh_state s
            left join public.user_pr_overview_snapshot_headers h on h.user_id = s.user_id
            where s.user_id = p_user_id)
    ) and not (v_integrity ->> 'stale')::boolean and not (v_integrity ->> 'moved')::boolean;
end;
$$;
