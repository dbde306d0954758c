-- The waits that a clock less than the longest wait ahead has written.
-- Promises: longest_wait tells only the waits that are longer than any right one. A shorter one is told by its row,
--   which was made or written later than now. Of each kind that waits only the first 50 are looked through, so that a
--   mass failure costs no more.
-- Locks: run row (skip locked), job rows (skip locked)
-- Writes: user_stats_projection_runs, user_exercise_stats_refresh_jobs

-- Ends the waits of such runs and jobs, so that the next claim finds them due. The caller holds the claim lock.
-- clock_timestamp() is read after the snapshot is taken: no row that a right clock has written is later.
create or replace function stats_private.end_waits_dated_ahead(p_longest_wait interval)
returns void
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_latest timestamptz := v_now + p_longest_wait;
begin
    with ahead as (
        select r.id
        from (
            select r.id, r.updated_at
            from public.user_stats_projection_runs r
            where r.phase in ('claimed', 'computed') and r.retry_not_before > v_now and r.retry_not_before <= v_latest
            order by r.retry_not_before
            limit 50
        ) waits
        join public.user_stats_projection_runs r on r.id = waits.id
        where waits.updated_at > clock_timestamp()
        for update of r skip locked
    )
    update public.user_stats_projection_runs r
    set retry_not_before = v_now, updated_at = clock_timestamp()
    from ahead
    where r.id = ahead.id;

    with ahead as (
        select j.id
        from (values (0), (1)) p (priority)
        cross join lateral (
            select j.id, greatest(j.created_at, j.updated_at) as written_at
            from public.user_exercise_stats_refresh_jobs j
            where j.status = 'pending' and j.priority = p.priority
                and greatest(j.created_at, j.retry_not_before) > v_now
                and greatest(j.created_at, j.retry_not_before) <= v_latest
            order by greatest(j.created_at, j.retry_not_before)
            limit 50
        ) waits
        join public.user_exercise_stats_refresh_jobs j on j.id = waits.id
        where waits.written_at > clock_timestamp()
        for update of j skip locked
    )
    update public.user_exercise_stats_refresh_jobs j
    set created_at = least(j.created_at, v_now), retry_not_before = null, updated_at = clock_timestamp()
    from ahead
    where j.id = ahead.id;
end;
$$;
