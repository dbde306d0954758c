-- public.import_wodup_batch_to_canonical(batch) -> what became of it
-- Batch: {id?, user_id, movements: [{id, name, slug?, hasReps?, hasLoad?, hasDistance?, hasDuration?}],
--   days: [{day?, results: [{id, doneOn?, doneAt?, timeZone?, title?, notes?, pr?, sets: [{movementId, reps?, load?,
--   loadUnit?, distanceMeters?, durationSeconds?}]}]}]}. One result is one session, on doneOn or else on its day;
--   doneAt without an offset is local to timeZone; pr is ignored, records are computed.
-- Promises: saves the results that the account does not have yet, all in this transaction or none: sessions with
--   source wodup, a receipt each, one generation and one dirty range. A result's id is its key: one that the account
--   has, perhaps edited, or that was imported within the last 30 days and deleted since, is left alone, so the same
--   batch again changes nothing. A movement is the exercise that its exact id is mapped to (writes/mapped_exercise.sql);
--   else it becomes a personal placeholder with a mapping, and is reported. Reps 0 is a failed attempt: a set that
--   is not completed. A set that contradicts its exercise is reported and left out. After the writes one attempt at
--   the refresh, which never undoes them: refresh says published, failed (it waits for its retry), deferred (to the
--   workers) or not_needed. Raises 42501 (only service and administrators), 22023 with the JSON path, and
--   55P03 or 40001 as lock_account.sql says.
-- Locks: worker (try), run row (its own: inserted here), write, state row, job rows (skip locked), canonical rows,
--   read models, rollover rows (the account's)
-- Writes: exercises, exercise_external_mappings, workout_sessions, session_exercise_part, session_sets,
--   stats_mutation_receipts, user_stats_refresh_state, user_exercise_stats_refresh_jobs, user_stats_projection_runs,
--   private outputs, read models, user_pr_overview_snapshot_headers, user_pr_overview_rollover_state
-- Next: pipeline/refresh_at_once.sql
create or replace function public.import_wodup_batch_to_canonical(p_batch jsonb)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_results jsonb;
    v_movements jsonb;
    v_saved jsonb := '[]';
    v_generation bigint;
    v_is_ours boolean;
    v_refresh text;
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = 'only the service and administrators import batches';
    end if;
    perform stats_private.validate_wodup_batch(p_batch);
    v_user_id := (p_batch ->> 'user_id')::uuid;

    -- Before the write lock: everybody takes the two in this order.
    v_is_ours := stats_private.try_worker_lock(v_user_id);
    perform stats_private.lock_account(v_user_id);
    v_results := stats_private.wodup_results_by_state(p_batch, v_user_id);
    v_movements := stats_private.wodup_exercises(p_batch, v_user_id, v_results -> 'new');
    if exists (select from stats_private.wodup_sessions(p_batch, v_results -> 'new', v_movements)) then
        v_generation := stats_private.enqueue_wodup_import(p_batch, v_user_id, v_results -> 'new', v_movements);
        perform stats_private.hold_global_exercises(array(
            select m.value ->> 'exercise_id' from jsonb_each(v_movements) m));
        v_saved := stats_private.write_wodup_sessions(
            p_batch, v_user_id, v_results -> 'new', v_movements, v_generation);
        v_refresh := stats_private.refresh_at_once(v_user_id, v_is_ours, 'import_wodup_batch_to_canonical')
            ->> 'response';
    end if;
    return stats_private.wodup_report(p_batch, v_user_id, v_results, v_movements, v_saved, v_generation)
        || jsonb_build_object('refresh', case
            when v_generation is null then 'not_needed'
            when v_refresh in ('published', 'failed') then v_refresh
            else 'deferred'
        end);
end;
$$;

-- Keeps global exercises as they are tracked until the commit, which the refresh at once needs: it computes before
-- others see the sessions, so a walk that follows a change would pass by them. Saves need no such hold, and so no
-- account can hold up the catalog.
-- Locks: canonical rows (share, of global exercises, in the order of their ids)
create or replace function stats_private.hold_global_exercises(p_exercise_ids text [])
returns void
language plpgsql
as $$
declare
    v_lock_timeout text := stats_private.limit_waits();
begin
    perform from public.exercises x
    where x.owner_user_id is null and x.id = any (p_exercise_ids)
    order by x.id
    for share;
    perform set_config('lock_timeout', v_lock_timeout, true);
end;
$$;

-- Every result of a validated batch with what identifies it: its mutation_id is the same in every batch.
create or replace function stats_private.wodup_results(p_batch jsonb)
returns table (
    path text, result_id text, mutation_id uuid, content_hash bytea, session_date date, started_at timestamptz,
    result jsonb, spelling_hash bytea
)
language sql stable
as $$
    select
        format('$.days[%s].results[%s]', d.place - 1, r.place - 1),
        r.value ->> 'id',
        md5(format('wodup:%s:%s', (p_batch ->> 'user_id')::uuid, r.value ->> 'id'))::uuid,
        stats_private.payload_hash(
            'import_wodup_batch_to_canonical', stats_private.wodup_values(r.value, d.value ->> 'day')::text),
        coalesce(r.value ->> 'doneOn', d.value ->> 'day')::date,
        stats_private.wodup_moment(r.value),
        r.value,
        -- What releases hashed that did not know the values.
        stats_private.payload_hash(
            'import_wodup_batch_to_canonical',
            (r.value - 'pr' || jsonb_build_object('doneOn', coalesce(r.value ->> 'doneOn', d.value ->> 'day')))::text)
    from jsonb_array_elements(p_batch -> 'days') with ordinality d (value, place)
    cross join lateral jsonb_array_elements(d.value -> 'results') with ordinality r (value, place)
$$;

-- When a result was done, null where it does not say.
create or replace function stats_private.wodup_moment(p_result jsonb)
returns timestamptz
language sql stable
as $$
    select case
        when p_result ->> 'doneAt' ~ '(Z|[+-][0-9]{2}(:?[0-9]{2})?)$' then (p_result ->> 'doneAt')::timestamptz
        else (p_result ->> 'doneAt')::timestamp at time zone (p_result ->> 'timeZone')
    end
$$;

-- What a result says, every value in one spelling: what is hashed, so that the same content is known again.
create or replace function stats_private.wodup_values(p_result jsonb, p_day text)
returns jsonb
language sql stable
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'session_date', coalesce(p_result ->> 'doneOn', p_day),
        'started_at', to_jsonb(stats_private.wodup_moment(p_result) at time zone 'UTC'),
        'title', p_result ->> 'title',
        'notes', p_result ->> 'notes',
        'sets', (
            select jsonb_agg(
                jsonb_build_object(
                    'movement_id', s.value ->> 'movementId',
                    'weight_kg', trim_scale(stats_private.wodup_weight(s.value)),
                    'reps', stats_private.number_value(s.value -> 'reps', 0),
                    'distance_m', stats_private.number_value(s.value -> 'distanceMeters', 2),
                    'duration_seconds', stats_private.number_value(s.value -> 'durationSeconds', 0))
                order by s.place)
            from jsonb_array_elements(p_result -> 'sets') with ordinality s (value, place))))
