-- public.stats_cron_history_v1(entry, failed, limit) -> {known, runs}: the newest runs that beats fired, newest first
-- Promises: at most `limit` (1 to 1000) runs, of `entry` alone where one is named, with `failed` only those that failed.
--   known: the history has runs of that entry at all. Service and administrators only (42501); 22023 for another limit;
--   55000 where rows are hidden.
-- Locks: none
-- Writes: nothing
create or replace function public.stats_cron_history_v1(
    p_entry text default null, p_failed boolean default false, p_limit integer default 20
)
returns jsonb
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform stats_private.require_operator('the history');
    if p_limit is null or p_limit not between 1 and 1000 then
        raise exception using errcode = '22023', message = 'limit: must be a whole number from 1 to 1000';
    end if;
    return jsonb_build_object(
        'known', exists (select from public.cron_run_history h where h.job_name = p_entry),
        'runs', (
            select coalesce(jsonb_agg(to_jsonb(n) - 'id' order by n.id desc), '[]')
            from (
                select
                    h.id, h.started_at, h.job_name, h.status, h.worker, h.response, h.error,
                    extract(epoch from h.ended_at - h.started_at) * 1000 as ms
                from public.cron_run_history h
                where (p_entry is null or h.job_name = p_entry) and (not p_failed or h.status = 'failed')
                order by h.id desc
                limit p_limit
            ) n));
end;
$$;
