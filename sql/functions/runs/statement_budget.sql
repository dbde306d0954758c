-- public.stats_projection_statement_budget_v1(stage)
-- Promises: the rest of the transaction runs under the stage's statement budget from the settings row, and waits
--   for a lock at most half of it. A client that says nothing for as long as the budget, at least a second, or that
--   is gone, loses its transaction and its locks. The transaction as a whole may take ten seconds more than its
--   statement, whatever the database's transaction_timeout is (PostgreSQL 17 on). Takes effect with the next
--   statement: call it first, in one of its own. Raises 22023 for an unknown stage.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_projection_statement_budget_v1(stage text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_budget_ms integer;
begin
    select case stage
        when 'claim' then s.claim_budget_ms
        when 'compute' then s.compute_budget_ms
        when 'publish' then s.publish_budget_ms
        when 'maintenance' then s.maintenance_budget_ms
    end into v_budget_ms
    from public.stats_projection_worker_settings s;
    if v_budget_ms is null then
        raise exception using errcode = '22023', message = 'stage: must be claim, compute, publish or maintenance';
    end if;
    perform
        set_config('statement_timeout', v_budget_ms || 'ms', true),
        set_config('lock_timeout', greatest(v_budget_ms / 2, 1) || 'ms', true),
        -- A worker whose host froze would hold its locks until TCP gives up, after hours.
        set_config('idle_in_transaction_session_timeout', greatest(v_budget_ms, 1000) || 'ms', true),
        -- Off by default: the statement of a killed worker would run to its end.
        set_config('client_connection_check_interval', '1s', true);
    -- From PostgreSQL 17 on. A default of the database would end the connection in the middle of a stage, and nothing
    -- would be recorded; ten seconds are for that. A timer that runs keeps its time until it is switched off.
    if current_setting('transaction_timeout', true) is not null then
        perform
            set_config('transaction_timeout', '0', true),
            set_config('transaction_timeout', v_budget_ms + 10000 || 'ms', true);
    end if;
end;
$$;
