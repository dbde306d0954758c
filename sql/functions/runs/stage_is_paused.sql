-- stats_private.stage_is_paused(stage) -> true where an operator paused the stage
-- Promises: every stage asks this first, whoever calls it; claim, compute, publish or maintenance.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.stage_is_paused(p_stage text)
returns boolean
-- Not in SQL: up to PostgreSQL 17 the server plans the body of such a function at each call.
language plpgsql stable
as $$
begin
    return (select p_stage = any (s.paused_stages) from public.stats_projection_worker_settings s);
end;
$$;
