-- stats_private.take_run(phase, run_id, lease_token) -> the run, locked, or why there is none
-- Promises: locks one run in that phase without waiting. With a run and token: that run, while the token is its own
--   and its lease is live. Without: the oldest one that nobody holds and that is not backing off. `refusal` is
--   null, `lease_lost` (the token is not, or no longer, the run's) or `idle` (nothing to do, or held elsewhere: a
--   doubled message ends here).
-- Locks: run row (skip locked), job rows (skip locked)
-- Writes: nothing
create or replace function stats_private.take_run(
    p_phase text, p_run_id uuid, p_lease_token uuid,
    out run public.user_stats_projection_runs, out refusal text
)
language plpgsql
as $$
begin
    if p_run_id is null then
        select r.* into run
        from public.user_stats_projection_runs r
        where r.phase = p_phase and r.phase in ('claimed', 'computed')
            and r.lease_until > clock_timestamp()
            and r.retry_not_before is null
        order by r.created_at
        limit 1
        for update skip locked;
        refusal := case when not found then 'idle' end;
        return;
    end if;

    select r.* into run
    from public.user_stats_projection_runs r
    where r.id = p_run_id
    for update skip locked;
    if found then
        refusal := case
            when run.lease_token is distinct from p_lease_token then 'lease_lost'
            when run.phase in ('claimed', 'computed') and run.lease_until <= clock_timestamp() then 'lease_lost'
            when run.phase <> p_phase or run.retry_not_before is not null then 'idle'
        end;
    else
        refusal := case
            when exists (select from public.user_stats_projection_runs r where r.id = p_run_id) then 'idle'
            else 'lease_lost'
        end;
    end if;
end;
$$;

-- Locks the run's jobs without waiting; false where somebody holds one of them.
create or replace function stats_private.try_lock_jobs(p_run_id uuid)
returns boolean
language sql
as $$
    with locked as (
        select j.id from public.user_exercise_stats_refresh_jobs j
        where j.run_id = p_run_id and j.status = 'processing'
        for update skip locked
    )
    select (select count(*) from locked) = (
        select count(*) from public.user_exercise_stats_refresh_jobs j
        where j.run_id = p_run_id and j.status = 'processing')
$$;
