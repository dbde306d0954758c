-- stats_private.candidate_exercises(user, exercise_ids), exercises_of(user), window_exercises(user) -> exercise ids,
--   published_anchor(user) -> date
-- Promises: which exercises a scope, a rebuild and the snapshot window are about, each once, in no order, and which day
--   the published window is around. What was deleted is found by its published rows, so that it disappears.
-- Locks: none
-- Writes: nothing

-- Every exercise that a scope may touch; no ids: all of the account.
create or replace function stats_private.candidate_exercises(p_user_id uuid, p_exercise_ids text [])
returns table (exercise_id text)
language sql stable
as $$
    select i.exercise_id from unnest(p_exercise_ids) i (exercise_id)
    union
    select a.exercise_id from stats_private.exercises_of(p_user_id) a where cardinality(p_exercise_ids) = 0
$$;

-- Every exercise that the account has anywhere: in sessions, on its board, or in a published row that stands alone.
create or replace function stats_private.exercises_of(p_user_id uuid)
returns table (exercise_id text)
language sql stable
as $$
    select p.exercise_id from public.session_exercise_part p where p.user_id = p_user_id
    union
    select w.exercise_id from stats_private.window_exercises(p_user_id) w
    union
    select r.exercise_id from public.user_exercise_records r where r.user_id = p_user_id
    union
    select m.exercise_id from public.user_exercise_rep_maxes m where m.user_id = p_user_id
    union
    select t.exercise_id from stats_private.rep_max_steps t where t.user_id = p_user_id
$$;

-- Every exercise that has a place on the account's PR board: published work or a manual record.
create or replace function stats_private.window_exercises(p_user_id uuid)
returns table (exercise_id text)
language sql stable
as $$
    select d.exercise_id from public.user_exercise_daily_rollups d where d.user_id = p_user_id
    union
    select m.exercise_id from public.user_manual_pr_records m where m.user_id = p_user_id
    union
    select s.exercise_id from public.user_pr_exercise_summary_snapshots s where s.user_id = p_user_id
$$;

-- The day in the middle of the account's published snapshot window; null before its first publication.
create or replace function stats_private.published_anchor(p_user_id uuid)
returns date
-- Not in SQL: up to PostgreSQL 17 the server plans the body of such a function at each call.
language plpgsql stable
as $$
begin
    return (select s.published_anchor from public.user_stats_refresh_state s where s.user_id = p_user_id);
end;
$$;
