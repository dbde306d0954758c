-- public.get_pr_detail(exercise_id, as_of, user_id) -> contract 4 with exercise_id, `days`, `records`, `rep_maxes`
-- Promises: one exercise as it stood on as_of, whatever day that is: its daily rollups and records up to then, oldest
--   first, and the rep maxes that held then. An exercise without any has empty lists. Refuses with 55000 and the
--   detail building before the first publication. STABLE: one snapshot, so one generation. Raises 42501 for another
--   account, 22023 without an exercise or a day.
-- Locks: none
-- Writes: nothing
create or replace function public.get_pr_detail(p_exercise_id text, p_as_of date, p_user_id uuid default null)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.account_of_call(p_user_id);
begin
    if p_exercise_id is null then
        raise exception using errcode = '22023', message = 'exercise_id: is required';
    end if;
    return stats_private.answer(v_user_id, p_as_of) || jsonb_build_object(
        'exercise_id', p_exercise_id,
        'days', coalesce(
            (
                select jsonb_agg(to_jsonb(d) - 'user_id' - 'exercise_id' order by d.day)
                from public.user_exercise_daily_rollups d
                where d.user_id = v_user_id and d.exercise_id = p_exercise_id and d.day <= p_as_of
            ),
            '[]'),
        'records', coalesce(
            (
                select jsonb_agg(to_jsonb(r) - 'user_id' - 'exercise_id' order by r.day, r.kind)
                from public.user_exercise_records r
                where r.user_id = v_user_id and r.exercise_id = p_exercise_id and r.day <= p_as_of
            ),
            '[]'),
        'rep_maxes', coalesce(
            (
                select jsonb_agg(to_jsonb(m) order by m.reps)
                from (
                    select distinct on (n.reps) n.reps, s.weight_kg, s.day as achieved_on, s.session_id
                    from stats_private.rep_max_steps s
                    cross join lateral generate_series(1, s.reps) n (reps)
                    where s.user_id = v_user_id and s.exercise_id = p_exercise_id and s.day <= p_as_of
                    order by n.reps, s.weight_kg desc, s.reps
                ) m
            ),
            '[]'));
end;
$$;
