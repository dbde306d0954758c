-- Who the caller is, seen from inside a SECURITY DEFINER function (where current_user is the owner).
-- Promises: the answer comes from the role that the transaction took on and from the verified claims, nothing else.
--   Claims that cannot be read are nobody's: 42501.
-- Locks: none
-- Writes: nothing

-- True for service_role, for a login that may act as it and took on no other role, and for a superuser.
create or replace function stats_private.is_service()
returns boolean
language sql stable
as $$
    select pg_catalog.pg_has_role(
        coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user)::name, 'service_role', 'member')
$$;

-- True for an authenticated caller whose claims say app_metadata.role = 'admin'.
create or replace function stats_private.is_admin()
returns boolean
language sql stable
as $$
    select pg_catalog.current_setting('role') = 'authenticated'
        and coalesce(stats_private.claims_of_call() #> '{app_metadata,role}' = '"admin"', false)
$$;

create or replace function stats_private.claims_of_call()
returns jsonb
language plpgsql stable
as $$
begin
    return nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::jsonb;
exception
    when data_exception then
        raise exception using errcode = '42501', message = 'request.jwt.claims: is not JSON';
end;
$$;

-- Returns the account that is signed in, null where nobody is. auth.uid() may be the platform's own and raises a plain
-- 22P02, which would look like a mistake in the arguments.
create or replace function stats_private.signed_in_account()
returns uuid
language plpgsql stable
as $$
begin
    return auth.uid();
exception
    when data_exception then
        raise exception using errcode = '42501', message = 'request.jwt.claims: must be JSON whose sub is a uuid';
end;
$$;

-- Returns the account that a reader or a queue call is about: the caller's own, or the one that service or an
-- administrator names. Raises 42501 for anybody else's account, and where there is none.
create or replace function stats_private.account_of_call(p_user_id uuid)
returns uuid
language plpgsql stable
as $$
declare
    v_caller uuid := stats_private.signed_in_account();
begin
    if p_user_id is null and v_caller is not null then
        return v_caller;
    elsif p_user_id is null then
        raise exception using errcode = '42501', message = 'no account: sign in, or name one in p_user_id';
    elsif p_user_id = v_caller or stats_private.is_service() or stats_private.is_admin() then
        return p_user_id;
    end if;
    raise exception using errcode = '42501', message = 'user_id: only your own account';
end;
$$;

-- Returns the account that a write is for. Raises 42501 where p_expected_user_id is missing or another account.
create or replace function stats_private.owner_of_write(p_expected_user_id text)
returns uuid
language plpgsql stable
as $$
declare
    v_caller uuid := stats_private.signed_in_account();
begin
    if v_caller is null then
        raise exception using errcode = '42501', message = 'expected_user_id: nobody is signed in';
    elsif p_expected_user_id is null then
        raise exception using errcode = '42501', message = 'expected_user_id: is required';
    elsif octet_length(p_expected_user_id) > 36 or lower(p_expected_user_id) is distinct from v_caller::text then
        raise exception using errcode = '42501', message = 'expected_user_id: is not the signed-in account';
    end if;
    return v_caller;
end;
$$;
