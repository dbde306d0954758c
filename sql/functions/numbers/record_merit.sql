-- stats_private.merit(kind, value) -> whole number; stats_private.record_value(kind, merit) -> value
-- Promises: merit is a record's value as a whole number of which the greater is the better: repetitions and seconds as
--   they are, else hundredths; least assistance counts downwards. record_value is the value that it stands for.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.merit(p_kind text, p_value numeric)
returns bigint
language sql immutable
as $$
    select case
        when p_kind in ('reps', 'duration') then p_value
        when p_kind = 'least_assistance' then -100 * p_value
        else 100 * p_value
    end::bigint
$$;

create or replace function stats_private.record_value(p_kind text, p_merit bigint)
returns numeric
language sql immutable
as $$ select case when p_kind in ('reps', 'duration') then abs(p_merit) else abs(p_merit) * 0.01 end $$;
