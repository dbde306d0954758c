-- stats_private.require_read_committed(): refuses a transaction of another isolation level.
-- Promises: raises 25000, saying what to do, where the transaction is not READ COMMITTED. A stage waits for a lock and
--   reads in its next statement what the holder committed; at a higher level it would read what was there before.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.require_read_committed()
returns void
language plpgsql
as $$
begin
    if not stats_private.is_read_committed() then
        raise exception using errcode = '25000',
            message = format(
                'the stages and pages of stats-refresh run in READ COMMITTED, and this transaction is %s',
                upper(current_setting('transaction_isolation'))),
            hint = 'Begin it with BEGIN ISOLATION LEVEL READ COMMITTED; a default may be set for the database, the '
                || 'role or in a connection pooler.';
    end if;
end;
$$;

-- READ UNCOMMITTED is the same in PostgreSQL.
create or replace function stats_private.is_read_committed()
returns boolean
language sql stable
as $$ select current_setting('transaction_isolation') in ('read committed', 'read uncommitted') $$;
