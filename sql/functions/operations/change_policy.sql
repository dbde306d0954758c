-- public.update_stats_projection_policy_v1(e1rm_formula, e1rm_max_reps, week_start) -> the policy row
-- Promises: what is null stays as it is. A change counts policy_version up: the next run of every account then
--   rebuilds its whole history, and a run under way that began under the old one ends as invalidated. Where nothing
--   changes nothing is written. Service and administrators only (42501). Raises 22023 for a value out of range.
-- Locks: policy row
-- Writes: stats_projection_policy; its trigger asks for the walk through all accounts (maintenance/catalog.sql)
create or replace function public.update_stats_projection_policy_v1(
    p_e1rm_formula text default null, p_e1rm_max_reps integer default null, p_week_start integer default null
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = 'only service and administrators change the policy';
    elsif p_e1rm_formula not in ('brzycki', 'epley', 'lombardi') then
        raise exception using errcode = '22023', message = 'e1rm_formula: must be brzycki, epley or lombardi';
    elsif p_e1rm_max_reps not between 1 and 36 then
        raise exception using errcode = '22023', message = 'e1rm_max_reps: must be 1 to 36';
    elsif p_week_start not between 1 and 7 then
        raise exception using errcode = '22023', message = 'week_start: must be an ISO day, 1 (Monday) to 7';
    end if;
    update public.stats_projection_policy p
    set e1rm_formula = coalesce(p_e1rm_formula, p.e1rm_formula),
        e1rm_max_reps = coalesce(p_e1rm_max_reps, p.e1rm_max_reps),
        week_start = coalesce(p_week_start, p.week_start),
        policy_version = p.policy_version + 1,
        updated_at = clock_timestamp()
    where (p.e1rm_formula, p.e1rm_max_reps, p.week_start) is distinct from (
        coalesce(p_e1rm_formula, p.e1rm_formula), coalesce(p_e1rm_max_reps, p.e1rm_max_reps),
        coalesce(p_week_start, p.week_start));
    return (select to_jsonb(p) - 'id' from public.stats_projection_policy p);
end;
$$;
