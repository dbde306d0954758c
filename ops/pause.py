"""`stats-refresh pause` and `resume`: stages that answer `paused` to whoever calls them."""

from __future__ import annotations

from sqlalchemy import text

from core.errors import OperatorError
from core.stages import STAGES
from ops.printing import say
from ops.service_calls import as_service

_PAUSE = text("select public.pause_stats_stages_v1(cast(:stages as text[]), :paused)")


def set_paused(database_url: str, stage: str, paused: bool) -> None:
    """Pause or resume `stage`, or all of them for "all", and print which stages are paused now."""
    if stage != "all" and stage not in STAGES:
        raise OperatorError(f"{stage}: is not a stage; name {', '.join(STAGES)} or all")
    stages = list(STAGES) if stage == "all" else [stage]
    with as_service(database_url) as connection:
        now_paused: list[str] = connection.execute(_PAUSE, {"stages": stages, "paused": paused}).scalar_one()
    say(f"paused stages: {', '.join(now_paused) or 'none'}")
