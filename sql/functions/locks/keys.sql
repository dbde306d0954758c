-- The advisory locks: 64-bit keys, one namespace a purpose. docs/locking.md has the one order of all locks.
-- Promises: two purposes never share a key by construction, two accounts only by a 64-bit hash collision, which
--   costs waiting and never correctness.
-- Locks: claim, worker, write (each function takes the one in its name, to the end of the transaction)
-- Writes: nothing

-- Waits for the one claim lock of the whole database.
create or replace function stats_private.lock_claim()
returns void
language sql
as $$ select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('stats-refresh:claim', 0)) $$;

-- Tries the account's worker lock: who computes this account. False where somebody else has it.
create or replace function stats_private.try_worker_lock(p_user_id uuid)
returns boolean
language sql
as $$ select pg_catalog.pg_try_advisory_xact_lock(
    pg_catalog.hashtextextended('stats-refresh:worker:' || p_user_id::text, 0)) $$;

-- Waits for the account's write lock: writers first of all, publication before it touches a read model.
-- Call it in a statement of its own: only later statements see what the previous holder committed.
create or replace function stats_private.lock_writes(p_user_id uuid)
returns void
language sql
as $$ select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('stats-refresh:write:' || p_user_id::text, 0)) $$;

-- Tries the account's write lock, for callers that must not wait.
create or replace function stats_private.try_write_lock(p_user_id uuid)
returns boolean
language sql
as $$ select pg_catalog.pg_try_advisory_xact_lock(
    pg_catalog.hashtextextended('stats-refresh:write:' || p_user_id::text, 0)) $$;
