"""Labels, names of labels and owner references of every child. Pure; called by the other renderers and `observe`."""

from collections.abc import Mapping
from typing import Any

from enginery_operator.api.v1alpha1 import API_VERSION, InferenceModel, Tenant

MODEL = "enginery.io/model"
REVISION = "enginery.io/revision"
TENANT = "enginery.io/tenant"
KEY = "enginery.io/key"
ATTEMPT = "enginery.io/attempt"
COMPONENT = "app.kubernetes.io/component"

KEY_LENGTH = 40
"""Hex digits of a request or engine key in a label, whose value may have 63 characters."""


def labels(model: InferenceModel, tenant: Tenant, component: str, revision: str) -> dict[str, str]:
    """Labels of a child: who it is for, what it is, and that Enginery manages it."""
    return {
        MODEL: model.name,
        REVISION: revision,
        TENANT: tenant.name,
        "app.kubernetes.io/name": model.name,
        COMPONENT: component,
        "app.kubernetes.io/managed-by": "enginery",
    }


def selector(model: InferenceModel, revision: str) -> dict[str, str]:
    """What selects the replicas of a revision; a selector never changes, so it holds nothing that may."""
    return {MODEL: model.name, REVISION: revision, COMPONENT: "runtime"}


def metadata(model: InferenceModel, name: str, own: dict[str, str]) -> dict[str, Any]:
    """Metadata of a child: it goes with its model."""
    return {
        "name": name,
        "namespace": model.namespace,
        "labels": own,
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": model.KIND,
                "name": model.name,
                "uid": model.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }


def work(job: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a builder Job does, for whichever model of its tenant: tenant, key and attempt."""
    marks = job["metadata"]["labels"]
    return marks.get(TENANT, ""), marks.get(KEY, ""), marks.get(ATTEMPT, "")
