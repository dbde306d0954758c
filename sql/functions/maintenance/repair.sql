-- public.enqueue_stale_user_exercise_stats_refresh_jobs(limit)
--   -> {response: scanned | idle | paused | failed, checked, found, lap_ended, has_more}
-- Promises: compares the next accounts behind the cursor with a rebuild and asks for a full one where any read model
--   differs, or where no rollover is due, so damage of every kind is found within one lap over all accounts that have
--   rows. Accounts that are stale already, or become so, are left alone: their own generation mends them; one that
--   somebody writes to is left for the next lap. A page ends early when half its budget is used; a full lap is
--   counted. An account that can't be compared ends the page before it; where it fails the next pages too it is
--   passed, and the answer names it.
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
    v_page record;
    v_found integer;
    v_sqlstate text;
    v_error text;
begin
    select b.* into v_begun from stats_private.begin_page('repair') b;
    if v_begun.refusal is not null then
        return jsonb_build_object('response', v_begun.refusal, 'has_more', false);
    end if;
    begin
        select p.* into v_page
        from stats_private.compare_page((v_begun.page).cursor::uuid, least(greatest(p_limit, 1), 1000)) p;
        v_found := stats_private.enqueue_damaged(v_page.damaged);
        perform stats_private.end_page('repair', v_page.last_user_id::text, v_page.last_user_id is null);
        return jsonb_build_object(
            'response', 'scanned', 'checked', v_page.checked, 'found', v_found,
            'lap_ended', v_page.last_user_id is null, 'has_more', false);
    exception
        when query_canceled or others then
            if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
    end;
    return stats_private.fail_page('repair', v_sqlstate, v_error)
        || stats_private.pass_account_after_failures(v_begun.page);
end;
$$;

-- Compares the next accounts. damaged: those that differ, {user_id: versions that were compared}; last_user_id: the
-- last one compared, null where none is left behind it.
create or replace function stats_private.compare_page(
    p_after uuid, p_limit integer,
    out checked integer, out damaged jsonb, out last_user_id uuid
)
language plpgsql
as $$
declare
    v_ends_at timestamptz := clock_timestamp() + (
        select s.maintenance_budget_ms / 2 * interval '1 millisecond' from public.stats_projection_worker_settings s);
    v_user_id uuid := stats_private.next_account(p_after);
    v_versions jsonb;
begin
    checked := 0;
    damaged := '{}';
    last_user_id := p_after;
    begin
        while v_user_id is not null and checked < p_limit and (checked = 0 or clock_timestamp() < v_ends_at) loop
            v_versions := stats_private.versions_of(v_user_id);
            if stats_private.published_rows_differ(v_user_id) then
                damaged := damaged || jsonb_build_object(v_user_id, v_versions);
            end if;
            checked := checked + 1;
            last_user_id := v_user_id;
            v_user_id := stats_private.next_account(last_user_id);
        end loop;
    exception
        when query_canceled or others then
            -- It fails the next page, as its first account.
            if checked = 0 or stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                raise;
            end if;
    end;
    if v_user_id is null then
        last_user_id := null;
    end if;
end;
$$;

-- Only now, all together and briefly: a page that compares must not hold up anybody's save. Returns how many.
-- Locks: write (try), state row, job rows (skip locked)
create or replace function stats_private.enqueue_damaged(p_damaged jsonb)
returns integer
language plpgsql
as $$
declare
    v_user_id uuid;
    v_versions jsonb;
    v_found integer := 0;
begin
    for v_user_id, v_versions in select d.key, d.value from jsonb_each(p_damaged) d loop
        if stats_private.try_write_lock(v_user_id) and stats_private.is_still_damaged(v_user_id, v_versions) then
            perform public.enqueue_user_exercise_stats_refresh_job(
                v_user_id, null, '{}', 'scheduled_stats_backfill', 'repair', 'scheduled stats backfill',
                p_priority => 1);
            v_found := v_found + 1;
        end if;
    end loop;
    return v_found;
end;
$$;

-- True where neither a save nor a publication came since the comparison. One that had no generation is compared again:
-- nothing else tells that it was deleted meanwhile.
create or replace function stats_private.is_still_damaged(p_user_id uuid, p_versions jsonb)
returns boolean
language plpgsql
as $$
begin
    if stats_private.versions_of(p_user_id) is distinct from p_versions then
        return false;
    end if;
    return p_versions is distinct from 'null' or stats_private.published_rows_differ(p_user_id);
end;
$$;

-- The account's generations; JSON's null where it has none.
create or replace function stats_private.versions_of(p_user_id uuid)
returns jsonb
language sql volatile
as $$
    select coalesce(
        (
            select jsonb_build_array(s.requested_version, s.applied_version)
            from public.user_stats_refresh_state s where s.user_id = p_user_id
        ),
        'null')
$$;

-- Goes past the page's first account where it has failed max_attempts pages: one that can't be compared within the
-- budget must not keep the lap from all others. Names it, or answers {}.
create or replace function stats_private.pass_account_after_failures(p_page public.stats_maintenance_cursors)
returns jsonb
language plpgsql
as $$
declare
    v_user_id uuid;
begin
    if p_page.attempt_count + 1 < (select s.max_attempts from public.stats_projection_worker_settings s) then
        return '{}';
    end if;
    v_user_id := stats_private.next_account(p_page.cursor::uuid);
    update public.stats_maintenance_cursors c set cursor = v_user_id::text where c.job = p_page.job;
    return jsonb_build_object('passed_user_id', v_user_id);
end;
$$;

-- The next account in the order of the ids that has anything to compare: generations, source rows or published rows.
create or replace function stats_private.next_account(p_after uuid)
returns uuid
language plpgsql stable
as $$
declare
    v_after uuid := coalesce(p_after, '00000000-0000-0000-0000-000000000000');
begin
    return least(
        (select t.user_id from public.user_stats_refresh_state t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.workout_sessions t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_manual_pr_records t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_exercise_daily_rollups t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_exercise_records t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_exercise_rep_maxes t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from stats_private.rep_max_steps t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_training_period_stats t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_calendar_day_summaries t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_pr_exercise_summary_snapshots t where t.user_id > v_after order by 1 limit 1),
        (select t.user_id from public.user_pr_overview_snapshot_headers t where t.user_id > v_after order by 1 limit 1));
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

-- True where a rebuild would change a published row, headers included, of an account that nobody is at work on, or
-- where its window would not move: a publication puts both right.
create or replace function stats_private.published_rows_differ(p_user_id uuid)
returns boolean
language plpgsql
as $$
declare
    v_integrity jsonb;
begin
    if exists (
        select from public.user_stats_refresh_state s
        where s.user_id = p_user_id and s.requested_version > s.applied_version)
    then
        return false;
    end if;
    v_integrity := public.validate_user_exercise_stats_integrity(p_user_id);
    return not (v_integrity ->> 'stale')::boolean and not (v_integrity ->> 'moved')::boolean
        and (not (v_integrity ->> 'valid')::boolean or stats_private.lacks_its_rollover(p_user_id));
end;
$$;

-- True for a published account that is not due by the end of its window's middle day.
create or replace function stats_private.lacks_its_rollover(p_user_id uuid)
returns boolean
language sql stable
as $$
    select exists (
        select from public.user_stats_refresh_state s
        where s.user_id = p_user_id and s.published_anchor is not null and not exists (
            select from public.user_pr_overview_rollover_state r
            where r.user_id = s.user_id and r.due_at <= (s.published_anchor + 1)::timestamp at time zone 'UTC'))
$$;
