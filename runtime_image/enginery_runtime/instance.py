"""One engine on one thread: takes batches from the scheduler and gives back an outcome per request.

The event loop never waits for an engine, and backends release the GIL while they compute. A batch is handed over
whole, so that the way to the thread and back is paid once per batch.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from enginery_runtime.backend import Backend
from enginery_runtime.datatypes import Array
from enginery_runtime.errors import ExecutionError, RequestError
from enginery_runtime.infer import InferRequest, InferResult, merge_rows, split_rows
from enginery_runtime.statistics import Timing

log = logging.getLogger(__name__)

Outcome = InferResult | RequestError


@dataclass(frozen=True, slots=True)
class Execution:
    """One finished run: requests and outcomes in the same order."""

    requests: Sequence[InferRequest]
    outcomes: Sequence[Outcome]
    timing: Timing
    broken: bool = False
    """The engine failed, and failed again on the input it was warmed up with."""


class Instance:
    """The thread, and the backend that only this thread calls."""

    def __init__(self, backend: Backend, known_good: dict[str, Array], finished: Callable[[Execution], None]) -> None:
        """`known_good` is an input the engine answered while warming up; `finished` is called on the event loop."""
        self._backend = backend
        self._known_good = known_good
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._batches: queue.SimpleQueue[list[InferRequest] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)
        self._thread.start()

    def run(self, batch: list[InferRequest]) -> None:
        """Hand a batch over; `finished` follows for each call."""
        self._batches.put(batch)

    def stop(self) -> None:
        """End the thread once the batch in hand is done; the backend is closed there."""
        self._batches.put(None)

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            for execution in self._executions(batch):
                self._loop.call_soon_threadsafe(self._finished, execution)
        self._backend.close()

    def _executions(self, batch: list[InferRequest]) -> list[Execution]:
        """One execution, or, when a merged batch fails, one for each of its requests: neighbours are not to suffer."""
        started = time.monotonic()
        try:
            inputs = merge_rows(batch) if len(batch) > 1 else batch[0].inputs
            merged = time.monotonic()
            outputs = self._backend.infer(inputs)
            computed = time.monotonic()
            parts = split_rows(outputs, batch) if len(batch) > 1 else [outputs]
            outcomes = [_chosen(request, part) for request, part in zip(batch, parts, strict=True)]
        except Exception as error:  # noqa: BLE001 - a backend may raise anything, and the server outlives it
            if len(batch) > 1:
                return [execution for request in batch for execution in self._executions([request])]
            return [self._failed(batch, error, started)]
        return [Execution(batch, outcomes, Timing(started, merged, computed, time.monotonic()))]

    def _failed(self, batch: list[InferRequest], error: Exception, started: float) -> Execution:
        now = time.monotonic()
        timing = Timing(started, started, now, now)
        if isinstance(error, RequestError):
            return Execution(batch, [error], timing)
        log.warning("the engine failed on a request", exc_info=error)
        words = str(error).strip().splitlines() or [type(error).__name__]
        refusal = ExecutionError(f"the engine failed on this request: {words[0][:300]}")
        return Execution(batch, [refusal], timing, broken=not self._answers())

    def _answers(self) -> bool:
        """Whether the engine still does what it did while warming up."""
        try:
            self._backend.infer(self._known_good)
        except Exception:
            log.exception("the engine fails on its warm-up input too")
            return False
        return True


def _chosen(request: InferRequest, outputs: dict[str, Array]) -> InferResult:
    return InferResult({name: outputs[name] for name in request.outputs} if request.outputs else outputs)
