"""How long something took, for a person."""

from __future__ import annotations

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def duration(seconds: float) -> str:
    """Return the two greatest units of a duration, as in 0.4s, 12s, 3m 20s, 5h 2m or 3d 4h."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f}s"
    left, parts = int(seconds), list[str]()
    for unit, length in _UNITS:
        count, left = divmod(left, length)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0"))
