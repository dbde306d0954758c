-- The advisory locks: 64-bit keys, one namespace a purpose. docs/locking.md has the one order of all locks.
-- Promises: two purposes never share a key by construction, two accounts only by a 64-bit hash collision, which
--   costs waiting and never correctness.
-- Locks: import, batch, claim, worker, write (each function takes the one in its name, to the end of the transaction)
-- Writes: nothing

-- Waits for the account's import lock: one file at a time.
create or replace function stats_private.lock_import(p_user_id uuid)
returns void
language sql
as $$ select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended('stats-refresh:import:' || p_user_id::text, 0)) $$;

-- Tries the account's import lock.
create or replace function stats_private.try_import_lock(p_user_id uuid)
returns boolean
language sql
as $$ select pg_catalog.pg_try_advisory_xact_lock(
    pg_catalog.hashtextextended('stats-refresh:import:' || p_user_id::text, 0)) $$;

-- Tries the one lock of the maintenance door: it works on one account at a time.
create or replace function stats_private.try_batch_lock()
returns boolean
language sql
as $$ select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('stats-refresh:batch', 0)) $$;

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

-- Waits for the account's write lock, at most 10 s (55P03): writers first of all, publication before it touches a read
-- model. A holder may be a client that says nothing for as long as it likes.
-- Call it in a statement of its own: only later statements see what the previous holder committed.
create or replace function stats_private.lock_writes(p_user_id uuid)
returns void
language plpgsql
as $$
declare
    v_lock_timeout text := stats_private.limit_waits();
begin
    perform pg_catalog.pg_advisory_xact_lock(
        pg_catalog.hashtextextended('stats-refresh:write:' || p_user_id::text, 0));
    perform pg_catalog.set_config('lock_timeout', v_lock_timeout, true);
end;
$$;

-- Tries the account's write lock, for callers that must not wait.
create or replace function stats_private.try_write_lock(p_user_id uuid)
returns boolean
language sql
as $$ select pg_catalog.pg_try_advisory_xact_lock(
    pg_catalog.hashtextextended('stats-refresh:write:' || p_user_id::text, 0)) $$;

-- Lets no lock be waited for longer than 10 s: longer than a publication holds one, and a shorter limit of the caller's
-- stays. Returns the limit that was in force, to be set again; an error brings it back by itself.
create or replace function stats_private.limit_waits()
returns text
language plpgsql
as $$
declare
    v_lock_timeout text := pg_catalog.current_setting('lock_timeout');
begin
    if v_lock_timeout::interval not between '1 millisecond' and '10 seconds' then
        perform pg_catalog.set_config('lock_timeout', '10s', true);
    end if;
    return v_lock_timeout;
end;
$$;
