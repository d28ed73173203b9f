"""Which revision serves, which one comes, which ones go: Progressing and Available. Pure.

A revision has a Deployment of its own; the Service selects one revision. The old Deployment is not touched until the
new one is fully ready, so a bad revision never takes a request from a good one.
"""

from enginery_store.reasons import Reason

from enginery_operator.decide.seen import Observed, RevisionSeen, Rollout, Verdict

_STOPPED = Verdict("False", Reason.STOPPED, "spec.state is Stopped; set it to Serving to continue")
_DRAINED = Verdict(
    "False", Reason.STOPPED, "the tenant's stopPolicy is HoldAndDrain; continues by itself when it is None again"
)


def rests(seen: Observed) -> bool:
    """Whether the model or its tenant is stopped: nothing serves and nothing starts."""
    return _drained(seen) or seen.model.spec.state == "Stopped"


def _drained(seen: Observed) -> bool:
    return seen.tenant is not None and seen.tenant.spec.stop_policy == "HoldAndDrain"


def rolled(seen: Observed, blocked: Verdict | None) -> tuple[Rollout, Verdict, Verdict]:
    """(what to do, Progressing, Available). `blocked` is the first condition that keeps the target from rolling."""
    if rests(seen):
        everything = tuple(item.revision for item in seen.revisions)
        verdict = _DRAINED if _drained(seen) else _STOPPED
        return Rollout(remove=everything, select=seen.serving), verdict, verdict
    if blocked is not None or seen.revision is None:
        return _held(seen, blocked)
    return _advancing(seen, seen.revision)


def _held(seen: Observed, blocked: Verdict | None) -> tuple[Rollout, Verdict, Verdict]:
    """The target may not roll: whatever serves goes on untouched."""
    available = _available(seen, seen.serving, blocked)
    if seen.revision is not None and seen.revision == seen.serving:
        deployment = seen.deployment(seen.serving)
        whole = Verdict("False", Reason.COMPLETE, f"revision {seen.serving} serves")
        progressing = whole if _whole(deployment, seen.replicas) else _progress(seen, seen.revision, deployment)
    elif blocked is not None and blocked.failed and blocked.reason is not Reason.BUILDING:
        progressing = Verdict("False", blocked.reason, _not_rolled(seen))
    else:
        progressing = Verdict("True", Reason.NEW_REVISION, f"revision {seen.revision or 'next'} is being made ready")
    remove = _superseded(seen, seen.revision) if seen.revision is not None else ()
    return Rollout(select=seen.serving, remove=remove), progressing, available


def _superseded(seen: Observed, target: str) -> tuple[str, ...]:
    """Revisions that neither serve nor are asked for: the spec was edited again before they came up."""
    if seen.deployment(seen.serving) is None:
        return ()
    return tuple(item.revision for item in seen.revisions if item.revision not in {target, seen.serving})


def _not_rolled(seen: Observed) -> str:
    target = f"revision {seen.revision or 'of this spec'} not rolled out"
    return f"{target}; {seen.serving} still serves" if seen.serving else target


def _advancing(seen: Observed, target: str) -> tuple[Rollout, Verdict, Verdict]:
    """Every gate holds: bring the target up, switch when it is whole, then let the others go."""
    others = tuple(item.revision for item in seen.revisions if item.revision != target)
    deployment = seen.deployment(target)
    if _whole(deployment, seen.replicas):
        progressing = (
            Verdict("False", Reason.COMPLETE, f"revision {target} serves")
            if seen.serving == target
            else Verdict("True", Reason.ROLLOUT_IN_PROGRESS, f"requests move to revision {target}{_refused(seen)}")
        )
        remove = others if seen.serving == target else _superseded(seen, target)
        available = _available(seen, seen.serving if seen.refusal else target, None)
        return Rollout(deploy=True, select=target, remove=remove), progressing, available
    select = seen.serving if seen.serving is not None and seen.deployment(seen.serving) else target
    available = _available(seen, select, None)
    if seen.model.spec.rollout.strategy == "Recreate" and others:
        stopping = Verdict("True", Reason.ROLLOUT_IN_PROGRESS, "strategy Recreate: the old revision stops first")
        return Rollout(select=target, remove=others), stopping, available
    plan = Rollout(deploy=True, select=select, remove=_superseded(seen, target))
    return plan, _progress(seen, target, deployment), available


def _progress(seen: Observed, target: str, deployment: RevisionSeen | None) -> Verdict:
    ready = deployment.ready if deployment else 0
    state = f"revision {target}: {ready}/{seen.replicas} replicas ready"
    why = f": {deployment.trouble.message.rstrip('.; ')}" if deployment is not None and deployment.trouble else ""
    if deployment is not None and deployment.deadline_exceeded:
        return Verdict(
            "False", Reason.PROGRESS_DEADLINE_EXCEEDED, f"{state} after rollout.progressDeadlineSeconds{why}; goes on"
        )
    return Verdict("True", Reason.ROLLOUT_IN_PROGRESS, f"{state}{why}{_refused(seen)}")


def _refused(seen: Observed) -> str:
    return f"; {seen.refusal.message}; will be retried" if seen.refusal else ""


def _whole(deployment: RevisionSeen | None, replicas: int) -> bool:
    return (
        deployment is not None
        and deployment.current
        and deployment.desired == replicas
        and deployment.updated >= replicas
        and deployment.ready >= replicas
    )


def _available(seen: Observed, revision: str | None, blocked: Verdict | None) -> Verdict:
    deployment = seen.deployment(revision)
    if deployment is not None and deployment.ready > 0:
        return Verdict(
            "True", Reason.MINIMUM_REPLICAS_AVAILABLE, f"revision {revision}: {deployment.ready} replica(s) answer"
        )
    if deployment is not None and seen.replicas == 0:
        return Verdict("False", Reason.NO_REPLICAS, "spec.serving.replicas is 0; nothing answers until it is raised")
    if seen.refusal is not None:
        return Verdict("False", seen.refusal.reason, f"{seen.refusal.message}; will be retried")
    if deployment is not None and deployment.trouble is not None:
        return Verdict("False", deployment.trouble.reason, deployment.trouble.message)
    if deployment is None and blocked is not None:
        return Verdict("False", Reason.NO_REPLICAS, "no revision serves yet")
    return Verdict("False", Reason.NO_REPLICAS, "no replica is ready yet")
