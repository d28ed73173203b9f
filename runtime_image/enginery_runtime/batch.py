"""Which requests run together, and when: a queue and deadlines, pure but for the clock handed in. `scheduler` owns it.

The rule, in full: when the instance is free, the oldest request that waits heads the batch; the others of its
signature join in order of arrival until the next one does not fit. So a batch is never larger than the maximum, no
request is split, and no signature starves: a request waits for batches headed by older requests only. With a delay,
the head waits until its group fills the maximum or a preferred size, or until the delay is over.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from enginery_store.requests import Batching

from enginery_runtime.infer import InferRequest, Signature

Clock = Callable[[], float]


@dataclass(slots=True)
class _Group:
    """Requests of one signature in order of arrival, each with its place in the whole queue."""

    waiting: deque[tuple[int, InferRequest]] = field(default_factory=deque)
    rows: int = 0


class BatchQueue:
    """Requests that wait for one model. Not thread-safe: the event loop alone calls it."""

    def __init__(self, batching: Batching, max_rows: int, clock: Clock) -> None:
        """`max_rows` is the largest batch the engine takes; delays and timeouts come from the tenant's spec."""
        self._clock = clock
        self._max_rows = max_rows
        self._delay = batching.max_queue_delay_microseconds / 1e6
        self._timeout = batching.queue_timeout_milliseconds / 1e3
        self._preferred = min((size for size in batching.preferred_batch_sizes if size <= max_rows), default=max_rows)
        self._groups: dict[Signature, _Group] = {}
        self._places = count()
        self.requests = 0
        self.rows = 0

    def put(self, request: InferRequest) -> None:
        """Queue a request; its deadline is the earlier of its own and the queue timeout."""
        if self._timeout:
            limit = request.received + self._timeout
            request.deadline = limit if request.deadline is None else min(limit, request.deadline)
        group = self._groups.setdefault(request.signature, _Group())
        group.waiting.append((next(self._places), request))
        self._count(group, request, 1)

    def take(self) -> list[InferRequest]:
        """The batch to run now, in order; empty when nothing waits or the delay is not over."""
        if not self._groups:
            return []
        group = self._oldest_group()
        if self._delay and self._clock() < self._due(group):
            return []
        batch: list[InferRequest] = []
        room = self._max_rows
        while group.waiting and (not batch or group.waiting[0][1].rows <= room):
            request = group.waiting.popleft()[1]
            self._count(group, request, -1)
            room -= request.rows
            batch.append(request)
        if not group.waiting:
            del self._groups[batch[0].signature]
        return batch

    def discard(self, request: InferRequest) -> bool:
        """Drop a cancelled request; False when it does not wait any more."""
        group = self._groups.get(request.signature)
        if group is None:
            return False
        for entry in group.waiting:
            if entry[1] is request:
                group.waiting.remove(entry)
                self._count(group, request, -1)
                if not group.waiting:
                    del self._groups[request.signature]
                return True
        return False

    def expire(self) -> list[InferRequest]:
        """Take out every request whose deadline is over, whatever the instance does."""
        now = self._clock()
        late = [request for request in self._all() if request.deadline is not None and request.deadline <= now]
        for request in late:
            self.discard(request)
        return late

    def drain(self) -> list[InferRequest]:
        """Take out everything, oldest first: the server cannot run it any more."""
        everything = self._all()
        self._groups.clear()
        self.requests = self.rows = 0
        return everything

    def next_deadline(self) -> float | None:
        """The earliest moment at which `expire` has something to do."""
        return min((request.deadline for request in self._all() if request.deadline is not None), default=None)

    def next_batch_at(self) -> float | None:
        """The moment at which `take` has a batch; None when nothing waits."""
        return self._due(self._oldest_group()) if self._groups else None

    def _due(self, group: _Group) -> float:
        oldest = group.waiting[0][1].received
        return oldest if group.rows >= self._preferred else oldest + self._delay

    def _oldest_group(self) -> _Group:
        groups = self._groups.values()
        return next(iter(groups)) if len(groups) == 1 else min(groups, key=lambda group: group.waiting[0][0])

    def _all(self) -> list[InferRequest]:
        entries = [entry for group in self._groups.values() for entry in group.waiting]
        return [request for _, request in sorted(entries, key=lambda entry: entry[0])]

    def _count(self, group: _Group, request: InferRequest, sign: int) -> None:
        group.rows += sign * request.rows
        self.requests += sign
        self.rows += sign * request.rows
