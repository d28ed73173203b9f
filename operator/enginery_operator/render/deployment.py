"""The runtime Deployment of one revision. Pure; called by `reconcile`.

What changes the pod template rolls the pods: the engines, the runtime image, batching, warm-up, resources, placement.
What does not: replicas, labels of the model, the Tenant's quota, the operator's image, its log level.
"""

import math
from typing import Any

from enginery_operator.api.quantity import quantity
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.backends import backend_of, runtime_image
from enginery_operator.decide.seen import EngineSeen
from enginery_operator.render import documents, labels, pod
from enginery_operator.settings import Settings

PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
"""Names and numbers of the runtime's ports, as Triton has them."""

GRACE_SECONDS = 90
"""Time from SIGTERM to SIGKILL: the drain delay, then what was accepted, both within it."""

_DEFAULT_REQUESTS = {"cpu": "1", "memory": "1Gi"}


def deployment(
    model: InferenceModel,
    tenant: Tenant,
    settings: Settings,
    *,
    engines: tuple[EngineSeen, ...],
    revision: str,
    replicas: int,
) -> dict[str, Any]:
    """The Deployment that serves a revision on devices of its engines' kinds."""
    requests, limits = _resources(model)
    offers = [engine.offer for engine in engines]
    request = documents.serve_request(
        model, tenant, settings, engines=engines, revision=revision, threads=_threads(requests["cpu"])
    )
    image = runtime_image(backend_of(model), settings.images)
    container = pod.container("runtime", image, settings, request.model_dump_json(by_alias=True)) | {
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
        "resources": {
            "requests": requests | pod.slice_of(offers),
            "limits": limits | pod.slice_of(offers),
        },
        "startupProbe": _probe("live", period=1, failures=120),
        "livenessProbe": _probe("live", period=10, failures=6),
        "readinessProbe": _probe("ready", period=2, failures=2),
    }
    own = labels.labels(model, tenant, "runtime", revision)
    spec = pod.pod_spec(tenant, settings, container, pod.volumes(tenant.spec.store.runtime_secret_name, None))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": labels.metadata(model, revision, own),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels.selector(model, revision)},
            "progressDeadlineSeconds": model.spec.rollout.progress_deadline_seconds,
            "revisionHistoryLimit": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {
                "metadata": {"labels": own},
                "spec": spec | {"affinity": pod.node_affinity(offers), "terminationGracePeriodSeconds": GRACE_SECONDS},
            },
        },
    }


def _probe(endpoint: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": f"/v2/health/{endpoint}", "port": "http"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 2,
    }


def _resources(model: InferenceModel) -> tuple[dict[str, str], dict[str, str]]:
    """Requests and limits: memory is limited to its request, as a replica over it would take from its neighbours.

    A default request gives way to a lower limit that the tenant wrote: the API server refuses a request above one.
    """
    given = model.spec.serving.resources
    limits = dict((given.limits if given else None) or {})
    defaults = {name: min(value, limits.get(name, value), key=quantity) for name, value in _DEFAULT_REQUESTS.items()}
    requests = defaults | dict((given.requests if given else None) or {})
    return requests, {"memory": requests["memory"]} | limits


def _threads(cpu: str) -> int:
    return max(1, math.ceil(quantity(cpu)))
