-- The queue as a claim reads it: (priority, when the row became due), from the front.
-- Promises: what waits for its retry time is not read: it stands behind what is due, in the order of the index. A time
--   that is further ahead than any wait (longest_wait) was written by a clock that ran ahead, and counts as over.
-- Locks: none
-- Writes: nothing

-- The parts of the queue that are due at p_now, in the order in which they are claimed.
create or replace function stats_private.due_ranges(p_now timestamptz)
returns table (priority integer, due_from timestamptz, due_until timestamptz)
language sql stable
as $$
    values
        (0, '-infinity'::timestamptz, p_now), (0, p_now + stats_private.longest_wait(), 'infinity'),
        (1, '-infinity', p_now), (1, p_now + stats_private.longest_wait(), 'infinity')
$$;

-- The rows of one part whose accounts may be claimed, the one that is due first in front. An account waits with all its
-- rows, and while it has a run. Those that an earlier claim found to need batches are left out for as long as the
-- batches' slots are taken.
-- offset 0 keeps each question to its own account, status || '' to the account's index instead of the queue's: asked
-- of all that waits at once, the first account comes as late as the last.
create or replace function stats_private.due_jobs(
    p_priority integer, p_due_from timestamptz, p_due_until timestamptz, p_now timestamptz
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
                and waiting.retry_not_before <= p_now + (select stats_private.longest_wait())
            offset 0)
        and not exists (
            select from public.user_stats_projection_runs r
            where r.user_id = j.user_id and r.phase in ('claimed', 'computed')
            offset 0)
        and (not j.metadata ? 'needs_batches' or not (select stats_private.batch_slots_are_taken()))
    order by greatest(j.created_at, j.retry_not_before)
$$;

-- True where another account is due, from that place in the queue on.
create or replace function stats_private.more_is_due(p_priority integer, p_due_from timestamptz)
returns boolean
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    return exists (
        select
        from stats_private.due_ranges(v_now) q
        cross join lateral stats_private.due_jobs(
            q.priority,
            case q.priority when p_priority then greatest(q.due_from, p_due_from) else q.due_from end,
            q.due_until, v_now) d
        where q.priority >= p_priority);
end;
$$;
