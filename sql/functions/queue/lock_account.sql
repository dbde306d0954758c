-- stats_private.lock_account(user_id): what every write does before it reads anything of the account
-- Promises: takes the account's write lock, in a statement of its own: only later statements see what the previous
--   holder committed. Raises 55P03 where another open transaction holds it for 10 s (locks/keys.sql), and 40001 in a
--   transaction at a higher level than READ COMMITTED whose snapshot lacks the account's newest write or publication:
--   its receipts and rows could not be trusted. Both say what to do, and after both nothing is written.
-- Locks: write, state row (above READ COMMITTED)
-- Writes: nothing
create or replace function stats_private.lock_account(p_user_id uuid)
returns void
language plpgsql
as $$
begin
    if not stats_private.try_write_lock(p_user_id) then
        begin
            perform stats_private.lock_writes(p_user_id);
        exception
            when lock_not_available then
                raise exception using errcode = '55P03',
                    message = 'another open transaction holds the writes of this account; nothing was written',
                    hint = 'Repeat the call when it has ended, a write with the same mutation_id.';
        end;
    end if;
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform stats_private.check_snapshot(p_user_id);
    end if;
end;
$$;

-- Raises 40001 where the account was written to or published after this transaction's snapshot. The server itself says
-- so, for the one row that both change: the generation that is asked for here is taken back at once.
-- Locks: state row (the caller holds write)
create or replace function stats_private.check_snapshot(p_user_id uuid)
returns void
language plpgsql
as $$
begin
    perform stats_private.request_generation(p_user_id, false);
    raise exception using errcode = 'LG000', message = 'the snapshot is the newest';
exception
    when sqlstate 'LG000' then
        return;
    when serialization_failure then
        raise exception using errcode = '40001',
            message = 'the account was changed after this transaction began; nothing was written',
            hint = 'Repeat the call in a new transaction, a write with the same mutation_id.';
end;
$$;
