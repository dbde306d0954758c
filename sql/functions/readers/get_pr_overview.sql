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
