-- The frame of every answer, contract 4: {contract, user_id, as_of, generation, requested_version, stale, generated_at}
-- Promises: one published generation. Raises 55000 whose detail says building (never published yet), behind (the
--   published window has passed: a rollover is due) or not_in_window; 22023 without a day of the calendar.
-- Locks: none
-- Writes: nothing

create or replace function stats_private.frame_of(
    p_state public.user_stats_refresh_state, p_as_of date, p_generated_at timestamptz
)
returns table (
    contract integer, user_id uuid, as_of date, generation bigint, requested_version bigint, stale boolean,
    generated_at timestamptz
)
language sql immutable
as $$
    select
        4, p_state.user_id, p_as_of, p_state.applied_version, p_state.requested_version,
        p_state.applied_version < p_state.requested_version, p_generated_at
$$;

-- The frame of an answer from what is published for good, whatever day it is.
create or replace function stats_private.answer(p_user_id uuid, p_as_of date)
returns jsonb
language plpgsql stable
as $$
declare
    v_state public.user_stats_refresh_state;
begin
    perform stats_private.require_day(p_as_of);
    select s.* into v_state from public.user_stats_refresh_state s where s.user_id = p_user_id;
    if coalesce(v_state.applied_version, 0) = 0 then
        perform stats_private.refuse_answer(p_as_of, 'building', v_state.requested_version);
    end if;
    return (
        select to_jsonb(f)
        from stats_private.frame_of(
            v_state, p_as_of,
            (select max(h.generated_at) from public.user_pr_overview_snapshot_headers h where h.user_id = p_user_id)
        ) f);
end;
$$;

-- The frame of an answer about one day of the snapshot window, as a row.
create or replace function stats_private.frame_for_day(p_user_id uuid, p_as_of date)
returns table (
    contract integer, user_id uuid, as_of date, generation bigint, requested_version bigint, stale boolean,
    generated_at timestamptz
)
language plpgsql stable
as $$
declare
    v_state public.user_stats_refresh_state;
    v_header public.user_pr_overview_snapshot_headers;
begin
    perform stats_private.require_day(p_as_of);
    select s.* into v_state from public.user_stats_refresh_state s where s.user_id = p_user_id;
    select h.* into v_header
    from public.user_pr_overview_snapshot_headers h
    where h.user_id = p_user_id and h.as_of_date = p_as_of and h.generation = v_state.applied_version;
    if v_header.user_id is null then
        perform stats_private.refuse_answer(
            p_as_of,
            case
                when coalesce(v_state.applied_version, 0) = 0 then 'building'
                when abs(p_as_of - stats_private.utc_today()) <= 1 then 'behind'
                else 'not_in_window'
            end,
            v_state.requested_version);
    end if;
    return query select f.* from stats_private.frame_of(v_state, p_as_of, v_header.generated_at) f;
end;
$$;

-- The same as jsonb.
create or replace function stats_private.answer_for_day(p_user_id uuid, p_as_of date)
returns jsonb
language sql stable
as $$ select to_jsonb(f) from stats_private.frame_for_day(p_user_id, p_as_of) f $$;

-- Raises 22023 where there is no day, or infinity in its place.
create or replace function stats_private.require_day(p_as_of date)
returns void
language plpgsql immutable
as $$
begin
    if p_as_of is null then
        raise exception using errcode = '22023', message = 'as_of: is required';
    elsif not isfinite(p_as_of) then
        raise exception using errcode = '22023', message = 'as_of: must be a day of the calendar';
    end if;
end;
$$;

-- p_requested_version: null or 0 where the account never had anything to refresh.
create or replace function stats_private.refuse_answer(p_as_of date, p_detail text, p_requested_version bigint)
returns void
language plpgsql immutable
as $$
begin
    raise exception using
        errcode = '55000',
        message = format('there is no published snapshot of %s', p_as_of),
        detail = p_detail,
        hint = case
            when p_detail = 'not_in_window' then 'Only the UTC date, the day before and the day after are kept.'
            when p_detail = 'behind' then 'The window moves by itself: ask again.'
            when p_requested_version > 0 then 'The first refresh of this account is on its way: ask again.'
            else 'Nothing has been saved for this account yet: its first save brings the first snapshot.'
        end;
end;
$$;
