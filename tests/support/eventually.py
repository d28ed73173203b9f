"""Waiting without fixed sleeps: a condition is asked again until it holds or the time is over."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout_seconds: float = 20.0, interval_seconds: float = 0.05) -> T:
    """The first true value of `condition`; AssertionError with the last value, or the last error, when none came."""
    give_up = time.monotonic() + timeout_seconds
    while True:
        last: object
        try:
            value = condition()
            if value:
                return value
            last = value
        except (OSError, AssertionError) as error:
            last = error
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {timeout_seconds} s; last: {last!r}")
        time.sleep(interval_seconds)
