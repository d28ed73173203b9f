"""Does every target have its engine, and is it exact enough? EnginesReady and AccuracyVerified. Pure."""

from collections.abc import Iterable
from decimal import Decimal

from enginery_store.manifest import AccuracyRecord
from enginery_store.reasons import Reason

from enginery_operator.api.precision import AccuracyGate
from enginery_operator.decide import jobs
from enginery_operator.decide.seen import EngineSeen, JobStep, Observed, Trouble, Verdict

EVALUATION_FAULTS = frozenset({Reason.EVALUATION_DATA_INVALID, Reason.EVALUATION_FAILED})
"""What the gate's data, or an engine that runs on them, end a request with: the source is as good as before."""

_LATER = "will not be retried until the spec or the source changes"


def built(seen: Observed, why: str = "") -> tuple[Verdict, tuple[tuple[EngineSeen, JobStep], ...]]:
    """The condition EnginesReady and a step for every engine that is not stored. `why`: what to add when all are."""
    missing = [engine for engine in seen.engines if engine.manifest is None]
    steps = tuple((engine, _step(engine, seen)) for engine in missing)
    if not seen.engines:
        quiet = f"waits until {seen.current.precision.type} is prepared"
        return Verdict("Unknown", Reason.PENDING, jobs.preparing(seen, quiet).message), ()
    if not missing:
        return Verdict("True", _how(seen), f"{len(seen.engines)} engine(s){why}"), ()
    troubles = [(engine, trouble) for engine in missing if (trouble := _trouble(engine, seen)) is not None]
    count = f"{len(seen.engines) - len(missing)}/{len(seen.engines)} engines ready"
    if not troubles:
        return Verdict("False", Reason.BUILDING, f"{count}; {_work(missing)}"), steps
    engine, trouble = min(troubles, key=lambda pair: pair[1].passing)
    message = f"{engine.offer.target.name}: {trouble.message.rstrip('.; ')}; {_next(engine, trouble, seen)}"
    if trouble.passing and trouble.reason in {Reason.STORE_UNAVAILABLE, Reason.STORE_TLS_FAILED}:
        return Verdict("Unknown", trouble.reason, message), steps
    if len(missing) < len(seen.engines) and not trouble.passing:
        return Verdict("False", Reason.PARTIALLY_BUILT, f"{count}; {message}"), steps
    return Verdict("False", trouble.reason, message), steps


def _work(missing: list[EngineSeen]) -> str:
    """Who compiles since when: the compiler's own progress is in that Job's log, and never written anywhere else."""
    at_work = [(engine, engine.job) for engine in missing if engine.job is not None and engine.job.active]
    if not at_work:
        return "the rest is being compiled"
    engine, job = min(at_work, key=lambda pair: (pair[1].created_at, pair[1].name))
    since = job.created_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"{engine.offer.target.name} is compiled since {since} (attempt {job.attempt}; its progress: kubectl logs -n"
        f" {job.namespace} job/{job.name})"
    )


def _how(seen: Observed) -> Reason:
    """Whether these engines were compiled for this model or found in the store."""
    own = any(engine.job is not None for engine in seen.engines)
    earlier = (
        next((item for item in (seen.model.status.conditions or []) if item.type == "EnginesReady"), None)
        if seen.model.status
        else None
    )
    if own or (earlier is not None and earlier.reason in {Reason.ALL_TARGETS_BUILT, Reason.BUILDING}):
        return Reason.ALL_TARGETS_BUILT
    return Reason.REUSED_FROM_STORE


def _trouble(engine: EngineSeen, seen: Observed) -> Trouble | None:
    if engine.trouble is not None:
        return engine.trouble
    if engine.failure is not None:
        return Trouble(engine.failure.reason, engine.failure.message)
    if engine.job is None and seen.refusal is not None:
        return Trouble(Reason.CONFIG_ERROR, f"the build Job was refused: {seen.refusal.message}", passing=True)
    return engine.job.trouble if engine.job is not None else None


def _step(engine: EngineSeen, seen: Observed) -> JobStep:
    if engine.trouble is not None:
        return JobStep()
    if (failure := engine.failure) is not None:
        return jobs.recheck(engine.job, failure.finished_at, seen) if failure.reason in jobs.UNNOTICED else JobStep()
    return jobs.first_or_wait(engine.job, seen)


def _next(engine: EngineSeen, trouble: Trouble, seen: Observed) -> str:
    if engine.failure is not None:
        return f"asked again every {seen.recheck_seconds} s" if engine.failure.reason in jobs.UNNOTICED else _LATER
    if engine.job is not None and engine.job.active:
        return "waits"
    if engine.job is not None and engine.trouble is None:
        pause = jobs.pause_seconds(engine.job, seen)
        return f"will retry in {pause:.0f} s"
    return "will be retried" if trouble.passing else _LATER


def exact(seen: Observed) -> Verdict:
    """The condition AccuracyVerified: every stored engine holds the gate; the worst one is named."""
    gate = seen.model.spec.precision.accuracy_gate
    if gate is None:
        return Verdict("True", Reason.NOT_REQUIRED, "spec.precision.accuracyGate is absent")
    failures = [seen.current.failure, *(engine.failure for engine in seen.engines)]
    failed = [failure for failure in failures if failure is not None and failure.reason in EVALUATION_FAULTS]
    if failed:
        after = f"asked again every {seen.recheck_seconds} s" if failed[0].reason in jobs.UNNOTICED else _LATER
        return Verdict("False", failed[0].reason, f"{failed[0].message.rstrip('.; ')}; {after}")
    troubles = (seen.current.outcome_trouble, *(engine.trouble for engine in seen.engines))
    silent = next((trouble for trouble in troubles if trouble is not None and trouble.passing), None)
    if silent is not None:
        return Verdict("Unknown", silent.reason, f"{silent.message.rstrip('.; ')}; will be retried")
    worst = worst_accuracy(seen.engines)
    if worst is None:
        return Verdict("Unknown", Reason.RUNNING, "measured when the engine is built")
    figures = f"{worst.metric} {worst.measured} against {worst.reference} on {worst.samples} samples"
    if worst.measured_on == "Reference":
        figures += ", with ONNX Runtime in the engine's place, as it was compiled ahead of time"
    if not is_exact(worst, gate):
        return Verdict(
            "False",
            Reason.BELOW_THRESHOLD,
            f"{figures}: {worst.degradation} is worse than the tolerated {gate.max_degradation}; {_LATER}",
        )
    return Verdict("True", Reason.PASSED, figures)


def worst_accuracy(engines: Iterable[EngineSeen]) -> AccuracyRecord | None:
    """The record of the engine that lost most against the reference; None before any is built."""
    records = [engine.manifest.accuracy for engine in engines if engine.manifest is not None]
    return max(records, key=lambda record: Decimal(record.degradation), default=None)


def is_exact(record: AccuracyRecord | None, gate: AccuracyGate) -> bool:
    """Whether it lost no more than the gate tolerates."""
    return record is not None and Decimal(record.degradation) <= Decimal(gate.max_degradation)
