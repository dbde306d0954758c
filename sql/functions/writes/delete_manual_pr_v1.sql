-- public.delete_manual_pr_v1(manual_pr_id, expected_user_id, mutation_id) -> receipt
-- Promises: deletes one stated 1RM of the signed-in account and dirties its exercise from that day. Receipt and
--   dirty range commit with it; the same mutation_id again replays.
--   Raises 42501, 22023, P0002 where the account has no such record, and 55P03 or 40001 as lock_account.sql says.
-- Locks: write, state row, job rows (skip locked), canonical rows
-- Writes: user_manual_pr_records, stats_mutation_receipts, user_stats_refresh_state,
--   user_exercise_stats_refresh_jobs
create or replace function public.delete_manual_pr_v1(
    p_manual_pr_id uuid, p_expected_user_id uuid, p_mutation_id uuid
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_payload_hash bytea;
    v_replayed jsonb;
    v_old public.user_manual_pr_records;
    v_generation bigint;
begin
    v_user_id := stats_private.owner_of_write(p_expected_user_id::text);
    perform stats_private.require_argument('mutation_id', p_mutation_id is null);
    perform stats_private.require_argument('manual_pr_id', p_manual_pr_id is null);
    v_payload_hash := stats_private.payload_hash('delete_manual_pr_v1', p_manual_pr_id::text);

    perform stats_private.lock_account(v_user_id);
    v_replayed := stats_private.replayed_receipt(v_user_id, p_mutation_id, v_payload_hash);
    if v_replayed is not null then
        return v_replayed;
    end if;

    select r.* into v_old
    from public.user_manual_pr_records r
    where r.id = p_manual_pr_id and r.user_id = v_user_id;
    if not found then
        raise exception using errcode = 'P0002', message = 'manual_pr_id: this account has no such record';
    end if;
    v_generation := public.enqueue_user_exercise_stats_refresh_job(
        v_user_id, v_old.achieved_on, array[v_old.exercise_id], stats_private.event_of_manual_pr(v_old.source),
        'manual_pr:' || v_old.id, 'manual 1RM deleted');
    delete from public.user_manual_pr_records r where r.id = v_old.id;
    return stats_private.store_receipt(
        v_user_id, p_mutation_id, v_payload_hash, 'manual_pr_deleted', null, v_generation,
        jsonb_build_object('manual_pr_id', v_old.id));
end;
$$;
