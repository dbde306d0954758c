-- public.get_calendar_month(month, user_id) -> contract 4 with `days`, oldest first; as_of is the first of the month
-- Promises: the month that p_month (any of its days) lies in; a day without a session has no row. Refuses with 55000
--   and the detail building before the first publication. STABLE: one snapshot, so one generation. Raises 42501 for
--   another account, 22023 without a month of the years 1 to 9999.
-- Locks: none
-- Writes: nothing
create or replace function public.get_calendar_month(p_month date, p_user_id uuid default null)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.account_of_call(p_user_id);
    v_first date;
begin
    -- Not every date has a timestamp.
    if p_month is null or p_month not between '0001-01-01' and '9999-12-31' then
        raise exception using errcode = '22023', message = 'month: must be a day of the month, of the years 1 to 9999';
    end if;
    v_first := date_trunc('month', p_month::timestamp)::date;
    return stats_private.answer(v_user_id, v_first) || jsonb_build_object(
        'days', stats_private.calendar_days(v_user_id, v_first, (v_first + interval '1 month - 1 day')::date));
end;
$$;

-- The calendar's rows of some days, oldest first.
create or replace function stats_private.calendar_days(p_user_id uuid, p_first date, p_last date)
returns jsonb
language sql stable
as $$
    select coalesce(jsonb_agg(to_jsonb(c) - 'user_id' order by c.day), '[]')
    from public.user_calendar_day_summaries c
    where c.user_id = p_user_id and c.day between p_first and p_last
$$;
