-- stats_private.merge_scopes(scopes) -> one scope that covers them all
-- Promises: from_date is the earliest, null (everything) wins; exercise_ids is the sorted union, empty (all) wins, and
--   more than 1,000 become empty: no row grows without bound, and nothing is missed. A window_only scope adds nothing
--   to either, and the result is window_only where every scope is.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.merge_scopes(p_scopes stats_private.refresh_scope [])
returns stats_private.refresh_scope
language sql immutable
as $$
    with scopes as (
        select s.from_date, s.exercise_ids from unnest(p_scopes) as s where not s.window_only
    ),
    exercises as (
        select ids.exercise_id collate "C" as exercise_id
        from scopes
        cross join lateral unnest(scopes.exercise_ids) as ids (exercise_id)
        group by 1
    )
    select
        case when bool_or(scopes.from_date is null) then null else min(scopes.from_date) end,
        case
            when bool_or(cardinality(scopes.exercise_ids) = 0) or (select count(*) from exercises) > 1000 then '{}'
            else array(select e.exercise_id from exercises as e order by e.exercise_id)
        end,
        count(*) = 0
    from scopes
$$;
