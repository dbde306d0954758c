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
begin
    return (
        -- One conversion of one row: parts that are jsonb already would be walked through once more, each.
        select to_jsonb(a)
        from (
            select
                f.*,
                array(
                    select e
                    from (
                        -- In the order in which jsonb keeps keys (shorter ones first): sorting them is a tenth.
                        select
                            s.one_rm_kg, s.one_rm_on, s.e1rm_30d_kg, s.exercise_id, s.records_30d, s.best_e1rm_kg,
                            s.best_e1rm_on, s.sessions_30d, s.one_rm_source, s.weight_30d_kg, s.best_weight_kg,
                            s.best_weight_on, s.last_performed_on, s.best_e1rm_session_id, s.e1rm_30d_last_year_kg,
                            s.best_weight_session_id, s.weight_30d_last_year_kg
                        from public.user_pr_exercise_summary_snapshots s
                        where s.user_id = v_user_id and s.as_of_date = p_as_of
                        order by s.exercise_id
                    ) e
                ) as exercises
            from stats_private.frame_for_day(v_user_id, p_as_of) f
        ) a);
end;
$$;
