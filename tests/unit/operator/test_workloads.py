"""Jobs, Deployments and pods as clusters really leave them -> what a decision is made on."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from enginery_operator.decide.seen import Trouble
from enginery_operator.render import labels
from enginery_operator.workloads import SUSPENDED_FOR, job_seen, revision_seen
from enginery_store.reasons import Reason

CREATED, LATER = "2026-03-01T12:00:00Z", "2026-03-01T12:05:00Z"


def condition(kind: str, status: str = "True", **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": LATER} | more


def a_job(*conditions: dict[str, str], suspend: bool = False, annotations: dict[str, str] | None = None) -> Any:
    return {
        "metadata": {
            "name": "m-build-1",
            "namespace": "team-a",
            "creationTimestamp": CREATED,
            "labels": {labels.ATTEMPT: "2"},
            "annotations": annotations or {},
        },
        "spec": {"suspend": suspend},
        "status": {"conditions": list(conditions)},
    }


def word(reason: str, retryable: bool = False) -> str:
    return json.dumps({"reason": reason, "message": "said so", "retryable": retryable})


def a_pod(phase: str = "Pending", created: str = CREATED, **status: Any) -> Any:
    return {"metadata": {"name": "p", "creationTimestamp": created}, "status": {"phase": phase} | status}


def ended(code: int, message: str = "", reason: str = "Error", *, last: bool = False, **more: Any) -> Any:
    terminated = {"terminated": {"exitCode": code, "message": message, "reason": reason}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    states = {"state": waiting, "lastState": terminated} if last else {"state": terminated}
    return a_pod("Running" if last else "Failed", containerStatuses=[{"name": "c", "image": "b:1"} | states], **more)


def converting(*containers: dict[str, Any], phase: str = "Pending") -> Any:
    """A pod whose init containers are at work, or ended: its own container waits for them."""
    waiting = {"name": "builder", "image": "b:1", "state": {"waiting": {"reason": "PodInitializing"}}}
    found = [{"name": f"init-{number}", "image": "c:1"} | item for number, item in enumerate(containers)]
    return a_pod(phase, initContainerStatuses=found, containerStatuses=[waiting])


OUT_OF_MEMORY = "the container ran out of memory; raise the installation's config.jobs.memoryLimit"
FETCHED = {"state": {"terminated": {"exitCode": 0, "reason": "Completed", "message": word("Preparing")}}}


def stuck(reason: str, message: str = "why") -> Any:
    waiting = {"waiting": {"reason": reason, "message": message}}
    return a_pod(containerStatuses=[{"name": "c", "image": "b:1", "state": waiting}])


def unscheduled(message: str) -> Any:
    return a_pod(conditions=[{"type": "PodScheduled", "status": "False", "message": message}])


FAILED = condition("Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit")
DEADLINE = condition("Failed", reason="DeadlineExceeded", message="Job was active longer than specified deadline")

JOBS: dict[str, tuple[Any, list[Any], str, Trouble | None, int | None]] = {
    "no pod yet": (a_job(), [], "Waiting", None, None),
    "a pod that is being created": (a_job(), [stuck("ContainerCreating")], "Waiting", None, None),
    "a pod at work": (a_job(), [a_pod("Running")], "Running", None, None),
    "the latest pod counts": (a_job(), [a_pod("Failed"), a_pod("Running", LATER)], "Running", None, None),
    "an image that cannot be pulled": (
        a_job(), [stuck("ImagePullBackOff", "not found")], "Waiting",
        Trouble(Reason.IMAGE_PULL_FAILED, "image b:1: not found", passing=True), None),
    "an image name that is none": (
        a_job(), [stuck("InvalidImageName")], "Waiting",
        Trouble(Reason.IMAGE_PULL_FAILED, "image b:1: why", passing=True), None),
    "an image that is never pulled": (
        a_job(), [stuck("ErrImageNeverPull", "")], "Waiting",
        Trouble(Reason.IMAGE_PULL_FAILED, "image b:1: ErrImageNeverPull", passing=True), None),
    "a Secret key that is missing": (
        a_job(), [stuck("CreateContainerConfigError", "couldn't find key x")], "Waiting",
        Trouble(Reason.CONFIG_ERROR, "couldn't find key x", passing=True), None),
    "a container that cannot be created": (
        a_job(), [stuck("CreateContainerError")], "Waiting", Trouble(Reason.CONFIG_ERROR, "why", passing=True), None),
    "no node with room": (
        a_job(), [unscheduled("0/3 nodes are available: 3 Insufficient cpu.")], "Waiting",
        Trouble(Reason.UNSCHEDULABLE, "0/3 nodes are available: 3 Insufficient cpu.", passing=True), None),
    "no free slice": (
        a_job(), [unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/mig-1g.10gb.")], "Waiting",
        Trouble(Reason.WAITING_FOR_SLICE, "0/3 nodes are available: 3 Insufficient nvidia.com/mig-1g.10gb.",
                passing=True), None),
    "a queue that holds it": (
        a_job(suspend=True), [], "Waiting", Trouble(Reason.QUEUED, "a queue holds the Job", passing=True), None),
    "one that we suspended": (
        a_job(condition("Suspended"), suspend=True, annotations={SUSPENDED_FOR: "ImagePullFailed: image b:1: no"}),
        [], "Suspended", Trouble(Reason.IMAGE_PULL_FAILED, "image b:1: no", passing=True), None),
    "an annotation that is not ours": (
        a_job(condition("Suspended"), suspend=True, annotations={SUSPENDED_FOR: "whatever"}),
        [], "Suspended", Trouble(Reason.CONFIG_ERROR, "", passing=True), None),
    "one that succeeded": (a_job(condition("Complete")), [a_pod("Succeeded")], "Succeeded", None, None),
    "a condition that is false says nothing": (
        a_job(condition("Failed", "False")), [a_pod("Running")], "Running", None, None),
    "our final word": (
        a_job(FAILED), [ended(17, word("UnsupportedOperator"))], "Failed",
        Trouble(Reason.UNSUPPORTED_OPERATOR, "said so"), 17),
    "our passing word": (
        a_job(FAILED), [ended(50, word("StoreUnavailable", True))], "Failed",
        Trouble(Reason.STORE_UNAVAILABLE, "said so", passing=True), 50),
    "the word of the latest pod": (
        a_job(FAILED), [ended(50, word("StoreUnavailable", True)),
                        ended(17, word("UnsupportedOperator")) | {"metadata": {"creationTimestamp": LATER}}],
        "Failed", Trouble(Reason.UNSUPPORTED_OPERATOR, "said so"), 17),
    "somebody else's words": (
        a_job(FAILED), [ended(1, "Traceback: AWS_SECRET_ACCESS_KEY=hunter2")], "Failed",
        Trouble(Reason.BUILD_FAILED, "the Job failed: exit code 1", passing=True), 1),
    "JSON that is not our document": (
        a_job(FAILED), [ended(1, '{"reason": "Bogus", "message": "x", "retryable": false}')], "Failed",
        Trouble(Reason.BUILD_FAILED, "the Job failed: exit code 1", passing=True), 1),
    "out of memory": (
        a_job(FAILED), [ended(137, "", "OOMKilled")], "Failed",
        Trouble(Reason.BUILD_OUT_OF_MEMORY, OUT_OF_MEMORY), 137),
    "killed without a word": (
        a_job(FAILED), [ended(137)], "Failed",
        Trouble(Reason.BUILD_FAILED, "the Job failed: exit code 137", passing=True), 137),
    "beyond the Job's deadline": (
        a_job(DEADLINE), [], "Failed",
        Trouble(Reason.BUILD_TIMEOUT, "the Job ran longer than its deadline; raise spec.build.timeoutSeconds"), None),
    "beyond the pod's deadline": (
        a_job(FAILED), [ended(143, reason="Error") | {"status": {
            "phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active too long"}}], "Failed",
        Trouble(Reason.BUILD_TIMEOUT, "the Job ran longer than its deadline; raise spec.build.timeoutSeconds"), None),
    "a word goes before a deadline": (
        a_job(DEADLINE), [ended(26, word("BuildTimeout"))], "Failed", Trouble(Reason.BUILD_TIMEOUT, "said so"), 26),
    "a converter at work": (
        a_job(), [converting(FETCHED, {"state": {"running": {}}})], "Waiting", None, None),
    "a converter whose image cannot be pulled": (
        a_job(), [converting(FETCHED, {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}})],
        "Waiting", Trouble(Reason.IMAGE_PULL_FAILED, "image c:1: no such tag", passing=True), None),
    "a fetch that ended with a final word": (
        a_job(FAILED), [converting(
            {"state": {"terminated": {"exitCode": 13, "message": word("SourceNotFound")}}}, phase="Failed")],
        "Failed", Trouble(Reason.SOURCE_NOT_FOUND, "said so"), 13),
    "a converter out of memory": (
        a_job(FAILED), [converting(
            FETCHED, {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}, phase="Failed")],
        "Failed", Trouble(Reason.BUILD_OUT_OF_MEMORY, OUT_OF_MEMORY), 137),
    "after a conversion the builder's own word counts": (
        a_job(FAILED), [ended(30, word("CalibrationDataInvalid"), initContainerStatuses=[
            {"name": "fetch", "image": "b:1"} | FETCHED])],
        "Failed", Trouble(Reason.CALIBRATION_DATA_INVALID, "said so"), 30),
    "pods that are gone": (
        a_job(FAILED), [], "Failed",
        Trouble(Reason.BUILD_FAILED, "the Job failed: Job has reached the specified backoff limit", passing=True),
        None),
}  # fmt: skip


@pytest.mark.parametrize("sentence", JOBS)
def test_a_job_is_read_for_what_it_is(sentence: str) -> None:
    job, pods, state, trouble, code = JOBS[sentence]
    found = job_seen(job, pods, stage_failure=Reason.BUILD_FAILED)
    assert (found.state, found.trouble, found.exit_code) == (state, trouble, code)
    assert found.attempt == 2
    assert found.created_at == datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    over = state in {"Failed", "Succeeded", "Suspended"}
    assert found.finished_at == (datetime(2026, 3, 1, 12, 5, tzinfo=UTC) if over else None)


@pytest.mark.parametrize("text", ["", "-1", "0", "x", "1.5", "9" * 63, "\u00b2"])
def test_an_attempt_that_nobody_of_ours_wrote_is_the_first(text: str) -> None:
    """A pause of two to the power of it would be computed."""
    job = a_job(FAILED)
    job["metadata"]["labels"][labels.ATTEMPT] = text
    assert job_seen(job, [], stage_failure=Reason.BUILD_FAILED).attempt == 1


def test_a_waiting_job_tells_since_when_its_latest_pod_waits() -> None:
    found = job_seen(a_job(), [a_pod("Failed"), a_pod(created=LATER)], stage_failure=Reason.BUILD_FAILED)
    assert (found.state, found.waiting_since) == ("Waiting", datetime(2026, 3, 1, 12, 5, tzinfo=UTC))


def test_a_prepare_job_that_took_too_long_names_the_installations_bound() -> None:
    found = job_seen(a_job(DEADLINE), [], stage_failure=Reason.CONVERSION_FAILED)
    assert found.trouble is not None
    assert found.trouble.message.endswith("raise the installation's config.jobs.prepareTimeoutSeconds")


def test_what_earlier_containers_took_is_no_time_that_the_next_one_waited() -> None:
    """A long download, and then a registry that hiccups, is no reason to give the place back at once."""
    pod = a_pod()
    ended = {"exitCode": 0, "finishedAt": "2026-03-01T12:20:00Z"}
    pod["status"]["initContainerStatuses"] = [
        {"name": "fetch", "state": {"terminated": ended}},
        {"name": "convert", "image": "c:1", "state": {"waiting": {"reason": "ErrImagePull"}}},
    ]
    found = job_seen(a_job(), [pod], stage_failure=Reason.BUILD_FAILED)
    assert found.waiting_since == datetime(2026, 3, 1, 12, 20, tzinfo=UTC)
    assert found.trouble is not None
    assert found.trouble.reason is Reason.IMAGE_PULL_FAILED


def test_no_foreign_text_reaches_the_tenant() -> None:
    job, pods, *_ = JOBS["somebody else's words"]
    found = job_seen(job, pods, stage_failure=Reason.BUILD_FAILED)
    assert found.trouble is not None
    assert "hunter2" not in found.trouble.message


def test_a_suspension_that_is_not_recorded_yet_has_no_time() -> None:
    found = job_seen(
        a_job(suspend=True, annotations={SUSPENDED_FOR: "ConfigError: x"}), [], stage_failure=Reason.BUILD_FAILED
    )
    assert (found.state, found.finished_at) == ("Suspended", None)


def a_deployment(*conditions: dict[str, str], observed: int = 3, **status: int) -> Any:
    return {
        "metadata": {"name": "m-12345678", "generation": 3},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": observed, "conditions": list(conditions)} | status,
    }


READY = [{"type": "Ready", "status": "True"}]
UNREADY = [{"type": "Ready", "status": "False"}]


def lost(pod: Any) -> Any:
    """Called unready without its kubelet, whose last word on the container stands."""
    for container in pod["status"]["containerStatuses"]:
        container["ready"] = True
    return pod


REVISIONS: dict[str, tuple[Any, list[Any], Trouble | None]] = {
    "all is well": (a_deployment(readyReplicas=2), [a_pod("Running", conditions=READY)], None),
    "a pod that restarted once and is ready": (
        a_deployment(), [ended(1, last=True, conditions=READY)], None),
    "a crash loop with our word": (
        a_deployment(), [ended(33, word("EngineDeviceMismatch"), last=True)],
        Trouble(Reason.ENGINE_DEVICE_MISMATCH, "said so")),
    "a crash loop with foreign text": (
        a_deployment(), [ended(1, "Traceback ... secret", last=True)],
        Trouble(Reason.CRASH_LOOPING, "the runtime ended with exit code 1 (Error)")),
    "a crash loop out of memory": (
        a_deployment(), [ended(137, "", "OOMKilled", last=True)],
        Trouble(Reason.CRASH_LOOPING, "the runtime ran out of memory (OOMKilled); raise spec.serving.resources")),
    "a lost node is not what ended the container long before": (
        a_deployment(), [lost(ended(1, word("AccessDenied"), last=True, conditions=UNREADY))],
        Trouble(Reason.NO_REPLICAS, "the node of a replica does not answer", passing=True)),
    "a pod that ended well is no trouble": (a_deployment(), [ended(0, "", "Completed", last=True)], None),
    "an image that cannot be pulled": (
        a_deployment(), [stuck("ErrImagePull")],
        Trouble(Reason.IMAGE_PULL_FAILED, "image b:1: why", passing=True)),
    "no free slice": (
        a_deployment(), [unscheduled("1 Insufficient nvidia.com/gpu")],
        Trouble(Reason.WAITING_FOR_SLICE, "1 Insufficient nvidia.com/gpu", passing=True)),
    "a quota that refuses the pods": (
        a_deployment(condition("ReplicaFailure", message='pods "x" is forbidden: exceeded quota: q')), [],
        Trouble(Reason.QUOTA_EXCEEDED, 'pods "x" is forbidden: exceeded quota: q', passing=True)),
    "a policy that refuses the pods": (
        a_deployment(condition("ReplicaFailure", message="violates PodSecurity")), [],
        Trouble(Reason.CONFIG_ERROR, "violates PodSecurity", passing=True)),
    "an old pod that is going is no trouble": (
        a_deployment(), [ended(1, last=True) | {"metadata": {"creationTimestamp": CREATED,
                                                            "deletionTimestamp": LATER}}], None),
    "the newest pod speaks first": (
        a_deployment(), [ended(1, last=True), stuck("ErrImagePull") | {"metadata": {"creationTimestamp": LATER}}],
        Trouble(Reason.IMAGE_PULL_FAILED, "image b:1: why", passing=True)),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REVISIONS)
def test_a_revision_says_what_keeps_it_from_being_ready(sentence: str) -> None:
    deployment, pods, want = REVISIONS[sentence]
    assert revision_seen(deployment, pods).trouble == want


def test_a_revisions_counts_are_those_of_its_controller() -> None:
    exceeded = condition("Progressing", "False", reason="ProgressDeadlineExceeded")
    found = revision_seen(a_deployment(exceeded, readyReplicas=1, updatedReplicas=2, replicas=3), [])
    assert (found.revision, found.desired, found.ready, found.updated, found.replicas) == ("m-12345678", 2, 1, 2, 3)
    assert found.current
    assert found.deadline_exceeded
    assert not revision_seen(a_deployment(observed=2), []).current
