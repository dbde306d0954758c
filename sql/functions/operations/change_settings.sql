-- public.update_stats_projection_settings_v1(changes) -> the settings row
-- Promises: changes the named columns of the one settings row, all or none; the stages read it at their next call.
--   `changes` is an object of column names and values; what it doesn't name stays as another operator left it.
--   Raises 42501 (service and administrators only) and 22023 naming the column and the rule.
-- Locks: settings row
-- Writes: stats_projection_worker_settings
create or replace function public.update_stats_projection_settings_v1(p_changes jsonb)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_problem text;
    v_settings public.stats_projection_worker_settings;
    v_constraint text;
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = 'only service and administrators change the settings';
    elsif jsonb_typeof(p_changes) is distinct from 'object' then
        raise exception using errcode = '22023', message = 'changes: must be an object of settings';
    end if;
    select s.* into v_settings from public.stats_projection_worker_settings s for update;
    v_problem := stats_private.problem_of_settings(p_changes, to_jsonb(v_settings) - 'id' - 'updated_at');
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;
    -- 5.0 is a whole number as well, but its text is no integer.
    v_settings := jsonb_populate_record(v_settings, (
        select coalesce(
            jsonb_object_agg(c.name, case
                when jsonb_typeof(c.value) = 'number' then to_jsonb(c.value::numeric::integer) else c.value
            end), '{}')
        from jsonb_each(p_changes) c (name, value)));
    update public.stats_projection_worker_settings s
    set claim_budget_ms = v_settings.claim_budget_ms,
        compute_budget_ms = v_settings.compute_budget_ms,
        publish_budget_ms = v_settings.publish_budget_ms,
        maintenance_budget_ms = v_settings.maintenance_budget_ms,
        lease_seconds = v_settings.lease_seconds,
        active_lease_cap = v_settings.active_lease_cap,
        max_attempts = v_settings.max_attempts,
        retry_backoff_seconds = v_settings.retry_backoff_seconds,
        batch_size = v_settings.batch_size,
        rollover_page = v_settings.rollover_page,
        paused_stages = v_settings.paused_stages,
        updated_at = clock_timestamp()
    returning s.* into v_settings;
    return to_jsonb(v_settings) - 'id';
exception
    when check_violation then
        get stacked diagnostics v_constraint = constraint_name;
        raise exception using errcode = '22023', message = case v_constraint
            when 'stats_projection_worker_settings_lease_covers_a_run'
                then 'lease_seconds: must cover compute_budget_ms plus publish_budget_ms'
            when 'stats_projection_worker_settings_stages_known'
                then 'paused_stages: must be of claim, compute, publish, maintenance'
            else sqlerrm
        end;
end;
$$;

-- Says what is wrong with `changes`, one column at a time; null: nothing. What two columns have to be to each other,
-- and which stages there are, is left to the table's constraints.
create or replace function stats_private.problem_of_settings(p_changes jsonb, p_settings jsonb)
returns text
language sql immutable
as $$
    select k.name || ': ' || case
        when now_is.value is null then 'is not a setting'
        when jsonb_typeof(now_is.value) = 'array' then 'must be a list of stages'
        when k.name = 'publish_budget_ms' and jsonb_typeof(k.value) = 'number' and k.value > '7999'
            then 'must stay below 8000, the deadline of a save'
        else 'must be a whole number from 1 to ' || most.value::text
    end
    from jsonb_each(p_changes) k (name, value)
    cross join lateral (select p_settings -> k.name) now_is (value)
    cross join lateral (values (case k.name
        when 'publish_budget_ms' then 7999
        -- A stage has to end and record that it failed before Celery's soft limit ends the task (tasks/app.py).
        when 'claim_budget_ms' then 80000
        when 'compute_budget_ms' then 80000
        when 'maintenance_budget_ms' then 80000
        when 'batch_size' then 100
        when 'rollover_page' then 25
        -- Of seconds too, so that a thousand times the lease is still an integer.
        else 2147483
    end)) most (value)
    where case
        when now_is.value is null then true
        when jsonb_typeof(now_is.value) = 'array' then
            jsonb_typeof(k.value) <> 'array' or jsonb_path_exists(k.value, 'strict $[*] ? (@.type() != "string")')
        when jsonb_typeof(k.value) = 'number' then
            k.value::numeric <> trunc(k.value::numeric) or k.value::numeric not between 1 and most.value
        else true
    end
    order by now_is.value is null desc, k.name
    limit 1
$$;

-- public.pause_stats_stages_v1(stages, paused) -> the paused stages
-- Promises: adds or removes stages; each answers `paused` from its next call on, whoever calls it. Raises 42501 and
--   22023.
-- Locks: settings row
-- Writes: stats_projection_worker_settings
create or replace function public.pause_stats_stages_v1(p_stages text [], p_paused boolean)
returns text []
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stages text [];
begin
    if not (stats_private.is_service() or stats_private.is_admin()) then
        raise exception using errcode = '42501', message = 'only service and administrators pause a stage';
    elsif p_paused is null then
        raise exception using errcode = '22023', message = 'paused: must be true or false';
    elsif p_stages is null or array_position(p_stages, null) is not null
        or not p_stages <@ array['claim', 'compute', 'publish', 'maintenance']
    then
        raise exception using errcode = '22023', message = 'stages: must be of claim, compute, publish, maintenance';
    end if;
    -- Locked before it is read, so that two operators don't undo each other.
    select s.paused_stages into v_stages from public.stats_projection_worker_settings s for update;
    select coalesce(array_agg(x.stage order by x.stage), '{}') into v_stages
    from (
        select p.stage from unnest(v_stages) p (stage) where p_paused or p.stage <> all (p_stages)
        union
        select p.stage from unnest(p_stages) p (stage) where p_paused
    ) x;
    perform public.update_stats_projection_settings_v1(jsonb_build_object('paused_stages', v_stages));
    return v_stages;
end;
$$;
