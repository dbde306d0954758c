-- public.run_user_pr_overview_rollover_v1(limit) -> {response: enqueued | idle | backlogged | paused | failed,
--   requested, skipped, has_more}
-- Promises: one page of accounts whose snapshot window is due gets a new generation that moves the window alone, at
--   maintenance priority; the published generation is never touched here. Two pages at once take different accounts.
--   An account that already waits, or that somebody writes to, is left for later and out of the way; it counts as a
--   failure where its attempts are used up. One that a clock which ran ahead published for days to come is due at
--   once, and its retry time is over where no backoff is that long. Pages stop while many are pending. limit: 1 to
--   25, by default the setting rollover_page. has_more: the page was full, so more may wait.
-- Locks: rollover rows (skip locked), write (try), state row, job rows (skip locked), cursor row (skip locked, last)
-- Writes: user_pr_overview_rollover_state, stats_maintenance_cursors, user_stats_refresh_state,
--   user_exercise_stats_refresh_jobs
create or replace function public.run_user_pr_overview_rollover_v1(p_limit integer default null)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_answer jsonb;
    v_sqlstate text;
    v_error text;
begin
    perform stats_private.require_read_committed();
    if stats_private.stage_is_paused('maintenance') then
        return jsonb_build_object('response', 'paused', 'has_more', false);
    end if;
    begin
        v_answer := stats_private.roll_over_page((
            select least(greatest(coalesce(p_limit, s.rollover_page), 1), 25)
            from public.stats_projection_worker_settings s));
        perform stats_private.end_page('rollover', null);
        return v_answer;
    exception
        when query_canceled or others then
            if stats_private.is_cancelled_by_a_person(sqlstate, sqlerrm) then
                raise;
            end if;
            get stacked diagnostics v_sqlstate = returned_sqlstate, v_error = message_text;
    end;
    return stats_private.fail_page('rollover', v_sqlstate, v_error);
end;
$$;

create or replace function stats_private.roll_over_page(p_limit integer)
returns jsonb
language plpgsql
as $$
declare
    v_due record;
    v_requested integer := 0;
    v_skipped integer := 0;
begin
    if stats_private.too_many_wait() then
        return jsonb_build_object('response', 'backlogged', 'requested', 0, 'skipped', 0, 'has_more', false);
    end if;
    for v_due in
        select d.user_id, (
            select s.requested_version > s.applied_version
            from public.user_stats_refresh_state s where s.user_id = d.user_id) as is_stale
        from stats_private.take_due_rollovers(p_limit) d
    loop
        if not coalesce(v_due.is_stale, true) and stats_private.try_enqueue_maintenance(
            v_due.user_id, null, '{}', 'pr_snapshot_rollover', 'rollover:' || stats_private.utc_today(), true)
        then
            perform stats_private.postpone_rollover(v_due.user_id, null);
            v_requested := v_requested + 1;
        else
            -- What waits moves the window too. Out of the way, so that it holds up nobody behind it.
            perform stats_private.postpone_rollover(v_due.user_id, case
                when stats_private.has_exhausted_job(v_due.user_id) then 'an exhausted job holds the account'
            end);
            v_skipped := v_skipped + 1;
        end if;
    end loop;
    return jsonb_build_object(
        'response', case when v_requested + v_skipped = 0 then 'idle' else 'enqueued' end,
        'requested', v_requested, 'skipped', v_skipped,
        'has_more', v_requested + v_skipped = p_limit);
end;
$$;

-- Locks and returns due accounts that nobody else holds. First those whose times a right clock can't have written, for
-- their readers of today may be refused; then those whose time has come. The bounds are variables, so that an index
-- ends each search: beside clock_timestamp() itself, which is volatile, every account would be read where few are due.
-- Locks: rollover rows (skip locked)
create or replace function stats_private.take_due_rollovers(p_limit integer)
returns table (user_id uuid)
language plpgsql
-- By the indexes, whatever the statistics say: they may be of a time when nobody was due.
set enable_sort = off
set enable_bitmapscan = off
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_latest_due_at timestamptz := stats_private.latest_due_at();
    v_latest_retry_at timestamptz := v_now + stats_private.longest_rollover_wait();
begin
    return query
    select d.user_id
    from (
        select ahead.user_id from (
            select r.user_id
            from public.user_pr_overview_rollover_state r
            where coalesce(r.next_retry_at, r.due_at) > v_latest_due_at and r.next_retry_at is null
            order by coalesce(r.next_retry_at, r.due_at)
            limit p_limit
            for update skip locked
        ) ahead
        union all
        select waiting.user_id from (
            select r.user_id
            from public.user_pr_overview_rollover_state r
            where r.next_retry_at > v_latest_retry_at
            order by r.next_retry_at
            limit p_limit
            for update skip locked
        ) waiting
        union all
        select late.user_id from (
            select r.user_id
            from public.user_pr_overview_rollover_state r
            where coalesce(r.next_retry_at, r.due_at) <= v_now
            order by coalesce(r.next_retry_at, r.due_at)
            limit p_limit
            for update skip locked
        ) late
    ) d
    limit p_limit;
end;
$$;

-- An account is due a day after its anchor, and none can be published for a later day than this one.
create or replace function stats_private.latest_due_at()
returns timestamptz
language sql volatile
as $$ select (stats_private.latest_day() + 1)::timestamp at time zone 'UTC' $$;

create or replace function stats_private.longest_rollover_wait()
returns interval
language sql immutable
as $$ select interval '1 hour' $$;

-- Looks at the account again in a minute (its publication moves due_at first, where all goes well), after a failure
-- (p_error) in twice as long each time, at most an hour.
create or replace function stats_private.postpone_rollover(p_user_id uuid, p_error text)
returns void
language sql
as $$
    update public.user_pr_overview_rollover_state r
    set failures = r.failures + (p_error is not null)::integer,
        last_error = coalesce(p_error, r.last_error),
        next_retry_at = clock_timestamp() + least(
            interval '1 minute' * power(2, least(r.failures + (p_error is not null)::integer, 6)),
            stats_private.longest_rollover_wait()),
        updated_at = clock_timestamp()
    where r.user_id = p_user_id
$$;

-- True where an attempt at the account was given up.
create or replace function stats_private.has_exhausted_job(p_user_id uuid)
returns boolean
language sql stable
as $$
    -- status || '': by the account's index (pipeline/claim_account.sql).
    select exists (
        select from public.user_exercise_stats_refresh_jobs j
        where j.user_id = p_user_id and j.status || '' = 'failed')
$$;

-- True while more maintenance waits than the workers get through in about a minute: the beats bring the next pages
-- soon enough, and a queue that is long costs every claim.
create or replace function stats_private.too_many_wait()
returns boolean
language sql stable
as $$
    select count(*) >= 10000 from (
        select from public.user_exercise_stats_refresh_jobs j
        where j.status = 'pending' and j.priority = 1
        limit 10000
    ) p
$$;
