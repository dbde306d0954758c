-- stats_private.e1rm(weight, reps, formula, greatest reps that count) -> estimated one-repetition maximum
-- Promises: weight and answer in hundredths of a kilogram, whole numbers because the sets of a whole history go through
--   it; rounded half up. One repetition is the weight itself; null for no load, no reps, or more than p_max_reps.
--   Brzycki (1993): 36 w / (37 - r). Epley (1985): w (1 + r / 30). Lombardi (1989): w r^0.10.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.e1rm(p_weight bigint, p_reps integer, p_formula text, p_max_reps integer)
returns bigint
language sql immutable
as $$
    select case
        when p_weight <= 0 or p_reps < 1 or p_reps > p_max_reps then null
        when p_reps = 1 then p_weight
        when p_formula = 'brzycki' then (72 * p_weight + 37 - p_reps) / (2 * (37 - p_reps))
        when p_formula = 'epley' then (p_weight * (30 + p_reps) + 15) / 30
        when p_formula = 'lombardi' then round(p_weight * power(p_reps::numeric, 0.10))::bigint
    end
$$;
