-- Durable receipts: within 30 days the same mutation_id writes once and answers the same; then maintenance/purge.sql
-- removes the receipt, and it would be a new write.
-- Promises: called after the account's write lock was taken in an earlier statement, so that two devices with the
--   same mutation_id at the same moment see each other's receipt.
-- Locks: none (the caller holds write)
-- Writes: stats_mutation_receipts

-- Returns the stored receipt with replayed = true; null where this mutation is new. Raises 22023 where the id was
-- used for something else. p_spelling: the write as it was sent, for receipts of releases that hashed its text instead
-- of its values (printed only if it is small); p_payload_hash is null where the write itself breaks a rule, which is
-- then the caller's to say.
create or replace function stats_private.replayed_receipt(
    p_user_id uuid, p_mutation_id uuid, p_payload_hash bytea, p_operation text default null, p_spelling jsonb default null
)
returns jsonb
language plpgsql
as $$
declare
    v_receipt public.stats_mutation_receipts;
    v_is_same boolean;
begin
    select r.* into v_receipt
    from public.stats_mutation_receipts r
    where r.user_id = p_user_id and r.mutation_id = p_mutation_id;
    if not found then
        return null;
    end if;
    v_is_same := coalesce(v_receipt.payload_hash = p_payload_hash, false);
    if not v_is_same and stats_private.size_problem(p_spelling, 2 * 1024 * 1024) is null then
        v_is_same := coalesce(
            v_receipt.payload_hash = stats_private.payload_hash(p_operation, p_spelling::text), false);
    end if;
    if not v_is_same and p_payload_hash is null then
        return null;
    elsif not v_is_same then
        raise exception using errcode = '22023',
            message = '$.mutation_id: was already used for another write; take a new one for a new write';
    end if;
    return v_receipt.response || '{"replayed": true}';
end;
$$;

-- Stores and returns the receipt of a write.
create or replace function stats_private.store_receipt(
    p_user_id uuid, p_mutation_id uuid, p_payload_hash bytea, p_operation text, p_session_id uuid,
    p_generation bigint, p_details jsonb
)
returns jsonb
language plpgsql
as $$
declare
    v_response jsonb := jsonb_build_object(
        'mutation_id', p_mutation_id, 'operation', p_operation, 'statsRequestedVersion', p_generation,
        'replayed', false) || p_details;
begin
    insert into public.stats_mutation_receipts (
        user_id, mutation_id, operation, payload_hash, session_id, requested_version, response)
    values (
        p_user_id, p_mutation_id, p_operation, p_payload_hash, p_session_id, p_generation, v_response);
    return v_response;
end;
$$;

-- Hashes what a write is asked to do: its operation and its values, each in its one spelling.
create or replace function stats_private.payload_hash(p_operation text, p_values text)
returns bytea
language sql stable
as $$ select sha256(convert_to(p_operation || ':' || p_values, 'UTF8')) $$;
