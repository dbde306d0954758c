-- public.set_manual_pr_v1(exercise_id, one_rm_kg, achieved_on, source, expected_user_id, mutation_id) -> receipt
-- Promises: records a 1RM that the signed-in account states itself. source manual: one more record. source
--   onboarding: the exercise's one initial 1RM; setting it again replaces value and day under the same
--   manual_pr_id. Dirties the exercise from that day, the earlier one where it moved. Receipt (with manual_pr_id)
--   and dirty range commit with it; the same mutation_id again replays. Raises 42501 and 22023, and 55P03 or
--   40001 as lock_account.sql says.
-- Locks: write, state row, job rows (skip locked), canonical rows
-- Writes: user_manual_pr_records, stats_mutation_receipts, user_stats_refresh_state,
--   user_exercise_stats_refresh_jobs
create or replace function public.set_manual_pr_v1(
    p_exercise_id text, p_one_rm_kg numeric, p_achieved_on date, p_source text, p_expected_user_id uuid,
    p_mutation_id uuid
)
returns jsonb
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_user_id uuid;
    v_payload_hash bytea;
    v_replayed jsonb;
    v_old public.user_manual_pr_records;
    v_id uuid;
    v_generation bigint;
begin
    v_user_id := stats_private.owner_of_write(p_expected_user_id::text);
    perform stats_private.require_argument('mutation_id', p_mutation_id is null);
    perform stats_private.validate_manual_pr(p_exercise_id, p_one_rm_kg, p_achieved_on, p_source);
    v_payload_hash := stats_private.payload_hash(
        'set_manual_pr_v1',
        jsonb_build_array(p_exercise_id, round(p_one_rm_kg, 2), p_achieved_on, p_source)::text);

    perform stats_private.lock_account(v_user_id);
    v_replayed := stats_private.replayed_receipt(v_user_id, p_mutation_id, v_payload_hash);
    if v_replayed is not null then
        return v_replayed;
    end if;

    select r.* into v_old
    from public.user_manual_pr_records r
    where r.user_id = v_user_id and r.exercise_id = p_exercise_id
        and r.source = 'onboarding' and p_source = 'onboarding';
    v_id := coalesce(v_old.id, gen_random_uuid());
    v_generation := public.enqueue_user_exercise_stats_refresh_job(
        v_user_id, least(v_old.achieved_on, p_achieved_on), array[p_exercise_id],
        stats_private.event_of_manual_pr(p_source), 'manual_pr:' || v_id, 'manual 1RM set');
    perform stats_private.check_manual_pr_exercise(p_exercise_id, v_user_id);
    insert into public.user_manual_pr_records (id, user_id, exercise_id, achieved_on, one_rm_kg, source)
    values (v_id, v_user_id, p_exercise_id, p_achieved_on, p_one_rm_kg, p_source)
    on conflict (id) do update set achieved_on = excluded.achieved_on, one_rm_kg = excluded.one_rm_kg;
    return stats_private.store_receipt(
        v_user_id, p_mutation_id, v_payload_hash, 'manual_pr_set', null, v_generation,
        jsonb_build_object('manual_pr_id', v_id));
end;
$$;

-- Raises 22023 naming the argument that breaks a rule.
create or replace function stats_private.validate_manual_pr(
    p_exercise_id text, p_one_rm_kg numeric, p_achieved_on date, p_source text
)
returns void
language plpgsql stable
as $$
declare
    v_problem text := case
        when p_exercise_id is null then 'exercise_id: is required'
        when char_length(p_exercise_id) > 200 then 'exercise_id: must have at most 200 characters'
        when p_one_rm_kg is null then 'one_rm_kg: is required'
        -- NaN counts as greater than every number.
        when round(p_one_rm_kg, 2) not between 0.01 and 9999.99 then 'one_rm_kg: must be from 0.01 to 9999.99'
        when p_achieved_on is null then 'achieved_on: is required'
        when stats_private.day_out_of_range(p_achieved_on) is not null
            then 'achieved_on: ' || stats_private.day_out_of_range(p_achieved_on)
        when p_source is null or p_source not in ('manual', 'onboarding')
            then 'source: must be manual or onboarding'
    end;
begin
    if v_problem is not null then
        raise exception using errcode = '22023', message = v_problem;
    end if;
end;
$$;

-- Raises 22023 unless the exercise is global or the account's own, not archived, and has a weight.
create or replace function stats_private.check_manual_pr_exercise(p_exercise_id text, p_user_id uuid)
returns void
language plpgsql
as $$
declare
    v_exercise public.exercises;
    v_problem text;
begin
    select x.* into v_exercise
    from public.exercises x
    where x.id = p_exercise_id and (x.owner_user_id is null or x.owner_user_id = p_user_id);
    v_problem := case
        when v_exercise.id is null then 'is not an exercise of this account'
        when v_exercise.archived_at is not null then 'is archived'
        when stats_private.has_no_weight(v_exercise.tracking)
            then 'a ' || v_exercise.tracking || ' exercise has no weight'
    end;
    if v_problem is not null then
        raise exception using errcode = '22023', message = 'exercise_id: ' || v_problem;
    end if;
end;
$$;

-- The event that a change of such a record is.
create or replace function stats_private.event_of_manual_pr(p_source text)
returns text
language sql immutable
as $$ select case p_source when 'onboarding' then 'onboarding_1rm' else 'manual_pr_changed' end $$;
