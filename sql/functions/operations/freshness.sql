-- public.stats_account_freshness_v1(user_id) -> {requested_version, applied_version, saved_at, published_at}
-- Promises: when the account's newest write with a receipt and its newest publication were committed, by the database's
--   clock; null where there is none, or where the server keeps no commit times (track_commit_timestamp). 0 of both
--   generations for an account that never saved. Service and administrators only (42501); 55000 where rows are hidden.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_account_freshness_v1(p_user_id uuid)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.require_operator('an account''s freshness');
    return coalesce(
        (
            select jsonb_build_object(
                'requested_version', s.requested_version, 'applied_version', s.applied_version,
                'saved_at', (
                    select max(stats_private.committed_at(r.xmin))
                    from public.stats_mutation_receipts r
                    where r.user_id = p_user_id and r.requested_version = (
                        select max(n.requested_version) from public.stats_mutation_receipts n
                        where n.user_id = p_user_id)),
                'published_at', stats_private.committed_at(s.xmin))
            from public.user_stats_refresh_state s where s.user_id = p_user_id
        ),
        jsonb_build_object('requested_version', 0, 'applied_version', 0, 'saved_at', null, 'published_at', null));
end;
$$;

create or replace function stats_private.committed_at(p_transaction xid)
returns timestamptz
language sql stable
as $$
    select case
        when current_setting('track_commit_timestamp') = 'on' then pg_xact_commit_timestamp(p_transaction)
    end
$$;
