-- stats_private.pack_load(weight, reps) -> a weight and its repetitions as one number that compares as the pair does
-- stats_private.packed_weight(packed) -> the weight; stats_private.packed_reps(packed) -> the repetitions, null for none
-- Promises: one max() over packed numbers finds the heaviest weight and the most repetitions at it. The weight, in
--   hundredths of a kilogram, stands from bit 21 up, the repetitions (at most 1,000,000) below. Null for no weight.
--   Plain expressions, so that the planner puts them into the statement that calls them.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.pack_load(p_weight bigint, p_reps integer)
returns bigint
language sql immutable
as $$ select p_weight << 21 | coalesce(p_reps, 0) $$;

create or replace function stats_private.packed_weight(p_packed bigint)
returns bigint
language sql immutable
as $$ select p_packed >> 21 $$;

create or replace function stats_private.packed_reps(p_packed bigint)
returns integer
language sql immutable
as $$ select nullif(p_packed & 2097151, 0)::integer $$;
