"""Builder Jobs: one `prepare` per request, one `build` per target. Pure; called by `reconcile`."""

from typing import Any

from enginery_store.requests import FINAL_EXIT_CODES

from enginery_operator import keys
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.decide.seen import EngineSeen
from enginery_operator.render import documents, labels, pod
from enginery_operator.settings import Settings
from enginery_operator.targets import Offer

CONTAINER = "builder"
"""Name of the one container of a builder pod."""

DEADLINE_MARGIN_SECONDS = 600
"""The builder ends itself at its timeout; the kubelet ends a pod that did not, so much later. The pod's clock runs
from the node's acceptance, so pulling the image comes out of this margin and never out of the build's time."""


def prepare_job(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    key: str,
    attempt: int,
    revision: str,
    fingerprint: str,
) -> dict[str, Any]:
    """The Job that fetches, checks and publishes the prepared model; any node will do."""
    request = documents.prepare_request(model, tenant, settings, key=key, revision=revision, fingerprint=fingerprint)
    return _job(
        model,
        tenant,
        settings,
        stage="prepare",
        key=key,
        attempt=attempt,
        revision=revision,
        request=request.model_dump_json(by_alias=True),
        timeout_seconds=request.timeout_seconds,
        offers=[],
    )


def build_job(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    engine: EngineSeen,
    prepared: str,
    attempt: int,
    revision: str,
) -> dict[str, Any]:
    """The Job that compiles for one target, on a device of that kind, which it takes whole."""
    request = documents.build_request(model, tenant, settings, engine=engine, prepared=prepared, revision=revision)
    return _job(
        model,
        tenant,
        settings,
        stage="build",
        key=engine.key,
        attempt=attempt,
        revision=revision,
        request=request.model_dump_json(by_alias=True),
        timeout_seconds=request.timeout_seconds,
        offers=[engine.offer],
    )


def _job(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    stage: str,
    key: str,
    attempt: int,
    revision: str,
    request: str,
    timeout_seconds: int,
    offers: list[Offer],
) -> dict[str, Any]:
    own = labels.labels(model, tenant, stage, revision) | {
        labels.KEY: key[: labels.KEY_LENGTH],
        labels.ATTEMPT: str(attempt),
    }
    container = pod.container(CONTAINER, settings.images.builder, settings, request) | {
        "args": [stage],
        "resources": _resources(settings, offers),
    }
    volumes = pod.volumes(tenant.spec.store.builder_secret_name, settings.jobs.work_limit)
    if (secret := model.spec.source.credentials_secret_ref) is not None:
        volume, mount = pod.source_volume(secret.name)
        volumes.append(volume)
        container["volumeMounts"].append(mount)
    spec = pod.pod_spec(tenant, settings, container, volumes) | {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": timeout_seconds + DEADLINE_MARGIN_SECONDS,
        "terminationGracePeriodSeconds": 10,
    }
    if offers:
        spec["affinity"] = pod.node_affinity(offers)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": labels.metadata(model, keys.job_name(model, stage, key, attempt), own),
        "spec": {
            "backoffLimit": model.spec.build.backoff_limit,
            "completions": 1,
            "parallelism": 1,
            "ttlSecondsAfterFinished": settings.jobs.ttl_seconds,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": _failure_policy(),
            "template": {"metadata": {"labels": own}, "spec": spec},
        },
    }


def _failure_policy() -> dict[str, Any]:
    """Disruptions do not count; our final codes fail the Job at once; everything else counts against backoffLimit."""
    return {
        "rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {
                "action": "FailJob",
                "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": FINAL_EXIT_CODES},
            },
        ]
    }


def _resources(settings: Settings, offers: list[Offer]) -> dict[str, Any]:
    jobs = settings.jobs
    device = pod.slice_of(offers) if offers else {}
    return {
        "requests": {"cpu": jobs.cpu_request, "memory": jobs.memory_request} | device,
        "limits": {"cpu": jobs.cpu_limit, "memory": jobs.memory_limit} | device,
    }
