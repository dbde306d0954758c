-- stats_private.request_generation(user_id, is_canonical_write) -> the account's next generation
-- Promises: counts requested_version up, and source_revision too where the write is of canonical rows. The state row
--   stays locked to the commit, so generations are committed in their order.
-- Locks: state row (the caller holds write)
-- Writes: user_stats_refresh_state
create or replace function stats_private.request_generation(p_user_id uuid, p_is_canonical_write boolean)
returns bigint
language plpgsql
as $$
declare
    v_generation bigint;
begin
    insert into public.user_stats_refresh_state as s (user_id, requested_version, source_revision)
    values (p_user_id, 1, p_is_canonical_write::integer)
    on conflict (user_id) do update set
        requested_version = s.requested_version + 1,
        source_revision = s.source_revision + excluded.source_revision,
        updated_at = clock_timestamp()
    returning s.requested_version into v_generation;
    return v_generation;
end;
$$;
