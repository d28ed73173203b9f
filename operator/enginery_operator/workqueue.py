"""The work queue between watches and `reconcile`: level-triggered, one pass per object at a time, back-off on errors.

Called by `handlers` (add), filled again by itself (resync, requeue, retry). Handlers of kopf are not used for the
work itself, because a change that arrives while a handler runs must lead to another pass over the latest state, and
because a progress annotation per object would be a write per change (docs/adr/0002).
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field

from enginery_operator import metrics
from enginery_operator.errors import GoneError

_log = logging.getLogger(__name__)

RETRY_BASE_SECONDS = 1.0
RETRY_LIMIT_SECONDS = 300.0
"""Pause after the first and at most after the many-th failed pass over one object."""


@dataclass(frozen=True)
class Key:
    """One object: what a pass is about."""

    kind: str
    namespace: str
    name: str


@dataclass
class _Entry:
    due: float
    running: bool = False
    again: float | None = None
    failures: int = 0


@dataclass
class WorkQueue:
    """Runs `work(key)` for every key added, `workers` at once and never twice at once for one key.

    `work` returns seconds until the next pass, or None to forget the object.
    """

    work: Callable[[Key], Awaitable[float | None]]
    workers: int
    clock: Callable[[], float] = time.monotonic
    _entries: dict[Hashable, _Entry] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Ask for a pass after `delay` seconds; an earlier one that is due already stands."""
        due = self.clock() + delay
        entry = self._entries.setdefault(key, _Entry(due))
        if entry.running:
            entry.again = due if entry.again is None else min(entry.again, due)
        else:
            entry.due = min(entry.due, due)
        self._wake.set()

    def __len__(self) -> int:
        """Objects whose pass is due or running."""
        now = self.clock()
        return sum(1 for entry in self._entries.values() if entry.running or entry.due <= now)

    async def run(self) -> None:
        """Serve the queue until cancelled; passes that run then are cancelled too."""
        slots = asyncio.Semaphore(self.workers)
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                key = await self._next()
                group.create_task(self._pass(key, slots))

    async def _next(self) -> Key:
        while True:
            self._wake.clear()
            now = self.clock()
            metrics.QUEUE_LENGTH.set(len(self))
            waiting = [(entry.due, key) for key, entry in self._entries.items() if not entry.running]
            due, key = min(waiting, key=lambda item: item[0], default=(None, None))
            if due is not None and due <= now:
                self._entries[key].running = True
                return key  # type: ignore[return-value]
            pause = None if due is None else due - now
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue

    async def _pass(self, key: Key, slots: asyncio.Semaphore) -> None:
        entry, started, result = self._entries[key], time.perf_counter(), "ok"
        try:
            delay = await self.work(key)
            entry.failures = 0
        except GoneError:
            delay = None
        except Exception as error:  # noqa: BLE001 - whatever one object causes, the others go on
            entry.failures += 1
            result, delay = type(error).__name__, self._backoff(entry.failures)
            _log.warning(
                "pass failed, will be repeated",
                extra={"key": key.__dict__, "error": str(error)[:500], "retry_seconds": round(delay, 1)},
                exc_info=error if not hasattr(error, "message") else None,
            )
        finally:
            entry.running = False
            slots.release()
        metrics.RECONCILES.labels(key.kind, result).inc()
        metrics.RECONCILE_SECONDS.labels(key.kind).observe(time.perf_counter() - started)
        self._requeue(key, entry, delay)

    def _requeue(self, key: Key, entry: _Entry, delay: float | None) -> None:
        again, entry.again = entry.again, None
        if delay is None and again is None:
            self._entries.pop(key, None)
            return
        due = self.clock() + delay if delay is not None else again
        entry.due = min(due, again) if again is not None and due is not None else due or self.clock()
        self._wake.set()

    @staticmethod
    def _backoff(failures: int) -> float:
        """Doubling with jitter, so that objects that failed together do not retry together."""
        pause = min(RETRY_BASE_SECONDS * 2 ** min(failures - 1, 20), RETRY_LIMIT_SECONDS)
        return float(pause * random.uniform(0.7, 1.3))  # noqa: S311 - jitter, not a secret
