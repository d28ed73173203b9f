"""Brings queue, clock and instance together on the event loop; `service` submits to it.

There is no task or future per request: the front end's callback is called when its request's outcome is known, and a
batch is what waits when the instance becomes free. Timers exist for deadlines and for a delay the tenant asked for.
"""

import asyncio
import time
from collections.abc import Callable

from enginery_store.requests import Batching

from enginery_runtime.backend import Backend
from enginery_runtime.batch import BatchQueue
from enginery_runtime.datatypes import Array
from enginery_runtime.errors import BusyError, CancelledRequestError, QueueTimeoutError, RequestError, UnavailableError
from enginery_runtime.infer import InferRequest, ModelShape
from enginery_runtime.instance import Execution, Instance
from enginery_runtime.statistics import Statistics


class Scheduler:
    """One model's queue and its one instance."""

    def __init__(
        self,
        backend: Backend,
        known_good: dict[str, Array],
        shape: ModelShape,
        batching: Batching,
        statistics: Statistics,
        *,
        max_queued_requests: int,
        broke: Callable[[], None],
    ) -> None:
        """Starts the instance's thread. `broke` is called once when the engine does not answer any more."""
        self.shape = shape
        self._loop = asyncio.get_running_loop()
        self._queue = BatchQueue(batching, shape.max_rows, time.monotonic)
        self._instance = Instance(backend, known_good, self._finished)
        self._statistics = statistics
        self._max_queued = max_queued_requests
        self._broke = broke
        self._running: list[InferRequest] = []
        self._pumping = False
        self._broken = False
        self._stopped = False
        self._wakeup: asyncio.TimerHandle | None = None
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()

    @property
    def pending_requests(self) -> int:
        """Requests that wait or run."""
        return self._queue.requests + len(self._running)

    @property
    def pending_rows(self) -> int:
        """Rows that wait or run."""
        return self._queue.rows + sum(request.rows for request in self._running)

    def submit(self, request: InferRequest) -> None:
        """Queue a request that fits the model; raises RequestError when it does not fit or there is no room."""
        if self._broken:
            raise UnavailableError("the engine failed; this server is being replaced")
        self.shape.admit(request)
        if self._queue.requests >= self._max_queued:
            raise BusyError(f"the queue is full: {self._max_queued} requests wait")
        request.received = time.monotonic()
        timeout = request.parameters.get("timeout")
        if type(timeout) is int and timeout > 0:  # microseconds, as clients of Triton send it
            request.deadline = request.received + timeout / 1e6
        self._queue.put(request)
        self._idle.clear()
        if request.deadline is not None:
            self._wake_at(request.deadline)
        self._pump_soon()

    def cancel(self, request: InferRequest) -> None:
        """Drop a request whose client is gone; one that runs already ends unread, its neighbours unharmed."""
        if self._queue.discard(request):
            request.done(CancelledRequestError("the client cancelled"))
            self._settle()

    async def idle(self) -> None:
        """Return when nothing waits or runs."""
        await self._idle.wait()

    def stop(self) -> None:
        """Refuse what still waits, cut what still runs, and end the instance's thread."""
        error = UnavailableError("the server stops before this request is done")
        self._stopped = True
        running, self._running = self._running, []
        for request in running:
            request.done(error)
        self._refuse_all(error)
        self._instance.stop()

    def _pump_soon(self) -> None:
        """At the end of this turn of the loop, so that what was read together is batched together."""
        if not self._pumping and not self._running:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self._running:
            return
        batch = self._queue.take()
        if batch:
            self._running = batch
            self._instance.run(batch)
            return
        due = self._queue.next_batch_at()
        if due is not None:
            self._wake_at(due)

    def _finished(self, execution: Execution) -> None:
        if self._stopped:
            return
        now = time.monotonic()
        rows = sum(request.rows for request in execution.requests)
        self._statistics.executed(rows, len(execution.requests), execution.timing, time.time())
        whole = len(execution.requests) == len(self._running)
        self._running = [] if whole else [item for item in self._running if item not in execution.requests]
        for request, outcome in zip(execution.requests, execution.outcomes, strict=True):
            failed = isinstance(outcome, RequestError)
            self._statistics.finished(request.received, execution.timing, now, failed=failed)
            request.done(outcome)
        if execution.broken and not self._broken:
            self._broken = True
            self._broke()
            self._refuse_all(UnavailableError("the engine failed; this server is being replaced"))
        self._pump()
        self._settle()

    def _refuse_all(self, error: RequestError) -> None:
        for request in self._queue.drain():
            request.done(error)
        self._settle()

    def _settle(self) -> None:
        if not self.pending_requests:
            self._idle.set()

    def _wake_at(self, moment: float) -> None:
        """One timer, at the earliest moment asked for; a wake-up too early does no harm."""
        delay = max(0.0, moment - time.monotonic())
        when = self._loop.time() + delay
        if self._wakeup is not None:
            if self._wakeup.when() <= when:
                return
            self._wakeup.cancel()
        self._wakeup = self._loop.call_later(delay, self._woke)

    def _woke(self) -> None:
        self._wakeup = None
        for request in self._queue.expire():
            request.done(QueueTimeoutError("the request waited longer than its queue timeout"))
        deadline = self._queue.next_deadline()
        if deadline is not None:
            self._wake_at(deadline)
        self._settle()
        self._pump()
