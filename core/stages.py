"""The stages of the work: each has a budget of its own and can be paused by itself."""

from __future__ import annotations

from typing import Literal, get_args

Stage = Literal["claim", "compute", "publish", "maintenance"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""In the order of the work."""
