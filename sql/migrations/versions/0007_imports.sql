-- Imports: what was imported of each workout, who set an exercise's tracking, supersets.

-- A workout of an imported file, and the session that it is. No foreign key: what was deleted here is known by its row.
create table stats_private.imported_workouts (
    user_id uuid not null,
    source text not null,
    session_id uuid not null,
    source_ref text not null,
    session_date date not null,
    started_at timestamptz,
    sets text,
    content text,
    left_at timestamptz,
    imported_at timestamptz not null default now(),
    constraint imported_workouts_pkey primary key (user_id, source, session_id)
);
comment on column stats_private.imported_workouts.sets is
'the sets of the file, twelve characters each (imports/fingerprints.sql); null: imported by an earlier release';
comment on column stats_private.imported_workouts.content is
'a hash of all that the import saved; null: imported by an earlier release, or found there and not written';
comment on column stats_private.imported_workouts.left_at is
'updated_at of the session as an import left it; null: the import did not write the session';

alter table public.exercises add column tracking_from_import boolean not null default false;
comment on column public.exercises.tracking_from_import is
'true: an import chose the tracking, and nobody has set it since; a later import may widen it';

alter table public.session_exercise_part add column superset integer;
comment on column public.session_exercise_part.superset is
'parts of a session that have the same number were done in turn';
alter table public.session_exercise_part
-- Every row is null.
-- squawk-ignore constraint-missing-not-valid
add constraint session_exercise_part_superset_positive check (superset > 0);

-- An import saved a few sessions a transaction, and so within seconds of created_at, when its transaction began. An
-- edit came later.
insert into stats_private.imported_workouts (
    user_id, source, session_id, source_ref, session_date, started_at, left_at, imported_at)
select
    w.user_id, w.source, w.id, w.source_ref, w.session_date, w.started_at,
    case when w.updated_at < w.created_at + interval '10 seconds' then w.updated_at end, w.created_at
from public.workout_sessions w
where w.source is not null and w.source_ref is not null and w.source <> 'wodup';

-- An import made the exercise and its mapping in one transaction; upsert_exercise_v1 sets updated_at.
update public.exercises x set tracking_from_import = true
where x.updated_at = x.created_at and x.owner_user_id is not null
    and exists (
        select from public.exercise_external_mappings m
        where m.exercise_id = x.id and m.owner_user_id = x.owner_user_id and m.created_at = x.created_at
            and m.provider in ('strong', 'hevy', 'fitnotes'));
