"""Jobs, Deployments and their pods, read into the values decisions are made on. Pure; called by `observe`."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from enginery_store.errors import DocumentError
from enginery_store.manifest import parse_document
from enginery_store.reasons import Reason
from enginery_store.requests import TerminationMessage

from enginery_operator.decide.seen import JobSeen, RevisionSeen, Trouble
from enginery_operator.render import labels

Object = Mapping[str, Any]

SUSPENDED_FOR = "enginery.io/suspended-for"
"""Annotation on a Job that was suspended because its pod cannot start: `<reason>: <message>`."""

ATTEMPT_DIGITS = 6
"""Longest number of an attempt: once an hour for a century."""

_PREPARE_BOUND = "the installation's config.jobs.prepareTimeoutSeconds"
_OUT_OF_MEMORY = "the container ran out of memory; raise the installation's config.jobs.memoryLimit"

_IMAGE_REASONS = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def job_seen(job: Object, pods: Iterable[Object], *, stage_failure: Reason) -> JobSeen:
    """A Job as it stands. `stage_failure` is the reason of a failure that left no word of its own."""
    metadata, status = job["metadata"], job.get("status", {})
    base = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "attempt": _attempt(metadata),
        "created_at": parse_time(metadata["creationTimestamp"]),
    }
    conditions = {item["type"]: item for item in status.get("conditions", []) if item["status"] == "True"}
    if "Complete" in conditions:
        return JobSeen(**base, state="Succeeded", finished_at=parse_time(conditions["Complete"]["lastTransitionTime"]))
    latest = _latest(pods)
    if failed := conditions.get("Failed"):
        trouble, code = _failure(failed, latest, stage_failure)
        finished = parse_time(failed["lastTransitionTime"])
        return JobSeen(**base, state="Failed", finished_at=finished, trouble=trouble, exit_code=code)
    if job.get("spec", {}).get("suspend"):
        return _suspended(base, job)
    if latest is not None and latest.get("status", {}).get("phase") == "Running":
        return JobSeen(**base, state="Running")
    if latest is None:
        return JobSeen(**base, state="Waiting")
    return JobSeen(**base, state="Waiting", waiting_since=_waiting_since(latest), trouble=start_trouble(latest))


def _waiting_since(pod: Object) -> datetime:
    """When the pod was made, or its latest init container ended: what those took is no time that a container waited."""
    states = (container.get("state", {}) for container in pod.get("status", {}).get("initContainerStatuses", []))
    ended = [found["finishedAt"] for state in states if (found := state.get("terminated")) and "finishedAt" in found]
    return max(parse_time(moment) for moment in (pod["metadata"]["creationTimestamp"], *ended))


def pod_refused(note: str) -> Trouble:
    """What the API server told the Job controller when it wanted a pod; it tries on by itself."""
    said = note.removeprefix("Error creating: ")
    reason = Reason.WAITING_FOR_QUOTA if "exceeded quota" in said else Reason.CONFIG_ERROR
    return Trouble(reason, f"no pod is allowed: {said}", passing=True)


def _attempt(metadata: Object) -> int:
    """The number of a Job; a label that holds none we would write, as anybody can, is the first's: pauses and names
    grow with it.
    """
    text = metadata.get("labels", {}).get(labels.ATTEMPT, "")
    return max(1, int(text)) if text.isdecimal() and len(text) <= ATTEMPT_DIGITS else 1


def is_at_work(job: Object) -> bool:
    """Whether a Job has neither ended nor begun to go."""
    ended = any(
        item["type"] in {"Complete", "Failed"} and item["status"] == "True"
        for item in job.get("status", {}).get("conditions", [])
    )
    return not ended and not job["metadata"].get("deletionTimestamp")


def _suspended(base: dict[str, Any], job: Object) -> JobSeen:
    """Ours carries why; any other was suspended by a queue, which will resume it."""
    why = job["metadata"].get("annotations", {}).get(SUSPENDED_FOR)
    if why is None:
        return JobSeen(**base, state="Waiting", trouble=Trouble(Reason.QUEUED, "a queue holds the Job", passing=True))
    reason, _, message = why.partition(": ")
    known = Reason(reason) if reason in set(Reason) else Reason.CONFIG_ERROR
    since = next(
        (
            parse_time(item["lastTransitionTime"])
            for item in job.get("status", {}).get("conditions", [])
            if item["type"] == "Suspended" and item["status"] == "True"
        ),
        None,
    )
    return JobSeen(**base, state="Suspended", finished_at=since, trouble=Trouble(known, message, passing=True))


def _failure(condition: Object, pod: Object | None, stage_failure: Reason) -> tuple[Trouble, int | None]:
    ended = terminated(pod) if pod is not None else None
    code = int(ended["exitCode"]) if ended else None
    if ended is not None and (word := termination_word(ended)) is not None:
        return Trouble(word.reason, word.message, passing=word.retryable), code
    if condition.get("reason") == "DeadlineExceeded" or (pod or {}).get("status", {}).get("reason") == (
        "DeadlineExceeded"
    ):
        bound = "spec.build.timeoutSeconds" if stage_failure is Reason.BUILD_FAILED else _PREPARE_BOUND
        return Trouble(Reason.BUILD_TIMEOUT, f"the Job ran longer than its deadline; raise {bound}"), code
    if ended is not None and ended.get("reason") == "OOMKilled":
        return Trouble(Reason.BUILD_OUT_OF_MEMORY, _OUT_OF_MEMORY), code
    said = f"exit code {code}" if code is not None else str(condition.get("message", "no pod left a word"))
    return Trouble(stage_failure, f"the Job failed: {said}", passing=True), code


def start_trouble(pod: Object) -> Trouble | None:
    """What keeps a pending pod from starting; every kind of it may pass by itself."""
    status = pod.get("status", {})
    for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        waiting = container.get("state", {}).get("waiting") or {}
        reason, message = waiting.get("reason", ""), waiting.get("message") or ""
        if reason in _IMAGE_REASONS:
            return Trouble(Reason.IMAGE_PULL_FAILED, f"image {container['image']}: {message or reason}", passing=True)
        if reason in _CONFIG_REASONS:
            return Trouble(Reason.CONFIG_ERROR, message or reason, passing=True)
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            message = condition.get("message", "no node has room")
            kind = Reason.WAITING_FOR_SLICE if "Insufficient nvidia.com/" in message else Reason.UNSCHEDULABLE
            return Trouble(kind, message, passing=True)
    return None


def terminated(pod: Object) -> Object | None:
    """The latest termination of the pod's container, current or before a restart; where it never started, as one
    before it failed, that one's.
    """
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        for state in (container.get("state", {}), container.get("lastState", {})):
            if found := state.get("terminated"):
                ended: Object = found
                return ended
    for container in status.get("initContainerStatuses", []):
        failed: Object | None = container.get("state", {}).get("terminated")
        if failed is not None and failed["exitCode"] != 0:
            return failed
    return None


def termination_word(ended: Object) -> TerminationMessage | None:
    """Our own word in a termination message; None when the container left something else or nothing."""
    try:
        return parse_document(TerminationMessage, ended.get("message") or "")
    except DocumentError:
        return None


def revision_seen(deployment: Object, pods: Iterable[Object]) -> RevisionSeen:
    """A Deployment as it stands, with what keeps its pods from being ready."""
    metadata, spec, status = deployment["metadata"], deployment["spec"], deployment.get("status", {})
    conditions = {item["type"]: item for item in status.get("conditions", [])}
    progressing = conditions.get("Progressing", {})
    return RevisionSeen(
        revision=metadata["name"],
        desired=int(spec.get("replicas", 1)),
        ready=int(status.get("readyReplicas", 0)),
        updated=int(status.get("updatedReplicas", 0)),
        replicas=int(status.get("replicas", 0)),
        current=int(status.get("observedGeneration", 0)) >= int(metadata.get("generation", 1)),
        deadline_exceeded=progressing.get("reason") == "ProgressDeadlineExceeded",
        trouble=_replica_failure(conditions) or _pods_trouble(pods),
    )


def _replica_failure(conditions: Mapping[str, Object]) -> Trouble | None:
    failure = conditions.get("ReplicaFailure")
    if failure is None or failure["status"] != "True":
        return None
    message = failure.get("message", "")
    reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in message else Reason.CONFIG_ERROR
    return Trouble(reason, message, passing=True)


def _pods_trouble(pods: Iterable[Object]) -> Trouble | None:
    for pod in sorted(pods, key=_created, reverse=True):
        if (trouble := start_trouble(pod)) is not None:
            return trouble
        if pod["metadata"].get("deletionTimestamp") or _ready(pod):
            continue
        if _silent(pod):
            return Trouble(Reason.NO_REPLICAS, "the node of a replica does not answer", passing=True)
        ended = terminated(pod)
        if ended is None:
            continue
        if (word := termination_word(ended)) is not None:
            return Trouble(word.reason, word.message, passing=word.retryable)
        if ended.get("reason") == "OOMKilled":
            text = "the runtime ran out of memory (OOMKilled); raise spec.serving.resources"
            return Trouble(Reason.CRASH_LOOPING, text)
        if ended.get("exitCode"):
            why = ended.get("reason", "Error")
            return Trouble(Reason.CRASH_LOOPING, f"the runtime ended with exit code {ended['exitCode']} ({why})")
    return None


def _ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _silent(pod: Object) -> bool:
    """Whether the kubelet's last word was that every container is ready, and the pod is called unready without it."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    conditions = pod.get("status", {}).get("conditions", [])
    unready = any(item["type"] == "Ready" and item["status"] == "False" for item in conditions)
    return unready and bool(containers) and all(item.get("ready") for item in containers)


def _created(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))


def _latest(pods: Iterable[Object]) -> Object | None:
    return max(pods, key=_created, default=None)


def parse_time(text: str) -> datetime:
    """A Kubernetes timestamp."""
    return datetime.fromisoformat(text)
