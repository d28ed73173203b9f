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
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "enginery"

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
        MANAGED_BY: MANAGER,
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


def is_of(obj: Mapping[str, Any], model: InferenceModel) -> bool:
    """Whether an object is the model's to change and remove: a label alone is a claim that people write for reasons of
    their own. One that nothing controls is what a model deleted with --cascade=orphan left; it is taken up again.
    """
    metadata = obj["metadata"]
    controller = next((item for item in metadata.get("ownerReferences", []) if item.get("controller")), None)
    if controller is None:
        marks = metadata.get("labels", {})
        return (marks.get(MANAGED_BY), marks.get(MODEL)) == (MANAGER, model.name)
    return bool(controller["uid"] == model.uid)


def why_not_of(kind: str, obj: Mapping[str, Any], model: InferenceModel) -> str | None:
    """Why an object under a name we would use is not the model's, and what to do; None when it is."""
    if is_of(obj, model):
        return None
    text = f"{kind} {obj['metadata']['name']} is there already and"
    owners = obj["metadata"].get("ownerReferences", [])
    if any((item.get("kind"), item.get("name")) == (model.KIND, model.name) for item in owners):
        return f"{text} of a deleted model of this name; continues by itself when it is gone"
    return f"{text} not of this model; delete it, or rename the model"


def revision(obj: Mapping[str, Any]) -> str:
    """Revision an object was made for."""
    return str(obj["metadata"]["labels"].get(REVISION, ""))


def component(obj: Mapping[str, Any]) -> str:
    """What an object is: prepare, build, runtime, service."""
    return str(obj["metadata"]["labels"].get(COMPONENT, ""))


def work(job: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a builder Job does, for whichever model of its tenant: tenant, key and attempt."""
    marks = job["metadata"]["labels"]
    return marks.get(TENANT, ""), marks.get(KEY, ""), marks.get(ATTEMPT, "")
