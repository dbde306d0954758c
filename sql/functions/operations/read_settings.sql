-- public.stats_projection_settings_v1() -> the settings row, as update_stats_projection_settings_v1 answers it
-- Promises: service and administrators only (42501); 55000 where rows are hidden.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_projection_settings_v1()
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.require_operator('the settings');
    return (select to_jsonb(s) - 'id' from public.stats_projection_worker_settings s);
end;
$$;