$$;

-- The load of a set in kilograms to 0.01; none is null, and so is 0.
create or replace function stats_private.wodup_weight(p_set jsonb)
returns numeric
language sql immutable
as $$
    select nullif(
        round(
            stats_private.number_of(p_set -> 'load')
            * case when lower(p_set ->> 'loadUnit') in ('lb', 'lbs') then 0.45359237 else 1 end, 2), 0)
$$;

-- The ids of the results that are new, already there, and already there with other content.
create or replace function stats_private.wodup_results_by_state(p_batch jsonb, p_user_id uuid)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'new', coalesce(jsonb_agg(w.result_id) filter (where s.id is null and r.mutation_id is null), '[]'),
        'already_there', count(*) filter (where s.id is not null or r.mutation_id is not null),
        'changed', coalesce(
            jsonb_agg(jsonb_build_object(
                'path', w.path,
                'reason', 'result ' || w.result_id || ' was imported before with other content and is left alone')
            ) filter (where r.payload_hash not in (w.content_hash, w.spelling_hash)), '[]'))
    from stats_private.wodup_results(p_batch) w
    left join public.workout_sessions s
        on s.user_id = p_user_id and s.source = 'wodup' and s.source_ref = w.result_id
    left join public.stats_mutation_receipts r on r.user_id = p_user_id and r.mutation_id = w.mutation_id
