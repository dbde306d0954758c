"""The estimated one-repetition maximum."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from .rows import Policy

CENT = Decimal("0.01")


def estimated_one_rm(weight_kg: Decimal, reps: int, policy: Policy) -> Decimal | None:
    """One rep is the weight itself, more go by the policy's formula, above its limit there is no estimate.

    Each formula multiplies before it divides, so that a result that ends on half a cent is exact before it
    is rounded half up.
    """
    if weight_kg <= 0 or reps < 1:
        return None
    if reps == 1:
        return weight_kg.quantize(CENT, ROUND_HALF_UP)
    if reps > policy.e1rm_max_reps:
        return None
    if policy.e1rm_formula == "brzycki":
        estimate = 36 * weight_kg / (37 - reps)
    elif policy.e1rm_formula == "epley":
        estimate = weight_kg * (30 + reps) / 30
    elif policy.e1rm_formula == "lombardi":
        estimate = weight_kg * Decimal(reps) ** Decimal("0.10")
    else:
        raise ValueError(f"unknown e1RM formula {policy.e1rm_formula!r}")
    return estimate.quantize(CENT, ROUND_HALF_UP)
