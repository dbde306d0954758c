"""Python imports this at its start where the clock is faked: libfaketime refuses what time.sleep asks of it.

Its clock_nanosleep answers EINVAL for an absolute moment of the monotonic clock, once that clock is left alone.
"""

import select
import time


def sleep(seconds: float) -> None:
    """Sleep by a relative time, as a select without files does."""
    select.select([], [], [], seconds)


time.sleep = sleep
