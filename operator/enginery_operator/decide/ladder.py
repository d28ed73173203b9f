"""Which precisions Auto tries, and which one serves: the progressive ladder. Pure; called by `observe` and `status`.

The most exact precision that is fast on its device comes first: FP16 on GPUs, FP32 on CPUs. INT8 follows only if the
latency measured on some target misses spec.objective, and is kept only if the accuracy gate holds. FP16 that fails its
gate falls back to FP32. All of it follows from what is stored, so that every pass comes to the same answer; only what
a Job alone can tell (memory, time, credentials) is kept in status.precision.tried, as Jobs are removed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from enginery_store.manifest import EngineManifest
from enginery_store.reasons import Reason

from enginery_operator.api.source import Objective
from enginery_operator.api.v1alpha1 import InferenceModel
from enginery_operator.backends import ONNXRUNTIME, backend_of
from enginery_operator.decide.engines import is_exact, worst_accuracy
from enginery_operator.decide.seen import Candidate, JobSeen, Observed

CHOSEN, MISSED, NOT_MEASURED = "Chosen", "ObjectiveMissed", "NotMeasured"
"""What status.precision.tried says of candidates whose engines are there and exact enough."""

_MORE_EXACT_MAY_MEND = frozenset({Reason.BELOW_THRESHOLD, Reason.EVALUATION_FAILED})

UNRECORDED = frozenset(
    {
        Reason.ACCESS_DENIED,
        Reason.BUILD_FAILED,
        Reason.BUILD_OUT_OF_MEMORY,
        Reason.BUILD_TIMEOUT,
        Reason.CONFIG_ERROR,
        Reason.CONVERSION_FAILED,
    }
)
"""What a Job may end with that no outcome in the store tells: status remembers it, for as long as the revision is the
same."""

_WORDLESS = frozenset({Reason.BUILD_FAILED, Reason.CONVERSION_FAILED})
"""Passing failures of a Job that left no word of its own, such as a compiler that crashes."""

_TRIES = 3
"""So many Jobs that end without a word rule a precision out: else one crash that always comes would hold up what serves
well for ever."""

_MEDIAN = 50
"""Builders measure the median and p99: an objective for a percentile above the median is held against p99."""


@dataclass(frozen=True)
class Row:
    """A candidate that is decided."""

    type: str
    reason: str
    """Chosen (it meets the objective), ObjectiveMissed, NotMeasured, or the reason of what rules it out."""
    latency: Decimal | None = None
    """Milliseconds at the objective's percentile and batch size, of the slowest target."""

    @property
    def usable(self) -> bool:
        """Whether it could serve."""
        return self.reason in {CHOSEN, MISSED, NOT_MEASURED}


def following(model: InferenceModel, candidates: Sequence[Candidate]) -> str | None:
    """The precision to look at after these; None when they are enough, or the last one is not decided."""
    wanted = model.spec.precision.type
    if not candidates:
        return wanted if wanted != "Auto" else "FP32" if backend_of(model) == ONNXRUNTIME else "FP16"
    if wanted != "Auto" or len(candidates) > 1 or (row := _row(model, candidates[0])) is None:
        return None
    if row.type == "FP16" and row.reason in _MORE_EXACT_MAY_MEND:
        return "FP32"
    return "INT8" if row.reason == MISSED and _can_quantize(model) else None


def steps(model: InferenceModel) -> tuple[str, ...]:
    """Every precision that may come to serve a model with precision Auto."""
    exact = ("FP32",) if backend_of(model) == ONNXRUNTIME else ("FP16", "FP32")
    return (*exact, "INT8") if _can_quantize(model) else exact


def chosen(model: InferenceModel, candidates: Sequence[Candidate]) -> Candidate:
    """What serves: the first candidate that meets the objective, else the fastest that is exact enough.

    While the last one is not decided it is that one that everything waits for; where none is usable, its trouble is
    what to tell.
    """
    rows = [_row(model, candidate) for candidate in candidates]
    usable = [(row, item) for row, item in zip(rows, candidates, strict=True) if row is not None and row.usable]
    if model.spec.precision.type != "Auto" or rows[-1] is None or not usable:
        return candidates[-1]
    quick = [item for row, item in usable if row.reason != MISSED]
    return quick[0] if quick else min(usable, key=lambda pair: pair[0].latency or Decimal(0))[1]


