-- public.take_import_turn_v1(wait, expected_user_id) -> true, or false where another import of the account is at work
-- Promises: the signed-in account's imports come one after the other, each to the end of the transaction that took the
--   turn: an import compares its file with all that the account has, and a second one that compares before the first
--   has saved would store the same workouts once more. `wait` waits for the turn, false answers at once. Call it
--   without `wait` first: what it sets holds from the next statement on, and then no limit of the database or the
--   role ends the wait, or the transaction while its client says nothing, as long as an import may take. The
--   transaction holds no rows. A client that is gone is noticed after a minute of silence on TCP. Raises 42501.
-- Locks: import
-- Writes: nothing
create or replace function public.take_import_turn_v1(p_wait boolean, p_expected_user_id uuid)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.owner_of_write(p_expected_user_id::text);
begin
    perform set_config('statement_timeout', '0', true);
    perform set_config('lock_timeout', '0', true);
    perform set_config('idle_in_transaction_session_timeout', '0', true);
    perform set_config('tcp_keepalives_idle', '30', true);
    perform set_config('tcp_keepalives_interval', '10', true);
    perform set_config('tcp_keepalives_count', '3', true);
    -- From PostgreSQL 17 on.
    if current_setting('transaction_timeout', true) is not null then
        perform set_config('transaction_timeout', '0', true);
    end if;
    if not p_wait then
        return stats_private.try_import_lock(v_user_id);
    end if;
    perform stats_private.lock_import(v_user_id);
    return true;
end;
$$;
