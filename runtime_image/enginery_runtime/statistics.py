"""What was served, counted once: the protocol's statistics and the metrics page both read it.

Only the event loop's thread writes and reads, so there are no locks; an observation costs well under a microsecond,
where a metrics library's would cost several per request.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

SECONDS_BOUNDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Buckets of durations: from a tiny model's call to a request nobody should wait for."""

ROWS_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Buckets of batch sizes."""


class Histogram:
    """Counts per bucket, as Prometheus means them but not yet cumulative; the last is beyond every bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class Duration:
    """How often and how long in all, as the protocol's statistics state it."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count `times` events that took `seconds` each."""
        self.count += times
        self.seconds += seconds * times

    def document(self) -> dict[str, int]:
        """The protocol's form: count and nanoseconds."""
        return {"count": self.count, "ns": round(self.seconds * 1e9)}


@dataclass(slots=True)
class Stages:
    """The three parts of an execution: gathering inputs, the engine, handing out outputs."""

    compute_input: Duration = field(default_factory=Duration)
    compute_infer: Duration = field(default_factory=Duration)
    compute_output: Duration = field(default_factory=Duration)

    def add(self, timing: "Timing", times: int) -> None:
        """Count an execution for `times` requests."""
        self.compute_input.add(timing.merged - timing.started, times)
        self.compute_infer.add(timing.computed - timing.merged, times)
        self.compute_output.add(timing.split - timing.computed, times)

    def document(self) -> dict[str, dict[str, int]]:
        """The protocol's form."""
        return {name: getattr(self, name).document() for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Timing:
    """Moments of one execution on the monotonic clock, in seconds."""

    started: float
    merged: float
    computed: float
    split: float


@dataclass(slots=True)
class Statistics:
    """Everything counted since the process began."""

    answers: Counter[tuple[bool, str, str]] = field(default_factory=Counter)
    """Answered inference requests by (for our model, protocol, code)."""
    queue_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))
    infer_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))
    total_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))
    batch_rows: Histogram = field(default_factory=lambda: Histogram(ROWS_BOUNDS))
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    stages: Stages = field(default_factory=Stages)
    by_batch: dict[int, Stages] = field(default_factory=dict)
    """Bounded by the largest batch."""
    rows: int = 0
    executions: int = 0
    last_inference_milliseconds: int = 0
    """Unix time."""
    cold_start_seconds: dict[str, float] = field(default_factory=dict)
    """By phase: fetch, verify, load, warm."""

    def executed(self, rows: int, requests: int, timing: Timing, unix_seconds: float) -> None:
        """Count one run of the engine."""
        self.executions += 1
        self.rows += rows
        self.last_inference_milliseconds = int(unix_seconds * 1000)
        self.batch_rows.observe(rows)
        self.stages.add(timing, requests)
        self.by_batch.setdefault(rows, Stages()).add(timing, 1)

    def finished(self, received: float, timing: Timing, now: float, *, failed: bool) -> None:
        """Count one request that was run."""
        total = now - received
        self.queue.add(timing.started - received)
        self.queue_seconds.observe(timing.started - received)
        self.infer_seconds.observe(timing.computed - timing.merged)
        self.total_seconds.observe(total)
        (self.fail if failed else self.success).add(total)

    def document(self, name: str, version: str) -> dict[str, object]:
        """The protocol's statistics of one model, as both front ends send them."""
        none = Duration().document()
        stats = {
            "success": self.success.document(),
            "fail": self.fail.document(),
            "queue": self.queue.document(),
            **self.stages.document(),
            "cache_hit": none,
            "cache_miss": none,
        }
        batches = [{"batch_size": size, **stages.document()} for size, stages in sorted(self.by_batch.items())]
        return {
            "name": name,
            "version": version,
            "last_inference": self.last_inference_milliseconds,
            "inference_count": self.rows,
            "execution_count": self.executions,
            "inference_stats": stats,
            "batch_stats": batches,
        }
