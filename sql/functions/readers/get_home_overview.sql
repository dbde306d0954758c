-- public.get_home_overview(as_of, user_id) -> contract 4 with `periods`, `days`, `records`
-- Promises: the period of each grain that as_of lies in (none where it has no session), the calendar days and the
--   records (no baselines) of the thirty days up to as_of. Only a day of the published window, as get_pr_overview.
--   STABLE: one snapshot, so one generation. Raises 42501 for another account, 22023 without a day, 55000.
-- Locks: none
-- Writes: nothing
create or replace function public.get_home_overview(p_as_of date, p_user_id uuid default null)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.account_of_call(p_user_id);
begin
    return stats_private.answer_for_day(v_user_id, p_as_of) || jsonb_build_object(
        'periods', coalesce(
            (
                select jsonb_agg(to_jsonb(p) - 'user_id' order by g.place)
                from (values
                    (1, 'day', interval '1 day'), (2, 'week', interval '7 days'), (3, 'month', interval '1 month'),
                    (4, 'quarter', interval '3 months'), (5, 'year', interval '1 year')
                ) g (place, grain, length)
                cross join lateral (
                    select t.* from public.user_training_period_stats t
                    where t.user_id = v_user_id and t.grain = g.grain and t.period_start <= p_as_of
                    order by t.period_start desc
                    limit 1
                ) p
                where p_as_of < p.period_start + g.length
            ),
            '[]'),
        'days', stats_private.calendar_days(v_user_id, p_as_of - 29, p_as_of),
        'records', coalesce(
            (
                select jsonb_agg(to_jsonb(r) - 'user_id' order by r.day desc, r.exercise_id, r.kind)
                from public.user_exercise_records r
                where r.user_id = v_user_id and r.day between p_as_of - 29 and p_as_of and not r.is_baseline
            ),
            '[]'));
end;
$$;
