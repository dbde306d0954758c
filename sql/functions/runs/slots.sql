-- The slots: how many runs may be in flight at once, which runs hold one, and which one is kept for small accounts.
-- Promises: a run that waits for its retry time holds none, and neither does one whose worker is dead for longer than a
--   stage can take.
-- Locks: none
-- Writes: nothing

-- The slots, and what else a claim asks of the settings. in_flight is what the cap counts: every run that is claimed or
-- computed, not those that wait for their retry time.
create or replace function stats_private.slots()
returns table (cap integer, in_flight bigint, longest_wait interval)
language sql stable
as $$
    select s.active_lease_cap, (select count(*) from stats_private.held_slots()), stats_private.longest_wait(s)
    from public.stats_projection_worker_settings s
$$;

-- The runs that hold a slot. One whose lease ran out longer ago than a stage takes has no worker: where it can't be
-- recovered, because somebody holds one of its rows, others go on without it.
create or replace function stats_private.held_slots()
returns setof public.user_stats_projection_runs
language sql stable
as $$
    select r.*
    from public.user_stats_projection_runs r
    cross join (
        select greatest(s.compute_budget_ms, s.publish_budget_ms) * interval '1 millisecond' + interval '10 seconds'
        from public.stats_projection_worker_settings s
    ) stage (longest)
    where r.phase in ('claimed', 'computed') and r.retry_not_before is null
        and (r.lease_until > clock_timestamp() - stage.longest or stats_private.next_stage_is_paused(r.phase))
$$;

-- True where nobody may take a run of that phase further.
create or replace function stats_private.next_stage_is_paused(p_phase text)
returns boolean
language sql stable
as $$ select stats_private.stage_is_paused(case p_phase when 'claimed' then 'compute' else 'publish' end) $$;

-- True where one more account in batches would take the slot that is kept for the small ones.
create or replace function stats_private.batch_slots_are_taken()
returns boolean
language sql stable
as $$
    select s.active_lease_cap > 1 and s.active_lease_cap - 1 <= (
        select count(*) from stats_private.held_slots() r where r.needs_batches)
    from public.stats_projection_worker_settings s
$$;
