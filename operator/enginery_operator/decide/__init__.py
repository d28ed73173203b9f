"""From what was seen to what is true and what to do: ordered pure checks over one frozen `Observed`.

Called by `reconcile`. Each condition has a function; a condition whose predecessors do not hold is Unknown Pending.
The first condition that does not hold keeps the target revision from rolling, and gives Ready its reason.
"""

from enginery_store.reasons import Reason

from enginery_operator.decide import accept, calibration, engines, ladder, memory, rollout, source
from enginery_operator.decide.seen import PENDING, Decision, EngineSeen, JobStep, Observed, Verdict

GATES = ("Accepted", "SourceVerified", "QuotaReserved", "Calibrated", "AccuracyVerified", "EnginesReady")
"""What must hold before a revision is rolled out, in this order. AccuracyVerified stands before EnginesReady, as an
engine that is built and not exact enough is the more telling reason; both are decided together."""

CONDITIONS = (*GATES, "Progressing", "Available", "ScalingReady", "Ready")
"""All conditions of an InferenceModel, in the order of status."""


def decide(seen: Observed) -> Decision:
    """One pass: every condition, the steps for Jobs, the rollout, and when to look again at the latest."""
    verdicts: dict[str, Verdict] = {"Accepted": accept.accepted(seen)}
    prepare = JobStep()
    steps: tuple[tuple[EngineSeen, JobStep], ...] = ()
    if verdicts["Accepted"].holds:
        verdicts["SourceVerified"], prepare = source.verified(seen)
    if (waits := _waits_for_quota(seen)) is not None:
        verdicts["QuotaReserved"] = waits
    verified = verdicts.get("SourceVerified", PENDING)
    if verified.holds or verified.reason is Reason.PREPARING:
        verdicts["Calibrated"] = calibration.calibrated(seen)
    if verified.holds:
        verdicts.setdefault("QuotaReserved", _quota(seen))
        verdicts["EnginesReady"], steps = engines.built(seen, ladder.explained(seen))
        if waits is not None:
            verdicts["EnginesReady"] = PENDING
        verdicts["AccuracyVerified"] = engines.exact(seen)
    if rollout.rests(seen):
        verdicts, prepare, steps = _resting(verdicts, prepare, steps)
    verdicts = {name: verdicts.get(name, PENDING) for name in GATES}
    blocked = _first(verdicts, next((verdict for verdict in verdicts.values() if not verdict.holds), None))
    plan, progressing, available = rollout.rolled(seen, blocked)
    verdicts = memory.remembered(seen.model, verdicts) | {"Progressing": progressing, "Available": available}
    verdicts["ScalingReady"] = Verdict("True", Reason.FIXED_REPLICAS, f"{seen.replicas} replica(s)")
    verdicts["Ready"] = _ready(seen, verdicts, blocked)
    return Decision(
        conditions={name: verdicts[name] for name in CONDITIONS},
        prepare=prepare,
        builds=steps,
        rollout=plan,
        requeue_seconds=_soonest([prepare, *(step for _, step in steps)]),
    )


def _resting(
    verdicts: dict[str, Verdict], prepare: JobStep, steps: tuple[tuple[EngineSeen, JobStep], ...]
) -> tuple[dict[str, Verdict], JobStep, tuple[tuple[EngineSeen, JobStep], ...]]:
    """A stopped model starts no Job, as Jobs take slices; what it would have started is said to wait."""
    waits = Verdict("Unknown", Reason.PENDING, "stopped: no Job is started")
    if prepare.create_attempt is not None:
        halted = "Calibrated" if verdicts["SourceVerified"].holds else "SourceVerified"
        verdicts, prepare = verdicts | {halted: waits}, JobStep()
    if any(step.create_attempt is not None for _, step in steps):
        verdicts = verdicts | {"EnginesReady": waits}
    return verdicts, prepare, tuple((engine, step) for engine, step in steps if step.create_attempt is None)


def _first(verdicts: dict[str, Verdict], blocked: Verdict | None) -> Verdict | None:
    """A False condition tells more than an Unknown one before it."""
    return next((verdict for verdict in verdicts.values() if verdict.failed), blocked)


def _waits_for_quota(seen: Observed) -> Verdict | None:
    """A namespace's ResourceQuota keeps a Job from its pod; the Job controller tries on by itself."""
    for job in (seen.prepare_job, *(engine.job for engine in seen.engines)):
        if job is not None and job.active and job.trouble and job.trouble.reason is Reason.WAITING_FOR_QUOTA:
            message = f"Job {job.name}: {job.trouble.message}; continues by itself when the quota has room"
            return Verdict("False", Reason.WAITING_FOR_QUOTA, message)
    return None


def _quota(seen: Observed) -> Verdict:
    mode = seen.model.spec.accelerator.mode
    if mode == "CPU":
        return Verdict("True", Reason.NO_QUOTA_CONFIGURED, "accelerator mode CPU takes no slice")
    return Verdict("True", Reason.NO_QUOTA_CONFIGURED, "no reservation of slices in this version")


def _ready(seen: Observed, verdicts: dict[str, Verdict], blocked: Verdict | None) -> Verdict:
    """The one-word summary: the reason of the first False, then whatever is not decided, then Serving.

    `verdicts` hold what is remembered of gates while the store is silent, `blocked` does not: it keeps a half-done
    rollout from being called anything but undecided.
    """
    if seen.model.spec.state == "Stopped":
        return Verdict("False", Reason.STOPPED, "spec.state is Stopped")
    still = f"; {seen.serving} still serves" if seen.serving and seen.serving != seen.revision else ""
    ordered = [verdicts[name] for name in (*GATES, "Available", "ScalingReady")]
    if failed := next((verdict for verdict in ordered if verdict.failed), None):
        if failed.reason is Reason.NO_REPLICAS and not _gates_open(verdicts):
            return Verdict("Unknown", Reason.PENDING, _waiting(ordered))
        return Verdict("False", failed.reason, f"{failed.message}{still}")
    if any(not verdict.holds for verdict in ordered):
        return Verdict("Unknown", Reason.PENDING, _waiting(ordered))
    progressing = verdicts["Progressing"]
    if progressing.reason is not Reason.COMPLETE and blocked is not None:
        return Verdict("Unknown", Reason.PENDING, f"{blocked.message}{still}")
    if progressing.reason is not Reason.COMPLETE:
        return Verdict("False", progressing.reason, f"{progressing.message}{still}")
    return Verdict("True", Reason.SERVING, f"revision {seen.revision} serves")


def _gates_open(verdicts: dict[str, Verdict]) -> bool:
    return all(verdicts[name].holds for name in GATES)


def _waiting(ordered: list[Verdict]) -> str:
    undecided = next(verdict for verdict in ordered if not verdict.holds)
    return undecided.message


def _soonest(steps: list[JobStep]) -> float | None:
    return min((step.wait_seconds for step in steps if step.wait_seconds is not None), default=None)
