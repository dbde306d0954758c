"""The stages of the pipeline as SQL: what a worker's task and the HTTP service's worker entry point both run."""

from __future__ import annotations

from sqlalchemy import text

CLAIM = text("select public.stats_projection_claim_v1(:lock_owner)")
COMPUTE = text(
    "select public.stats_projection_compute_v1("
    "cast(:run_id as uuid), cast(:lease_token as uuid), cast(:expected_offset as integer))"
)
PUBLISH = text("select public.stats_projection_publish_v1(cast(:run_id as uuid), cast(:lease_token as uuid))")