$$;

-- The sets of the named results in kilograms to 0.01, in the batch's order.
create or replace function stats_private.wodup_sets(p_batch jsonb, p_result_ids jsonb)
returns table (
    path text, result_id text, place bigint, movement_id text, weight_kg numeric, reps numeric, distance_m numeric,
    duration_seconds numeric
)
language sql stable
as $$
    select
        w.path || format('.sets[%s]', s.place - 1), w.result_id, s.place, s.value ->> 'movementId',
        stats_private.wodup_weight(s.value),
        (s.value ->> 'reps')::numeric,
        nullif(round((s.value ->> 'distanceMeters')::numeric, 2), 0),
        nullif((s.value ->> 'durationSeconds')::numeric, 0)
    from stats_private.wodup_results(p_batch) w
    cross join lateral jsonb_array_elements(w.result -> 'sets') with ordinality s (value, place)
    where w.result_id in (select jsonb_array_elements_text(p_result_ids))
$$;

-- Leads from each movement of the named results to its exercise: {exercise_id, name, is_new, declared}. Makes the
-- placeholders. declared is the tracking that the movement's flags give, null where the batch does not describe it.
-- Locks: canonical rows (the caller holds write)
-- Writes: exercises, exercise_external_mappings
create or replace function stats_private.wodup_exercises(p_batch jsonb, p_user_id uuid, p_result_ids jsonb)
returns jsonb
language plpgsql
as $$
declare
    v_exercises jsonb;
begin
    with used as (
        select
            s.movement_id,
            case
                when bool_or(s.reps is not null) then
                    case when bool_or(s.weight_kg is not null) then 'weight_reps' else 'reps_only' end
                when bool_or(s.distance_m is not null) then
                    case when bool_or(s.weight_kg is not null) then 'weight_distance' else 'distance_duration' end
                when bool_or(s.duration_seconds is not null) then
                    case when bool_or(s.weight_kg is not null) then 'weight_duration' else 'duration' end
                else 'weight_reps'
            end as shown
        from stats_private.wodup_sets(p_batch, p_result_ids) s
        group by s.movement_id
    ),
    movements as (
        select
            u.movement_id, u.shown,
            coalesce(left(btrim(m.value ->> 'name'), 200), left('WodUp movement ' || u.movement_id, 200)) as name,
            stats_private.wodup_tracking(m.value) as declared,
            mapped.id as exercise_id
        from used u
        left join jsonb_array_elements(p_batch -> 'movements') m (value) on m.value ->> 'id' = u.movement_id
        left join lateral stats_private.mapped_exercise('wodup', u.movement_id, p_user_id) mapped on true
    ),
    placeholders as materialized (
        select m.movement_id, m.name, coalesce(m.declared, m.shown) as tracking, gen_random_uuid()::text as exercise_id
        from movements m
        where m.exercise_id is null
    ),
    new_exercises as (
        insert into public.exercises (id, owner_user_id, name, tracking)
        select p.exercise_id, p_user_id, p.name, p.tracking from placeholders p
    ),
    new_mappings as (
        insert into public.exercise_external_mappings (provider, external_id, owner_user_id, exercise_id)
        select 'wodup', p.movement_id, p_user_id, p.exercise_id from placeholders p
        -- One that leads to another account's exercise.
        on conflict (provider, external_id, owner_user_id) do update set exercise_id = excluded.exercise_id
    )
    select coalesce(
        jsonb_object_agg(m.movement_id, jsonb_build_object(
            'exercise_id', coalesce(m.exercise_id, p.exercise_id), 'name', m.name, 'declared', m.declared,
            'is_new', p.exercise_id is not null)), '{}')
    into v_exercises
    from movements m
    left join placeholders p on p.movement_id = m.movement_id;
    return v_exercises;
