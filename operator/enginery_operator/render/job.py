"""Builder Jobs: one `prepare` per request, one `build` per target. Pure; called by `reconcile`."""

from collections.abc import Sequence
from typing import Any

from enginery_store.requests import FINAL_EXIT_CODES, PrecisionRef

from enginery_operator import keys
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.backends import RTX, RTX_BUILDER, backend_of, builder_image
from enginery_operator.decide.seen import EngineSeen
from enginery_operator.render import conversion, documents, labels, pod
from enginery_operator.settings import Settings
from enginery_operator.targets import Offer

CONTAINER = "builder"
"""Name of the container that does a Job's own work; those that convert come before it."""

DEADLINE_MARGIN_SECONDS = 600
"""Each container ends itself at its timeout; the kubelet ends a pod that did not, so much later. The pod's clock runs
from the node's acceptance, so pulling the image comes out of this margin and never out of the build's time."""


def prepare_job(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    key: str,
    precision: PrecisionRef,
    attempt: int,
    revision: str,
    fingerprint: str,
) -> dict[str, Any]:
    """The Job that fetches, converts, checks, calibrates and publishes the prepared model; any node will do."""
    order = documents.prepare_request(
        model, tenant, settings, key=key, precision=precision, revision=revision, fingerprint=fingerprint
    )
    request = order.model_dump_json(by_alias=True)
    resources = _resources(settings, [])
    own = _builder_container(model, settings.images.builder, settings, request, resources, stage="prepare")
    earlier, more_volumes = conversion.containers(model, settings, own, request)
    return _job(
        model,
        tenant,
        settings,
        stage="prepare",
        key=key,
        attempt=attempt,
        revision=revision,
        containers=[*earlier, own],
        volumes=more_volumes,
        deadline_seconds=order.timeout_seconds * (1 + len(earlier)) + DEADLINE_MARGIN_SECONDS,
        offers=[],
    )


def build_job(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    engine: EngineSeen,
    prepared: str,
    precision: PrecisionRef,
    attempt: int,
    revision: str,
) -> dict[str, Any]:
    """The Job that compiles for one target: on a device of that kind, taken whole, or ahead of time on a CPU."""
    order = documents.build_request(
        model, tenant, settings, engine=engine, prepared=prepared, precision=precision, revision=revision
    )
    backend = backend_of(model)
    offers = [RTX_BUILDER if backend == RTX else engine.offer]
    image, request = builder_image(backend, settings.images), order.model_dump_json(by_alias=True)
    return _job(
        model,
        tenant,
        settings,
        stage="build",
        key=engine.key,
        attempt=attempt,
        revision=revision,
        containers=[_builder_container(model, image, settings, request, _resources(settings, offers), stage="build")],
        volumes=[],
        deadline_seconds=order.timeout_seconds + DEADLINE_MARGIN_SECONDS,
        offers=offers,
    )


def _builder_container(
    model: InferenceModel,
    image: str,
    settings: Settings,
    request: str,
    resources: dict[str, Any],
    *,
    stage: str,
) -> dict[str, Any]:
    """The builder with the store's credentials and, where the model names a Secret, the source's."""
    found = pod.container(CONTAINER, image, settings, request) | {"args": [stage], "resources": resources}
    if model.spec.source.credentials_secret_ref is not None:
        found["volumeMounts"].append(pod.SOURCE_MOUNT)
    return found


def _job(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    stage: str,
    key: str,
    attempt: int,
    revision: str,
    containers: Sequence[dict[str, Any]],
    volumes: list[dict[str, Any]],
    deadline_seconds: int,
    offers: list[Offer],
) -> dict[str, Any]:
    """The containers run one after another; the last one does the Job's own work."""
    own = labels.labels(model, tenant, stage, revision) | {
        labels.KEY: key[: labels.KEY_LENGTH],
        labels.ATTEMPT: str(attempt),
    }
    volumes = [*pod.volumes(tenant.spec.store.builder_secret_name, settings.jobs.work_limit), *volumes]
    if (secret := model.spec.source.credentials_secret_ref) is not None:
        volumes.append(pod.source_volume(secret.name))
    *earlier, last = containers
    spec = pod.pod_spec(tenant, settings, last, volumes) | {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": deadline_seconds,
        "terminationGracePeriodSeconds": 10,
    }
    if earlier:
        spec["initContainers"] = earlier
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
            "podFailurePolicy": _failure_policy([container["name"] for container in containers]),
            "template": {"metadata": {"labels": own}, "spec": spec},
        },
    }


def _failure_policy(names: list[str]) -> dict[str, Any]:
    """Disruptions do not count; our final codes fail the Job at once; everything else counts against backoffLimit.

    A rule names its container, as the codes of one that somebody injects mean something else.
    """
    return {
        "rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            *(
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": name, "operator": "In", "values": FINAL_EXIT_CODES},
                }
                for name in names
            ),
        ]
    }


def _resources(settings: Settings, offers: list[Offer]) -> dict[str, Any]:
    jobs = settings.jobs
    device = pod.slice_of(offers) if offers else {}
    return {
        "requests": {"cpu": jobs.cpu_request, "memory": jobs.memory_request} | device,
        "limits": {"cpu": jobs.cpu_limit, "memory": jobs.memory_limit} | device,
    }
