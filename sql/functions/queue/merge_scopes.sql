-- stats_private.merge_scopes(scopes) -> one scope that covers them all
-- Promises: from_date is the earliest, null (everything) wins; exercise_ids is the sorted union, empty (all) wins;
--   a window_only scope adds nothing to either, and the result is window_only where every scope is.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.merge_scopes(p_scopes stats_private.refresh_scope [])
returns stats_private.refresh_scope
language sql immutable
as $$
    with scopes as (
        select s.from_date, s.exercise_ids from unnest(p_scopes) as s where not s.window_only
    )
    select
        case when bool_or(scopes.from_date is null) then null else min(scopes.from_date) end,
        case
            when bool_or(cardinality(scopes.exercise_ids) = 0) then '{}'
            else array(
                select ids.exercise_id collate "C"
                from scopes as every_scope
                cross join lateral unnest(every_scope.exercise_ids) as ids (exercise_id)
                group by 1
                order by 1)
        end,
        count(*) = 0
    from scopes
$$;
