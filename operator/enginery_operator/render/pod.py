"""What builder and runtime pods share: restricted security, no token, credentials as files, placement. Pure."""

from typing import Any

from enginery_store.requests import REQUEST_VARIABLE, SOURCE_CREDENTIALS_FOLDER, STORE_CREDENTIALS_FOLDER

from enginery_operator.api.v1alpha1 import Tenant
from enginery_operator.settings import Settings
from enginery_operator.targets import Offer

WORK_FOLDER = "/var/lib/enginery"
"""Where both programs put models and engines; an emptyDir."""

USER_ID = 65532
"""Non-root user of our images."""


def pod_spec(tenant: Tenant, settings: Settings, container: dict[str, Any], volumes: list[dict[str, Any]]) -> Any:
    """A pod spec around one container, as the restricted pod security standard demands."""
    scheduling = tenant.spec.scheduling
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    if settings.images.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in settings.images.pull_secrets]
    if scheduling.priority_class_name:
        spec["priorityClassName"] = scheduling.priority_class_name
    if scheduling.node_selector:
        spec["nodeSelector"] = dict(scheduling.node_selector)
    if scheduling.tolerations:
        spec["tolerations"] = [item.model_dump(by_alias=True, exclude_none=True) for item in scheduling.tolerations]
    return spec


def container(name: str, image: str, settings: Settings, request: str) -> dict[str, Any]:
    """A container that reads its request from the environment and may write only to its work folder."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": settings.images.pull_policy,
        "env": [{"name": REQUEST_VARIABLE, "value": request}, {"name": "ENGINERY_LOG_LEVEL", "value": "INFO"}],
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "work", "mountPath": WORK_FOLDER},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
            {"name": "store", "mountPath": str(STORE_CREDENTIALS_FOLDER), "readOnly": True},
        ],
    }


def volumes(secret: str, work_limit: str | None) -> list[dict[str, Any]]:
    """Work folder and store credentials. The Secret is optional for the kubelet, so that its absence becomes an error
    of the program, in words, and not a pod that never starts.
    """
    work: dict[str, Any] = {"sizeLimit": work_limit} if work_limit else {}
    return [
        {"name": "work", "emptyDir": work},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "store", "secret": {"secretName": secret, "optional": True, "defaultMode": 0o440}},
    ]


def source_volume(secret: str) -> dict[str, Any]:
    """Volume of spec.source.credentialsSecretRef."""
    return {"name": "source", "secret": {"secretName": secret, "optional": True, "defaultMode": 0o440}}


SOURCE_MOUNT = {"name": "source", "mountPath": str(SOURCE_CREDENTIALS_FOLDER), "readOnly": True}
"""Where a container finds it."""


def node_affinity(offers: list[Offer]) -> dict[str, Any]:
    """Affinity for the nodes that carry one of these targets: terms are alternatives."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in offer.node_labels]}
        for offer in offers
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [term for index, term in enumerate(terms) if term not in terms[:index]]
            }
        }
    }


def slice_of(offers: list[Offer]) -> dict[str, str]:
    """The extended resource of one slice; nothing for a CPU. Request and limit are equal for extended resources."""
    resource = offers[0].resource
    return {} if resource == "cpu" else {resource: "1"}
