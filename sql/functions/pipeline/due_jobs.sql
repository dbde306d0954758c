-- The queue as a claim reads it: (priority, when the row became due), from the front.
-- Promises: what waits for its retry time is not read: it stands behind what is due, in the order of the index. A time
--   that is further ahead than any wait (longest_wait) was written by a clock that ran ahead, and counts as over.
-- Locks: none
-- Writes: nothing

-- The parts of the queue that are due at p_now, by their place in the order in which they are claimed. p_latest: no
-- right clock has written a later time.
create or replace function stats_private.due_ranges(p_now timestamptz, p_latest timestamptz)
returns table (place integer, priority integer, due_from timestamptz, due_until timestamptz)
language sql stable
as $$
    values
        (1, 0, '-infinity'::timestamptz, p_now), (2, 0, p_latest, 'infinity'),
        (3, 1, '-infinity', p_now), (4, 1, p_latest, 'infinity')
$$;

-- The first two rows of all that is due: of two accounts, or two of one.
create or replace function stats_private.first_two_due(p_now timestamptz, p_latest timestamptz)
returns table (place integer, due_at timestamptz, user_id uuid)
language sql stable
as $$
    select q.place, d.due_at, d.user_id
    from stats_private.due_ranges(p_now, p_latest) q
    cross join lateral (
        select d.due_at, d.user_id
        from stats_private.due_jobs(q.priority, q.due_from, q.due_until, p_now, p_latest) d
        order by d.due_at
        limit 2
    ) d
    order by q.place, d.due_at
    limit 2
$$;

-- The rows of one part whose accounts may be claimed, the one that is due first in front. An account waits with all its
-- rows, and while it has a run. Those that an earlier claim found to need batches are left out for as long as the
-- batches' slots are taken.
-- offset 0 keeps each question to its own account, status || '' to the account's index instead of the queue's: asked
-- of all that waits at once, the first account comes as late as the last.
create or replace function stats_private.due_jobs(
    p_priority integer, p_due_from timestamptz, p_due_until timestamptz, p_now timestamptz, p_latest timestamptz
)
returns table (id uuid, user_id uuid, due_at timestamptz)
language sql stable
as $$
    select j.id, j.user_id, greatest(j.created_at, j.retry_not_before)
    from public.user_exercise_stats_refresh_jobs j
    where j.status = 'pending' and j.priority = p_priority
        and greatest(j.created_at, j.retry_not_before) >= p_due_from
        and greatest(j.created_at, j.retry_not_before) <= p_due_until
        and not exists (
            select from public.user_exercise_stats_refresh_jobs waiting
            where waiting.user_id = j.user_id and waiting.status || '' = 'pending'
                and waiting.retry_not_before > p_now
                and waiting.retry_not_before <= p_latest
            offset 0)
        and not exists (
            select from public.user_stats_projection_runs r
            where r.user_id = j.user_id and r.phase in ('claimed', 'computed')
            offset 0)
        and (not j.metadata ? 'needs_batches' or not (select stats_private.batch_slots_are_taken()))
    order by greatest(j.created_at, j.retry_not_before)
$$;

-- True where another account is due, from that place in the queue on.
create or replace function stats_private.more_is_due(
    p_priority integer, p_due_from timestamptz, p_longest_wait interval
)
returns boolean
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_latest timestamptz := v_now + p_longest_wait;
begin
    return exists (
        select
        from stats_private.due_ranges(v_now, v_latest) q
        cross join lateral stats_private.due_jobs(
            q.priority,
            case q.priority when p_priority then greatest(q.due_from, p_due_from) else q.due_from end,
            q.due_until, v_now, v_latest) d
        where q.priority >= p_priority);
end;
$$;
