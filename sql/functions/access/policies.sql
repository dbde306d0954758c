-- What an account may read of the canonical rows: its own, and the global catalog. What others may: owner_policies.sql.
-- Promises: row security on every canonical table; the owner's functions see past it, callers do not.
-- Locks: none
-- Writes: nothing
alter table public.exercises enable row level security;
alter table public.exercise_external_mappings enable row level security;
alter table public.workout_sessions enable row level security;
alter table public.session_exercise_part enable row level security;
alter table public.session_sets enable row level security;
alter table public.user_manual_pr_records enable row level security;

drop policy if exists own_and_global on public.exercises;
create policy own_and_global on public.exercises for select to authenticated
using (owner_user_id is null or owner_user_id = (select auth.uid()));

drop policy if exists own_and_global on public.exercise_external_mappings;
create policy own_and_global on public.exercise_external_mappings for select to authenticated
using (owner_user_id is null or owner_user_id = (select auth.uid()));

drop policy if exists own_rows on public.workout_sessions;
create policy own_rows on public.workout_sessions for select to authenticated
using (user_id = (select auth.uid()));

drop policy if exists own_rows on public.session_exercise_part;
create policy own_rows on public.session_exercise_part for select to authenticated
using (user_id = (select auth.uid()));

drop policy if exists own_rows on public.session_sets;
create policy own_rows on public.session_sets for select to authenticated
using (
    exists (
        select from public.session_exercise_part p
        where p.id = session_sets.part_id and p.user_id = (select auth.uid()))
);

drop policy if exists own_rows on public.user_manual_pr_records;
create policy own_rows on public.user_manual_pr_records for select to authenticated
using (user_id = (select auth.uid()));