end;
$$;

-- The tracking that a movement's flags give; null where it has none of them.
create or replace function stats_private.wodup_tracking(p_movement jsonb)
returns text
language sql immutable
as $$
    select case
        when f.load and f.reps then 'weight_reps'
        when f.load and f.distance then 'weight_distance'
        when f.load and f.duration then 'weight_duration'
        when f.load then 'weight_reps'
        when f.reps then 'reps_only'
        when f.distance then 'distance_duration'
        when f.duration then 'duration'
    end
    from (values (
        coalesce((p_movement ->> 'hasLoad')::boolean, false), coalesce((p_movement ->> 'hasReps')::boolean, false),
        coalesce((p_movement ->> 'hasDistance')::boolean, false),
        coalesce((p_movement ->> 'hasDuration')::boolean, false)
    )) f (load, reps, distance, duration)
$$;

-- The sets of the named results with their exercise; problem says why one cannot be stored for it.
create or replace function stats_private.wodup_sets_of_exercises(
    p_batch jsonb, p_result_ids jsonb, p_movements jsonb
)
returns table (
    path text, result_id text, place bigint, movement_id text, exercise_id text, problem text, value jsonb
)
language sql stable
as $$
    select
        s.path, s.result_id, s.place, s.movement_id, x.id,
        case
            when x.archived_at is not null then format('exercise %s is archived', x.id)
            when s.weight_kg > 0 and stats_private.has_no_weight(x.tracking)
                then format('a load on exercise %s, which is tracked as %s', x.id, x.tracking)
        end,
        jsonb_strip_nulls(jsonb_build_object(
            'weight_kg', s.weight_kg, 'reps', s.reps, 'distance_m', s.distance_m,
            'duration_seconds', s.duration_seconds,
            'is_completed', coalesce(s.reps, 0) > 0 or s.distance_m is not null or s.duration_seconds is not null))
    from stats_private.wodup_sets(p_batch, p_result_ids) s
    join public.exercises x on x.id = p_movements #>> array[s.movement_id, 'exercise_id']
$$;

-- The named results as sessions in the form of save_session_v5, without the sets that cannot be stored; a result
-- that has no other ones is none. Consecutive sets of one movement are one part.
create or replace function stats_private.wodup_sessions(p_batch jsonb, p_result_ids jsonb, p_movements jsonb)
returns table (path text, result_id text, mutation_id uuid, content_hash bytea, payload jsonb)
language sql stable
as $$
    with kept as (
        select
            s.result_id, s.place, s.exercise_id, s.value,
            s.place - row_number() over (partition by s.result_id, s.movement_id order by s.place) as gap,
            s.movement_id
        from stats_private.wodup_sets_of_exercises(p_batch, p_result_ids, p_movements) s
        where s.problem is null
    ),
    parts as (
        select
            k.result_id, min(k.place) as place,
            jsonb_build_object('exercise_id', k.exercise_id, 'sets', jsonb_agg(k.value order by k.place)) as part
        from kept k
        group by k.result_id, k.movement_id, k.exercise_id, k.gap
    ),
    exercises as (
        select p.result_id, jsonb_agg(p.part order by p.place) as exercises from parts p group by p.result_id
    )
    select
        w.path, w.result_id, w.mutation_id, w.content_hash,
        jsonb_strip_nulls(jsonb_build_object(
            'session_date', w.session_date, 'started_at', w.started_at, 'title', w.result -> 'title',
            'notes', w.result -> 'notes', 'source', 'wodup', 'source_ref', w.result_id,
            'exercises', e.exercises))
    from stats_private.wodup_results(p_batch) w
    join exercises e on e.result_id = w.result_id
$$;

