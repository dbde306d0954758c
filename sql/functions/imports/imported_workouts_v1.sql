-- public.imported_workouts_v1(source, expected_user_id) -> one row a session, and one a deleted session
-- Promises: all that the signed-in account has to compare a file of the source with: every session as it is now, what
--   the last import of the source made of it (is_own: it came, or was found, by one), whether it is still as an import
--   left it, and the archived exercises that it holds; and every imported session that has been deleted since,
--   whichever source it was. Raises 42501 and 22023.
-- Locks: none
-- Writes: nothing
create or replace function public.imported_workouts_v1(p_source text, p_expected_user_id uuid)
returns table (
    session_id uuid, source text, is_own boolean, is_deleted boolean, is_as_left boolean, source_ref text, title text,
    session_date date, started_at timestamptz, updated_at timestamptz, sets text,
    imported_ref text, imported_date date, imported_start timestamptz, imported_sets text, content text,
    archived text []
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid := stats_private.owner_of_write(p_expected_user_id::text);
begin
    perform stats_private.require_argument('source', coalesce(p_source, '') = '');
    return query
    select
        w.id, coalesce(w.source, 'the app'), i.session_id is not null, false,
        coalesce(i.left_at = w.updated_at, false), w.source_ref, w.title, w.session_date, w.started_at, w.updated_at,
        coalesce(f.sets, ''), i.source_ref, i.session_date, i.started_at, i.sets, i.content,
        array(
            select distinct x.id::text
            from public.session_exercise_part p
            join public.exercises x on x.id = p.exercise_id and x.archived_at is not null
            where p.session_id = w.id)
    from public.workout_sessions w
    left join stats_private.session_fingerprints(v_user_id) f on f.session_id = w.id
    left join stats_private.imported_workouts i
        on i.user_id = v_user_id and i.source = p_source and i.session_id = w.id
    where w.user_id = v_user_id;

    return query
    -- A session may have been imported from several sources; this one's own memory of it comes first.
    select distinct on (i.session_id)
        i.session_id, i.source, i.source = p_source, true, false, i.source_ref, null::text, i.session_date,
        i.started_at, null::timestamptz, coalesce(i.sets, ''), i.source_ref, i.session_date, i.started_at, i.sets,
        i.content, '{}'::text []
    from stats_private.imported_workouts i
    where i.user_id = v_user_id
        and not exists (select from public.workout_sessions w where w.id = i.session_id)
    order by i.session_id, i.source <> p_source, i.source;
end;
$$;
