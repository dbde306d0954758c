-- stats_private.e1rm(weight in kg, reps, formula, greatest reps that count) -> kg, rounded half up to 0.01 kg
-- Promises: one repetition is the weight itself; null for no load, no reps, or more than p_max_reps.
--   Brzycki (1993): 36 w / (37 - r). Epley (1985): w (1 + r / 30). Lombardi (1989): w r^0.10.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.e1rm(p_weight_kg numeric, p_reps integer, p_formula text, p_max_reps integer)
returns numeric
language sql immutable
as $$
    select case
        when p_weight_kg <= 0 or p_reps < 1 or p_reps > p_max_reps then null
        when p_reps = 1 then p_weight_kg
        when p_formula = 'brzycki' then round(36 * p_weight_kg / (37 - p_reps), 2)
        when p_formula = 'epley' then round(p_weight_kg * (30 + p_reps) / 30, 2)
        when p_formula = 'lombardi' then round(p_weight_kg * power(p_reps::numeric, 0.10), 2)
    end
$$;
