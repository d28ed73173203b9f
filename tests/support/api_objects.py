"""InferenceModels and Tenants as the API server returns them, built fluently: a test states only what matters to it.

    a_model().with_mig("1g.10gb").build()          parsed, with the schema's defaults

Everything is frozen or copied, so that builders may be shared.
"""

import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml
from enginery_operator.api.v1alpha1 import API_VERSION, InferenceModel, Tenant

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
"""The moment every pass of a test happens at."""

_CRDS = Path(__file__).parents[2] / "crds"


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class AnObject:
    """A custom resource's body, changed by copies."""

    data: dict[str, Any]

    def having(self, path: str, value: Any) -> Self:
        """With `value` at a dotted path; None removes it."""
        data = copy.deepcopy(self.data)
        *folders, last = path.split(".")
        here = data
        for name in folders:
            here = here.setdefault(name, {})
        if value is None:
            here.pop(last, None)
        else:
            here[last] = copy.deepcopy(value)
        return replace(self, data=data)

    def body(self) -> dict[str, Any]:
        """The object as YAML would hold it."""
        return copy.deepcopy(self.data)


@dataclass(frozen=True)
class AModel(AnObject):
    """An InferenceModel; the smallest valid one to begin with."""

    def named(self, name: str, namespace: str = "team-a") -> "AModel":
        return self.having("metadata.name", name).having("metadata.namespace", namespace)

    def with_gpu(self) -> "AModel":
        return self.having("spec.accelerator", {"mode": "GPU"})

    def with_mig(self, profile: str) -> "AModel":
        return self.having("spec.accelerator", {"mode": "MIG", "profile": profile})

    def with_replicas(self, replicas: int) -> "AModel":
        return self.having("spec.serving.replicas", replicas)

    def with_gate(self, tolerated: str = "0.010") -> "AModel":
        gate = {"uri": "s3://models/team-a/evaluation/", "metric": "Top1", "maxDegradation": tolerated}
        return self.having("spec.precision.accuracyGate", gate)

    def with_profile(self, name: str = "default", *, batch: int = 8) -> "AModel":
        ranges = {"name": "x", "min": [1, 4], "opt": [min(4, batch), 4], "max": [batch, 4]}
        return self.having("spec.shapes.profiles", [{"name": name, "inputs": [ranges]}])

    def stopped(self) -> "AModel":
        return self.having("spec.state", "Stopped")

    def with_status(self, status: dict[str, Any]) -> "AModel":
        return self.having("status", status)

    def build(self) -> InferenceModel:
        return InferenceModel.model_validate(defaulted(self.data, "inferencemodels"))


@dataclass(frozen=True)
class ATenant(AnObject):
    """A Tenant that owns namespace team-a."""

    def build(self) -> Tenant:
        return Tenant.model_validate(defaulted(self.data, "tenants"))


def a_model() -> AModel:
    return AModel(
        {
            "apiVersion": API_VERSION,
            "kind": "InferenceModel",
            "metadata": {"name": "resnet50", "namespace": "team-a", "uid": "model-uid", "generation": 3},
            "spec": {
                "source": {"format": "ONNX", "uri": "s3://models/team-a/resnet50/model.onnx"},
                "accelerator": {"mode": "CPU"},
            },
        }
    )


def a_tenant(name: str = "team-a", *namespaces: str) -> ATenant:
    return ATenant(
        {
            "apiVersion": API_VERSION,
            "kind": "Tenant",
            "metadata": {
                "name": name,
                "uid": f"{name}-uid",
                "generation": 1,
                "resourceVersion": "1",
                "creationTimestamp": stamp(ago(86_400)),
            },
            "spec": {
                "namespaces": {"names": list(namespaces) or [name]},
                "store": {"prefix": f"s3://enginery/tenants/{name}/"},
            },
        }
    )


def defaulted(body: dict[str, Any], plural: str) -> dict[str, Any]:
    """The body with the schema's defaults, as the API server fills them in."""
    filled = copy.deepcopy(body)
    _fill(filled, schema_of(plural))
    return filled


@cache
def schema_of(plural: str) -> dict[str, Any]:
    """The OpenAPI schema of a kind, as committed."""
    crd = yaml.safe_load((_CRDS / f"{plural}.yaml").read_text())
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _fill(value: Any, schema: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name not in value and "default" in inner:
                value[name] = copy.deepcopy(inner["default"])
            if name in value:
                _fill(value[name], inner)
    elif isinstance(value, list):
        for item in value:
            _fill(item, schema.get("items", {}))
