"""Latency and throughput of one engine at the shapes it will be asked for. Called by `measure`.

One caller, one run at a time, on warm caches, without network and queue: what the hardware can do, not what a
service under load will show.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from enginery_store.errors import EngineryError
from enginery_store.manifest import LatencyRecord, PreparedManifest, ShapeProfile, TensorSpec

from enginery_builder.backend import OpenModel, Tensors, leading_is_free
from enginery_builder.samples import attempts, seed_of, sizes_of
from enginery_builder.shapes import DEFAULT_PROFILE, GUESSES, Shapes, batch_of, free_shapes, profile_shapes, with_batch

LOG = logging.getLogger(__name__)

WARMUP_RUNS = 5
"""Runs before the clock counts: threads start, arenas grow."""

MOST_RUNS = 300
"""Enough for a p99 that three runs decide."""

FEWEST_RUNS = 5
"""Even a slow engine is timed this often."""

SECONDS_PER_POINT = 3.0
"""After it no further run starts, once FEWEST_RUNS are done."""

DEFAULT_BATCHES = (1, 8)
"""Batches timed where no profile says more."""


@dataclass(frozen=True)
class WorkingPoint:
    """Shapes and feeds that the engine runs with."""

    profile: str
    batch: int
    shapes: Shapes
    feeds: Tensors
    sizes: Tensors = field(default_factory=dict)
    """Inputs whose values are sizes; they are among `feeds` too."""


def working_points(
    opened: OpenModel, model: PreparedManifest, profiles: Sequence[ShapeProfile], key: str
) -> list[WorkingPoint]:
    """For each profile its opt shapes, and batch 1 where the batch is free and within the profile.

    Without profiles: batches 1 and 8, free inner dimensions guessed. A point that no generated input can reach is
    left out; the result may be empty.
    """
    points: dict[tuple[str, int], WorkingPoint] = {}
    inputs = model.inputs
    sizes = {profile.name: sizes_of(inputs, model.shape_inputs, profile, "opt") for profile in profiles}
    for name, shapes in _candidates(inputs, profiles):
        batch, fixed = batch_of(inputs, shapes), sizes.get(name, {})
        if (name, batch) not in points:
            feeds = _running(opened, attempts(inputs, shapes, seed_of(key), fixed))
            if feeds is not None:
                points[name, batch] = WorkingPoint(name, batch, shapes, feeds, fixed)
    return list(points.values())


def latencies(opened: OpenModel, points: Sequence[WorkingPoint]) -> list[LatencyRecord]:
    """One record per point."""
    records = []
    for point in points:
        record = _record(point, _timed(opened, point.feeds))
        LOG.info("timed", extra=record.model_dump())
        records.append(record)
    return records


def _candidates(inputs: Sequence[TensorSpec], profiles: Sequence[ShapeProfile]) -> Iterator[tuple[str, Shapes]]:
    for profile in profiles:
        for guess in GUESSES:
            shapes = profile_shapes(inputs, profile, "opt", guess)
            yield profile.name, shapes
            smallest = profile_shapes(inputs, profile, "min", guess)
            if any(leading_is_free(spec) for spec in inputs) and batch_of(inputs, smallest) == 1:
                yield profile.name, with_batch(inputs, shapes, 1)
    if not profiles:
        for guess in GUESSES:
            for batch in DEFAULT_BATCHES:
                yield DEFAULT_PROFILE, free_shapes(inputs, batch, guess)


def _running(opened: OpenModel, generated: Iterable[Tensors]) -> Tensors | None:
    """The first input that the engine takes. Raises PassingError: a device that fails says nothing about inputs."""
    for feeds in generated:
        try:
            opened.run(feeds)
        except EngineryError as error:
            if error.retryable:
                raise
            LOG.info("generated input refused", extra={"error": error.message})
        else:
            return feeds
    return None


def _timed(opened: OpenModel, feeds: Tensors) -> list[float]:
    """Seconds of each run, sorted."""
    for _ in range(WARMUP_RUNS):
        opened.run(feeds)
    seconds: list[float] = []
    end = time.perf_counter() + SECONDS_PER_POINT
    while len(seconds) < FEWEST_RUNS or (len(seconds) < MOST_RUNS and time.perf_counter() < end):
        started = time.perf_counter()
        opened.run(feeds)
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)


def _record(point: WorkingPoint, seconds: list[float]) -> LatencyRecord:
    """Percentiles by nearest rank; throughput over all timed runs."""
    return LatencyRecord(
        profile=point.profile,
        batch=point.batch,
        p50_microseconds=round(percentile(seconds, 50) * 1e6),
        p99_microseconds=round(percentile(seconds, 99) * 1e6),
        items_per_second=f"{point.batch * len(seconds) / sum(seconds):.1f}",
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of the values do not exceed (nearest rank)."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
