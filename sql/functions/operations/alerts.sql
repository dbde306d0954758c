-- What needs a person, for the worker status: [{subject, text, action}], [] where nothing does.
-- Promises: a rollover that is late says so before any reader is refused, and stays until it has caught up. One entry a
--   consequence: an exhausted job leaves its account stale, and from midnight on keeps its day from turning as well.
--   `action` is what to do, in an operator's commands.
-- Locks: none
-- Writes: nothing
create or replace function stats_private.alerts()
returns jsonb
language sql stable
as $$
    select coalesce(
        jsonb_agg(
            jsonb_build_object('subject', a.subject, 'text', a.problem, 'action', a.action)
            order by a.subject = 'rollover' desc, a.subject, a.problem collate "C"),
        '[]')
    from (
        select l.* from stats_private.late_rollovers() l
        union all
        select e.* from stats_private.exhausted_jobs() e
        union all
        select s.* from stats_private.standstill() s
        union all
        select f.* from stats_private.failing_pages() f
    ) a
$$;

-- Six hours: readers furthest east have their next day, which the window lacks, ten hours after midnight UTC.
create or replace function stats_private.late_rollovers()
returns table (subject text, problem text, action text)
language sql stable
as $$
    with due as (
        select
            count(*) filter (where r.due_at <= t.now - interval '6 hours') as late,
            count(*) filter (where r.due_at > t.latest) as ahead,
            count(*) filter (where r.failures > 0) as held,
            stats_private.age_seconds(min(r.due_at)) / 3600 as hours
        from public.user_pr_overview_rollover_state r
        cross join (select clock_timestamp() as now, stats_private.latest_due_at() as latest) t
        where r.due_at <= t.now or r.due_at > t.latest
    )
    select
        'rollover',
        format(
            '%s late, the first due since %s h: readers of today are refused from 10 h (far east) or 24 h (UTC) on',
            stats_private.accounts(d.late), trunc(d.hours)),
        'see that a worker of the queue maintenance runs, that nothing is paused, and what stats-refresh history '
            || '--failed says'
    from due d
    where d.late > 0
    union all
    select
        'rollover',
        format(
            '%s published for days to come, by a clock that ran ahead: readers of today may be refused until the rollover',
            stats_private.accounts(d.ahead)),
        'see that the clock of the database''s server is right now, and that a worker of the queue maintenance runs'
    from due d
    where d.ahead > 0
    union all
    select
        'rollover',
        format('%s held by an exhausted job: their day does not turn', stats_private.accounts(d.held)),
        'stats-refresh jobs list --status failed, mend the cause, then stats-refresh jobs resume ID'
    from due d
    where d.held > 0
$$;

-- Jobs that nothing but a person or the account's next save begins again.
create or replace function stats_private.exhausted_jobs()
returns table (subject text, problem text, action text)
language sql stable
as $$
    select
        'jobs',
        case e.jobs
            when 1 then '1 job has used up its attempts: its account stays stale'
            else format('%s jobs have used up their attempts: their accounts stay stale', e.jobs)
        end,
        'stats-refresh jobs list --status failed, mend the cause, then stats-refresh jobs resume ID'
    from (select count(*) as jobs from public.user_exercise_stats_refresh_jobs j where j.status = 'failed') e
    where e.jobs > 0
$$;

-- Work that is due while nothing is published: the workers or beat are away, a stage is paused, or each attempt ends
-- before it is counted. Two minutes: the longest compute and publication take less.
create or replace function stats_private.standstill()
returns table (subject text, problem text, action text)
language sql stable
as $$
    with waiting as (
        select
            count(distinct j.user_id) as accounts,
            stats_private.age_seconds(min(j.created_at) filter (where not stats_private.is_ahead(j.created_at))) / 60
                as minutes
        from public.user_exercise_stats_refresh_jobs j
        where j.status in ('pending', 'processing')
            and (j.created_at < clock_timestamp() - interval '2 minutes' or stats_private.is_ahead(j.created_at))
            and (
                j.retry_not_before is null or j.retry_not_before < clock_timestamp() - interval '2 minutes'
                or stats_private.is_ahead(j.retry_not_before - (select stats_private.longest_wait())))
    )
    select
        'queue',
        format(
            '%s waiting %s, and nothing has been published for two', stats_private.accounts(w.accounts),
            coalesce('for up to ' || trunc(w.minutes) || ' min', 'since before the clock was put back')),
        case
            when cardinality(p.paused_stages) > 0
                then format('stats-refresh resume STAGE: paused are %s', array_to_string(p.paused_stages, ', '))
            else 'see that beat and workers of the queues pipeline and compute run, and what they log'
        end
    from waiting w
    cross join public.stats_projection_worker_settings p
    where w.accounts > 0 and not exists (
        select from public.user_stats_projection_runs r
        where r.completed_at > clock_timestamp() - interval '2 minutes' and r.phase = 'completed'
            and not stats_private.is_ahead(r.completed_at))
$$;

-- Pages that fail, and those that have not been heard of for an hour: the slowest comes every ten minutes.
create or replace function stats_private.failing_pages()
returns table (subject text, problem text, action text)
language sql stable
as $$
    select
        c.job,
        format('%s page(s) failed in a row, the last with %s', c.attempt_count, c.last_error),
        'mend the cause; the next page begins where this one did'
    from public.stats_maintenance_cursors c
    where c.attempt_count > 0
    union all
    select
        c.job,
        case
            when stats_private.is_ahead(c.heard_of_at)
                then 'no page has succeeded since the clock was put back: the last one is dated in days to come'
            else format('no page has succeeded for %s h', trunc(stats_private.age_seconds(c.heard_of_at) / 3600))
        end,
        case
            when stats_private.stage_is_paused('maintenance') then 'stats-refresh resume maintenance'
            else 'see that a worker of the queue maintenance runs, and stats-refresh schedule list for its entry'
        end
    from (
        select m.job, coalesce(m.last_success_at, m.updated_at) as heard_of_at from public.stats_maintenance_cursors m
    ) c
    where c.heard_of_at < clock_timestamp() - interval '1 hour' or stats_private.is_ahead(c.heard_of_at)
$$;

create or replace function stats_private.accounts(p_count bigint)
returns text
language sql immutable
as $$ select p_count || case p_count when 1 then ' account is' else ' accounts are' end $$;
