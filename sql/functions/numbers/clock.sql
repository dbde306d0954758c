-- What the clock says: utc_today(), latest_day(), is_ahead(time), elapsed_ms(since)
-- Promises: one notion of today for windows, anchors and limits, one of how long something took, and one of which
--   stored times a right clock can't have written: those were left by a clock that ran ahead, and nothing waits until
--   they come true (docs/maintenance.md). A minute's grace, because a clock that is corrected by a little at midnight
--   is no wrong clock.
-- Locks: none
-- Writes: nothing

-- The server's "today": the UTC date, whatever the session's TimeZone says.
create or replace function stats_private.utc_today()
returns date
language sql stable
as $$ select (now() at time zone 'UTC')::date $$;

-- The latest day that a right clock can have published: the UTC date in a minute. By clock_timestamp(), not now(): a
-- statement may see a publication that is younger than its own transaction.
create or replace function stats_private.latest_day()
returns date
language sql volatile
as $$ select ((clock_timestamp() + interval '1 minute') at time zone 'UTC')::date $$;

-- True for a time that is still to come; false for null. It is meant for times that say when something was.
create or replace function stats_private.is_ahead(p_at timestamptz)
returns boolean
language sql volatile
as $$ select coalesce(p_at > clock_timestamp() + interval '1 minute', false) $$;

-- Milliseconds since p_since, a moment of this transaction: from 0 to an hour. More, or less, is a clock that was set
-- meanwhile, and months of it would not fit the columns.
create or replace function stats_private.elapsed_ms(p_since timestamptz)
returns numeric
language sql volatile
as $$
    select (1000 * least(greatest(extract(epoch from clock_timestamp() - p_since), 0), 3600))::numeric(12, 3)
$$;

-- Seconds since p_since; 0 where that is still to come, null for null.
create or replace function stats_private.age_seconds(p_since timestamptz)
returns numeric
language sql volatile
as $$
    -- greatest() takes 0 for null.
    select case when p_since is not null then greatest(extract(epoch from clock_timestamp() - p_since), 0) end
        ::numeric(15, 3)
$$;
