-- public.get_pr_overview(as_of, user_id) -> contract 4: the PR board of one day
-- Promises: exactly one generation, or a refusal with 55000 whose detail says building, behind or not_in_window;
--   never another day, never computed on read. STABLE: every part comes from the one snapshot of the calling
--   statement, so an answer never mixes generations. Raises 42501 for another account, 22023 without a day.
-- Locks: none
-- Writes: nothing
create or replace function public.get_pr_overview(p_as_of date, p_user_id uuid default null)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.account_of_call(p_user_id);
    v_answer jsonb;
begin
    v_answer := stats_private.answer_for_day(v_user_id, p_as_of);
    return v_answer || jsonb_build_object('exercises', coalesce(
        (
            select jsonb_agg(to_jsonb(s) - 'user_id' - 'as_of_date' order by s.exercise_id)
            from public.user_pr_exercise_summary_snapshots s
            where s.user_id = v_user_id and s.as_of_date = p_as_of
        ),
        '[]'));
end;
$$;

-- The frame of an answer about one day of the snapshot window: contract, account, generation, staleness.
create or replace function stats_private.answer_for_day(p_user_id uuid, p_as_of date)
returns jsonb
language plpgsql stable
as $$
declare
    v_state public.user_stats_refresh_state;
    v_header public.user_pr_overview_snapshot_headers;
begin
    if p_as_of is null then
        raise exception using errcode = '22023', message = 'as_of: is required';
    end if;
    select s.* into v_state from public.user_stats_refresh_state s where s.user_id = p_user_id;
    select h.* into v_header
    from public.user_pr_overview_snapshot_headers h
    where h.user_id = p_user_id and h.as_of_date = p_as_of and h.generation = v_state.applied_version;
    if v_header.user_id is null then
        raise exception using
            errcode = '55000',
            message = format('there is no published snapshot of %s', p_as_of),
            detail = case
                when coalesce(v_state.applied_version, 0) = 0 then 'building'
                when abs(p_as_of - stats_private.utc_today()) <= 1 then 'behind'
                else 'not_in_window'
            end,
            hint = 'building and behind pass by themselves: ask again; not_in_window: only the UTC date, the day before and the day after are kept.';
    end if;
    return jsonb_build_object(
        'contract', 4, 'user_id', p_user_id, 'as_of', p_as_of, 'generation', v_state.applied_version,
        'requested_version', v_state.requested_version,
        'stale', v_state.applied_version < v_state.requested_version, 'generated_at', v_header.generated_at);
end;
$$;
