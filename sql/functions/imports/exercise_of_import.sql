-- What the names of a file stand for.
-- Promises: an exercise is the one that the account has mapped the exact name to, else the one that it is mapped to for
--   all, else the one that the account has under the same name from another app's file.
-- Locks: none
-- Writes: nothing

-- Returns the exercise, archived or not; no row: there is none yet.
create or replace function stats_private.exercise_of_import(p_provider text, p_name text, p_user_id uuid)
returns setof public.exercises
language sql stable
as $$
    select x.*
    from (
        select m.id, 1 as place, 0::bigint as nth from stats_private.mapped_exercise(p_provider, p_name, p_user_id) m
        union all
        select e.id, 2, m.id
        from public.exercise_external_mappings m
        join public.exercises e on e.id = m.exercise_id and (e.owner_user_id is null or e.owner_user_id = p_user_id)
        where m.external_id = p_name
            and m.provider = any (array(
                select distinct i.source from stats_private.imported_workouts i where i.user_id = p_user_id))
            and (m.owner_user_id = p_user_id or m.owner_user_id is null)
            and exists (
                select from public.session_exercise_part p where p.user_id = p_user_id and p.exercise_id = e.id)
    ) found
    join public.exercises x on x.id = found.id
    order by found.place, found.nth
    limit 1
$$;

-- public.import_exercises_v1(provider, names, expected_user_id) -> one row a name
-- What each name of names, [{name, tracking, assisted}], stands for to the signed-in account, as import_exercise_v1
-- would answer it, and `known`, how it is tracked now. No exercise_id: it would be new; problem says why it cannot be.
-- Raises 42501 and 22023.
create or replace function public.import_exercises_v1(p_provider text, p_names jsonb, p_expected_user_id uuid)
returns table (
    name text, exercise_id text, exercise_name text, tracking text, known text, archived boolean, problem text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.owner_of_write(p_expected_user_id::text);
begin
    perform stats_private.require_argument('names', jsonb_typeof(p_names) is distinct from 'array');
    return query
    select
        n.name, x.id::text, coalesce(x.name, n.name),
        case
            when x.id is null then n.tracking
            else stats_private.widened_tracking(x, n.tracking, n.assisted, v_user_id)
        end,
        x.tracking, coalesce(x.archived_at is not null, false),
        case when x.id is null then stats_private.exercise_problem(n.name, n.tracking, null) end
    from jsonb_to_recordset(p_names) n (name text, tracking text, assisted boolean)
    left join lateral stats_private.exercise_of_import(p_provider, n.name, v_user_id) x on true;
end;
$$;
