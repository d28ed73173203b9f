"""The work queue between watches and `reconcile`: level-triggered, one pass per object at a time, back-off on errors.

Called by `handlers` (add), filled again by itself (resync, requeue, retry). Handlers of kopf are not used for the
work itself, because a change that arrives while a handler runs must lead to another pass over the latest state, and
because a progress annotation per object would be a write per change (docs/adr/0002).
"""

import asyncio
import contextlib
import heapq
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field

from enginery_operator import metrics
from enginery_operator.errors import GoneError

_log = logging.getLogger(__name__)

RETRY_BASE_SECONDS = 1.0
RETRY_LIMIT_SECONDS = 300.0
"""Pause after the first and at most after the many-th failed pass over one object."""

CLAIM_SECONDS = 60.0
"""A Job that was created is seen within milliseconds; not seen for so long, creating it failed without a word."""


GONE_SECONDS = 30.0
"""Something of the object was gone: the next pass finds out whether the object itself is."""


@dataclass(frozen=True)
class Key:
    """One object: what a pass is about."""

    kind: str
    namespace: str
    name: str


@dataclass
class Interest:
    """Which objects wait for which mark. Each pass states its own anew, so that nothing outlives its object."""

    _marks: dict[Key, frozenset[str]] = field(default_factory=dict)
    _keys: dict[str, set[Key]] = field(default_factory=dict)

    def set(self, key: Key, marks: Collection[str]) -> None:
        """From now on `key` waits for exactly these marks."""
        for mark in self._marks.pop(key, frozenset()):
            self._keys[mark].discard(key)
            if not self._keys[mark]:
                del self._keys[mark]
        if marks:
            self._marks[key] = frozenset(marks)
        for mark in marks:
            self._keys.setdefault(mark, set()).add(key)

    def of(self, mark: str) -> frozenset[Key]:
        """Who waits for a mark."""
        return frozenset(self._keys.get(mark, ()))

    def __len__(self) -> int:
        """Objects that wait for anything."""
        return len(self._marks)


@dataclass
class Claims:
    """Who began which piece of work that several objects need, until the watch shows it to all of them.

    A Job's name holds its model's name, so two models that need one engine would each create a Job in the moment
    before the first one's is seen. Only one replica acts, and the next to act lists every Job first: memory is enough.
    """

    clock: Callable[[], float] = time.monotonic
    _begun: dict[Hashable, tuple[Key, float]] = field(default_factory=dict)

    def take(self, work: Hashable, key: Key) -> bool:
        """Whether `key` may begin: nobody else has, or what another began was not seen for CLAIM_SECONDS."""
        now = self.clock()
        self._begun = {one: claim for one, claim in self._begun.items() if now - claim[1] < CLAIM_SECONDS}
        if self._begun.get(work, (key, now))[0] != key:
            return False
        self._begun[work] = (key, now)
        return True

    def drop(self, work: Hashable) -> None:
        """The work is seen by all, or was never begun."""
        self._begun.pop(work, None)

    def __len__(self) -> int:
        """Pieces of work that were begun and not seen yet."""
        return len(self._begun)


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
    _entries: dict[Key, _Entry] = field(default_factory=dict)
    _due: list[tuple[float, int, Key]] = field(default_factory=list)
    """A heap of (due, tie-break, key); an item whose key is due at another time by now is skipped when popped."""
    _count: Iterator[int] = field(default_factory=itertools.count)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Ask for a pass after `delay` seconds; an earlier one that is due already stands."""
        due = self.clock() + delay
        entry = self._entries.get(key)
        if entry is not None and entry.running:
            entry.again = due if entry.again is None else min(entry.again, due)
        elif entry is None or due < entry.due:
            self._schedule(key, entry or _Entry(due), due)

    def _schedule(self, key: Key, entry: _Entry, due: float) -> None:
        entry.due = due
        self._entries[key] = entry
        heapq.heappush(self._due, (due, next(self._count), key))
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
            while self._due and self._stale(self._due[0]):
                heapq.heappop(self._due)
            if self._due and self._due[0][0] <= now:
                key = heapq.heappop(self._due)[2]
                self._entries[key].running = True
                return key
            pause = self._due[0][0] - now if self._due else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):  # wait_for of Python 3.11 may swallow a cancellation
                    await self._wake.wait()

    def _stale(self, item: tuple[float, int, Key]) -> bool:
        entry = self._entries.get(item[2])
        return entry is None or entry.running or entry.due != item[0]

    async def _pass(self, key: Key, slots: asyncio.Semaphore) -> None:
        entry, started, result = self._entries[key], time.perf_counter(), "ok"
        try:
            delay = await self.work(key)
            entry.failures = 0
        except GoneError:
            delay = GONE_SECONDS
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
        dues = [due for due in (again, None if delay is None else self.clock() + delay) if due is not None]
        if dues:
            self._schedule(key, entry, min(dues))
        else:
            self._entries.pop(key, None)

    @staticmethod
    def _backoff(failures: int) -> float:
        """Doubling with jitter, so that objects that failed together do not retry together."""
        pause = min(RETRY_BASE_SECONDS * 2 ** min(failures - 1, 20), RETRY_LIMIT_SECONDS)
        return float(pause * random.uniform(0.7, 1.3))  # noqa: S311 - jitter, not a secret
