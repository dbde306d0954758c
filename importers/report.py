"""What a report of an import says of its lines."""

from __future__ import annotations

from collections.abc import Iterator


def ranges(lines: Iterator[int]) -> Iterator[tuple[int, int]]:
    """Yield ascending `lines`, of which there is at least one, as ranges: the first and the last of each."""
    first = last = next(lines)
    for line in lines:
        if line > last + 1:
            yield first, last
            first = line
        last = line
    yield first, last
