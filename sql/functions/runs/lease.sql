-- The lease fence: while a run's lease is live, only a transaction that declared its token may move it.
-- Promises: a worker that lost its lease, a slow connection that came back, a repair script: each is refused with
--   55P03 and the constraint name stats_projection_run_lease_fence_v1 (lock_timeout's 55P03 has none). Expired
--   leases and finished runs are free. The clock is clock_timestamp(): now() stands still in a long transaction.
-- Locks: none of its own (the row is locked by the statement that fires it)
-- Writes: nothing
create or replace function stats_private.stats_projection_run_lease_fence_v1()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if old.phase in ('claimed', 'computed')
        and old.lease_until > clock_timestamp()
        -- A local setting reads back as '' after its transaction, not as null.
        and nullif(current_setting('lift_guild.stats_lease_token', true), '') is distinct from old.lease_token::text
        and (
            tg_op = 'DELETE'
            or (old.phase, old.payload, old.lease_token, old.lease_until)
            is distinct from (new.phase, new.payload, new.lease_token, new.lease_until))
    then
        raise exception using errcode = '55P03', constraint = 'stats_projection_run_lease_fence_v1',
            message = format('run %s is leased until %s: only the holder of its token may change it',
                old.id, old.lease_until),
            hint = 'Wait for the lease to run out, or pause the stage first.';
    end if;
    return case tg_op when 'DELETE' then old else new end;
end;
$$;

create or replace trigger stats_projection_run_lease_fence_v1
before update or delete on public.user_stats_projection_runs
for each row execute function stats_private.stats_projection_run_lease_fence_v1();

-- session_replication_role = replica must not walk around it.
alter table public.user_stats_projection_runs enable always trigger stats_projection_run_lease_fence_v1;

-- Declares a token for the rest of this transaction, and returns it.
create or replace function stats_private.declare_lease(p_token uuid)
returns text
language sql volatile
as $$ select set_config('lift_guild.stats_lease_token', p_token::text, true) $$;

-- Declares the run's token for the rest of this transaction and renews the lease. The caller holds the row. A stage
-- renews it by the update that ends its step.
-- Locks: run row
create or replace function stats_private.hold_lease(p_run public.user_stats_projection_runs)
returns void
language plpgsql
as $$
begin
    perform set_config('lift_guild.stats_lease_token', p_run.lease_token::text, true);
    update public.user_stats_projection_runs r
    set lease_until = clock_timestamp()
            + (select s.lease_seconds from public.stats_projection_worker_settings s) * interval '1 second',
        updated_at = clock_timestamp()
    where r.id = p_run.id;
end;
$$;
