-- What kind of failure an error is.
-- Promises: the one place that tells contention from failure and a timeout from a person's cancel. What a block needs of
--   the error itself it asks for in its own handler: GET STACKED DIAGNOSTICS and RAISE work nowhere else.
-- Locks: none
-- Writes: nothing

-- True where the error says that somebody else was in the way: lock_timeout, a serialization failure, a deadlock. The
-- lease fence raises 55P03 too, of a constraint of its own: that one means that the lease is lost.
create or replace function stats_private.is_contention(p_sqlstate text, p_constraint text)
returns boolean
language sql immutable
as $$
    select p_sqlstate in ('40001', '40P01')
        or p_sqlstate = '55P03' and coalesce(p_constraint, '') <> 'stats_projection_run_lease_fence_v1'
$$;

-- True where somebody cancelled the statement (pg_cancel_backend, Ctrl-C): that is theirs to see. A statement_timeout
-- has the same SQLSTATE, is a failure of the work, and is told apart by its text alone (operations/worker_status.sql
-- tells where the server does not write English).
create or replace function stats_private.is_cancelled_by_a_person(p_sqlstate text, p_error text)
returns boolean
language sql immutable
as $$ select p_sqlstate = '57014' and p_error <> 'canceling statement due to statement timeout' $$;
