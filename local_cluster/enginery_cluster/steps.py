"""Progress for people: which step of how many, and a sign of life while one takes long. Called by every command."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEARTBEAT_SECONDS = 15.0
"""How long a step may be silent."""


def say(text: str) -> None:
    """A line for the person at the terminal; standard output stays free for results."""
    print(text, file=sys.stderr, flush=True)


class Steps:
    """Numbers the steps of one command."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._done = title, total, 0
        self._begin = time.monotonic()

    @contextmanager
    def step(self, text: str, detail: Callable[[], str] = str) -> Iterator[None]:
        """One step; `detail` adds to the heartbeat, e.g. how many packages are compiled."""
        self._done += 1
        label = f"[{self._title} {self._done}/{self._total}] {text}"
        say(label)
        began = time.monotonic()
        with _heartbeat(label, detail):
            yield
        seconds = time.monotonic() - began
        if seconds >= 1:
            say(f"{label}: done in {seconds:.1f} s")

    def skip(self, text: str) -> None:
        """A step with nothing to do."""
        self._done += 1
        say(f"[{self._title} {self._done}/{self._total}] {text}")

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.monotonic() - self._begin


@contextmanager
def _heartbeat(label: str, detail: Callable[[], str]) -> Iterator[None]:
    finished, began = threading.Event(), time.monotonic()

    def beat() -> None:
        while not finished.wait(HEARTBEAT_SECONDS):
            say(f"{label}: {time.monotonic() - began:.0f} s so far{detail()}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


class TimedOutError(RuntimeError):
    """Something that was waited for did not happen; the message says where to look."""


def eventually(condition: Callable[[], bool], timeout_seconds: float, failure: Callable[[], str]) -> None:
    """Wait for a condition, looking five times a second."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimedOutError(failure())
        time.sleep(0.2)
