-- What the clock says: utc_today(), elapsed_ms(since)
-- Promises: one notion of today for windows, anchors and limits, and one of how long something took.
-- Locks: none
-- Writes: nothing

-- The server's "today": the UTC date, whatever the session's TimeZone says.
create or replace function stats_private.utc_today()
returns date
language sql stable
as $$ select (now() at time zone 'UTC')::date $$;

-- Milliseconds of real time since p_since.
create or replace function stats_private.elapsed_ms(p_since timestamptz)
returns numeric
language sql volatile
as $$ select (extract(epoch from clock_timestamp() - p_since) * 1000)::numeric(12, 3) $$;