def tried(seen: Observed) -> list[tuple[Row, bool]]:
    """Every decided candidate of a model with precision Auto, and whether it is the one that serves."""
    if seen.model.spec.precision.type != "Auto":
        return []
    rows = [(_row(seen.model, candidate), candidate is seen.current) for candidate in seen.candidates]
    return [(row, serves and row.usable) for row, serves in rows if row is not None]


def explained(seen: Observed) -> str:
    """Why this precision serves, for the message of EnginesReady; empty unless it is Auto's choice."""
    rows, objective = tried(seen), seen.model.spec.objective
    serving = next((row for row, serves in rows if serves), None)
    if serving is None or objective is None:
        return ""
    bound = f"{objective.latency_milliseconds.value} ms at batch {objective.batch_size}"
    if serving.reason == NOT_MEASURED:
        return f"; Auto keeps {serving.type}: engines that are compiled ahead of time have no measured latency"
    text = f"{serving.type} takes {serving.latency} ms"
    losers = [row for row, serves in rows if not serves]
    others = [f"{row.type} {row.latency} ms" if row.usable else f"{row.type} {row.reason}" for row in losers]
    beside = f" (also tried: {', '.join(others)})" if others else ""
    if serving.reason == CHOSEN:
        return f"; {text}, the objective is {bound}{beside}"
    lacks = "" if _can_quantize(seen.model) else "; INT8 is tried only with precision.calibration and accuracyGate"
    return f"; no precision meets the objective of {bound}: {text}, the fastest{beside}{lacks}"


def _can_quantize(model: InferenceModel) -> bool:
    """INT8 needs scales, and a gate that proves them."""
    precision = model.spec.precision
    return precision.calibration is not None and precision.accuracy_gate is not None


def _row(model: InferenceModel, candidate: Candidate) -> Row | None:
    """What became of a candidate; None while that is open."""
    kind, gate, objective = candidate.precision.type, model.spec.precision.accuracy_gate, model.spec.objective
    if (reason := _ruled_out(candidate)) is not None:
        return Row(kind, reason)
    manifests = [engine.manifest for engine in candidate.engines if engine.manifest is not None]
    if not manifests or len(manifests) < len(candidate.engines):
        return None
    if gate is not None and not is_exact(worst_accuracy(candidate.engines), gate):
        return Row(kind, Reason.BELOW_THRESHOLD)
    latencies = [latency for manifest in manifests if (latency := _latency(manifest, objective)) is not None]
    if objective is None or len(latencies) < len(manifests):
        return Row(kind, NOT_MEASURED)
    slowest = max(latencies)
    meets = slowest <= Decimal(objective.latency_milliseconds.value)
    return Row(kind, CHOSEN if meets else MISSED, slowest)


def _ruled_out(candidate: Candidate) -> Reason | None:
    """The final failure of its prepare request or of an engine: stored, told by a Job, or remembered from one."""
    outcomes = (candidate.outcome, *(engine.failure for engine in candidate.engines))
    stored = [outcome.reason for outcome in outcomes if outcome is not None and outcome.failed]
    jobs = [engine.job for engine in candidate.engines if engine.manifest is None and engine.trouble is None]
    if candidate.outcome is None:
        jobs.append(candidate.prepare_job)
    told = [_final_word(job) for job in jobs if job is not None]
    whole = bool(candidate.engines) and all(engine.manifest is not None for engine in candidate.engines)
    remembered = None if whole else candidate.given_up
    return next((reason for reason in (*stored, *told, remembered) if reason is not None), None)


def _final_word(job: JobSeen) -> Reason | None:
    """The reason of a Job's end that rules out what it worked for."""
    if job.state != "Failed" or job.trouble is None:
        return None
    tired = job.trouble.reason in _WORDLESS and job.attempt >= _TRIES
    return job.trouble.reason if tired or not job.trouble.passing else None


def _latency(manifest: EngineManifest, objective: Objective | None) -> Decimal | None:
    """Milliseconds at the objective's batch size; where that was not timed, at the next larger one that was, else at
    the largest.
    """
    if objective is None or not manifest.latency:
        return None
    timed = sorted({record.batch for record in manifest.latency})
    batch = next((size for size in timed if size >= objective.batch_size), timed[-1])
    median = objective.latency_milliseconds.percentile <= _MEDIAN
    slowest = max(
        record.p50_microseconds if median else record.p99_microseconds
        for record in manifest.latency
        if record.batch == batch
    )
    return Decimal(slowest) / 1000