-- Takes one generation for all sessions of the named results; it covers every exercise that they may hold.
-- Locks: state row, job rows (skip locked; the caller holds write)
create or replace function stats_private.enqueue_wodup_import(
    p_batch jsonb, p_user_id uuid, p_result_ids jsonb, p_movements jsonb
)
returns bigint
language sql
as $$
    select public.enqueue_user_exercise_stats_refresh_job(
        p_user_id, min(w.session_date), array(select m.value ->> 'exercise_id' from jsonb_each(p_movements) m),
        'wodup_import', 'wodup_batch:' || (p_batch ->> 'id'), 'WodUp batch imported',
        jsonb_build_object('results', count(*)))
    from stats_private.wodup_results(p_batch) w
    where w.result_id in (select jsonb_array_elements_text(p_result_ids))
$$;

-- Writes the sessions, a receipt for each, and returns their ids.
-- Locks: canonical rows (the caller holds write)
create or replace function stats_private.write_wodup_sessions(
    p_batch jsonb, p_user_id uuid, p_result_ids jsonb, p_movements jsonb, p_generation bigint
)
returns jsonb
language plpgsql
as $$
declare
    v_session record;
    v_session_id uuid;
    v_updated_at timestamptz;
    v_saved jsonb := '[]';
begin
    for v_session in
        select w.* from stats_private.wodup_sessions(p_batch, p_result_ids, p_movements) w
    loop
        v_session_id := gen_random_uuid();
        v_updated_at := stats_private.write_session(v_session_id, p_user_id, v_session.payload, null);
        perform stats_private.store_receipt(
            p_user_id, v_session.mutation_id, v_session.content_hash, 'session_created', v_session_id, p_generation,
            jsonb_build_object('session_id', v_session_id, 'updated_at', v_updated_at));
        v_saved := v_saved || jsonb_build_array(v_session_id);
    end loop;
    return v_saved;
end;
$$;

-- The answer: every result is saved, already there or skipped, and everything strange is named with its JSON path.
create or replace function stats_private.wodup_report(
    p_batch jsonb, p_user_id uuid, p_results jsonb, p_movements jsonb, p_saved jsonb, p_generation bigint
)
returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'user_id', p_user_id, 'batch_id', p_batch ->> 'id',
        'results', (select count(*) from stats_private.wodup_results(p_batch)),
        'results_saved', jsonb_array_length(p_saved),
        'results_already_there', p_results -> 'already_there',
        'results_skipped', jsonb_array_length(p_results -> 'new') - jsonb_array_length(p_saved),
        'sets_saved', sets.saved, 'sets_skipped', sets.skipped,
        'session_ids', p_saved,
        'unmatched_movements', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'movement_id', m.key, 'name', m.value -> 'name', 'exercise_id', x.id, 'tracking', x.tracking)
                order by m.key), '[]')
            from jsonb_each(p_movements) m
            join public.exercises x on x.id = m.value ->> 'exercise_id'
            where (m.value ->> 'is_new')::boolean),
        'contradictions', (
            select coalesce(jsonb_agg(jsonb_build_object(
                'path', format('$.movements[%s]', d.place - 1),
                'reason', format('movement %s has the flags of %s, exercise %s is tracked as %s', m.key,
                    m.value ->> 'declared', x.id, x.tracking)) order by d.place), '[]')
            from jsonb_each(p_movements) m
            join public.exercises x on x.id = m.value ->> 'exercise_id'
            join jsonb_array_elements(p_batch -> 'movements') with ordinality d (value, place)
                on d.value ->> 'id' = m.key
            where x.tracking <> m.value ->> 'declared'
                -- The flags don't tell these three apart.
                and not (m.value ->> 'declared' = 'reps_only' and x.tracking in ('bodyweight_reps', 'assisted_reps'))
        ) || sets.problems || (p_results -> 'changed'),
        'statsRequestedVersion', p_generation)
    from (
        select
            count(*) filter (where s.problem is null) as saved,
            count(*) filter (where s.problem is not null) as skipped,
            coalesce(
                jsonb_agg(jsonb_build_object('path', s.path, 'reason', s.problem)) filter (where s.problem is not null),
                '[]') as problems
        from stats_private.wodup_sets_of_exercises(p_batch, p_results -> 'new', p_movements) s
    ) sets
$$;
