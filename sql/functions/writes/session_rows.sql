-- The canonical rows of one session.
-- Promises: called under the account's write lock, with a validated payload.
-- Locks: canonical rows
-- Writes: workout_sessions, session_exercise_part, session_sets

-- Returns the account's session for a replacement or a delete; the account's write lock keeps it as it is. Raises
-- P0002 where the account has no such session (somebody else's looks the same) and 40001 where it changed since
-- p_expected_updated_at (null: any).
create or replace function stats_private.session_to_change(
    p_session_id uuid, p_user_id uuid, p_expected_updated_at text
)
returns public.workout_sessions
language plpgsql
as $$
declare
    v_session public.workout_sessions;
begin
    select w.* into v_session
    from public.workout_sessions w
    where w.id = p_session_id and w.user_id = p_user_id;
    if not found then
        raise exception using errcode = 'P0002', message = 'session_id: this account has no such session';
    elsif v_session.updated_at <> p_expected_updated_at::timestamptz then
        raise exception using errcode = '40001',
            message = 'expected_updated_at: the session was changed meanwhile; read it again and repeat the edit';
    end if;
    return v_session;
end;
$$;

-- Writes the session's rows and returns its updated_at. p_old: the session as it was, a null row for a new one.
-- Raises 22023 where another session of the account has the same source and source_ref.
create or replace function stats_private.write_session(
    p_session_id uuid, p_user_id uuid, p_payload jsonb, p_old public.workout_sessions
)
returns timestamptz
language plpgsql
as $$
declare
    v_source text := coalesce(p_payload ->> 'source', p_old.source);
    v_source_ref text := coalesce(p_payload ->> 'source_ref', p_old.source_ref);
    v_updated_at timestamptz;
begin
    if v_source_ref is not null then
        if exists (
            select from public.workout_sessions w
            where w.user_id = p_user_id and w.source = v_source and w.source_ref = v_source_ref
                and w.id <> p_session_id
        ) then
            raise exception using errcode = '22023',
                message = '$.source_ref: this account already has a session with this source and source_ref';
        end if;
    end if;
    if p_old.id is not null then
        perform stats_private.delete_session_parts(p_session_id);
    end if;
    insert into public.workout_sessions as w (
        id, user_id, session_date, title, started_at, duration_seconds, notes, source, source_ref, updated_at)
    values (
        p_session_id, p_user_id, (p_payload ->> 'session_date')::date, p_payload ->> 'title',
        (p_payload ->> 'started_at')::timestamptz, (p_payload ->> 'duration_seconds')::numeric,
        p_payload ->> 'notes', v_source, v_source_ref, clock_timestamp())
    on conflict (id) do update set
        session_date = excluded.session_date,
        title = excluded.title,
        started_at = excluded.started_at,
        duration_seconds = excluded.duration_seconds,
        notes = excluded.notes,
        source = excluded.source,
        source_ref = excluded.source_ref,
        -- Strictly later, whatever the clock did, so that expected_updated_at notices every change.
        updated_at = greatest(excluded.updated_at, w.updated_at + interval '1 microsecond')
    returning w.updated_at into v_updated_at;

    with exercises as (
        select e.place, e.value from jsonb_array_elements(p_payload -> 'exercises') with ordinality e (value, place)
    ),
    parts as (
        insert into public.session_exercise_part as p (session_id, user_id, exercise_id, position, notes, superset)
        select
            p_session_id, p_user_id, e.value ->> 'exercise_id', e.place, e.value ->> 'notes',
            (e.value ->> 'superset')::numeric
        from exercises e
        returning p.id, p.position
    )
    insert into public.session_sets (
        part_id, set_no, set_type, weight_kg, reps, distance_m, duration_seconds, rpe, is_completed)
    select
        parts.id, s.place, coalesce(s.value ->> 'set_type', 'normal'), (s.value ->> 'weight_kg')::numeric,
        (s.value ->> 'reps')::numeric, (s.value ->> 'distance_m')::numeric,
        (s.value ->> 'duration_seconds')::numeric, (s.value ->> 'rpe')::numeric,
        coalesce((s.value ->> 'is_completed')::boolean, true)
    from parts
    join exercises e on e.place = parts.position
    cross join lateral jsonb_array_elements(e.value -> 'sets') with ordinality s (value, place);
    return v_updated_at;
end;
$$;

-- Deletes the parts and sets of a session.
create or replace function stats_private.delete_session_parts(p_session_id uuid)
returns void
language plpgsql
as $$
begin
    delete from public.session_sets s
    using public.session_exercise_part p
    where p.session_id = p_session_id and s.part_id = p.id;
    delete from public.session_exercise_part p where p.session_id = p_session_id;
end;
$$;
