-- public.get_volume_overview(as_of, grain, user_id) -> contract 4 with grain and `periods`, oldest first
-- Promises: the periods of one grain (day, week, month, quarter, year) that began by as_of, at most the 400 latest;
--   a period without a session has no row. Any day may be asked for. Refuses with 55000 and the detail building
--   before the first publication. STABLE: one snapshot, so one generation. Raises 42501 for another account, 22023.
-- Locks: none
-- Writes: nothing
create or replace function public.get_volume_overview(p_as_of date, p_grain text, p_user_id uuid default null)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.account_of_call(p_user_id);
begin
    if p_grain is null or p_grain not in ('day', 'week', 'month', 'quarter', 'year') then
        raise exception using errcode = '22023', message = 'grain: must be day, week, month, quarter or year';
    end if;
    return stats_private.answer(v_user_id, p_as_of) || jsonb_build_object(
        'grain', p_grain,
        'periods', coalesce(
            (
                select jsonb_agg(to_jsonb(p) - 'user_id' - 'grain' order by p.period_start)
                from (
                    select t.* from public.user_training_period_stats t
                    where t.user_id = v_user_id and t.grain = p_grain and t.period_start <= p_as_of
                    order by t.period_start desc
                    limit 400
                ) p
            ),
            '[]'));
end;
$$;
