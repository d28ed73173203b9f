"""Fluent builders of what the operator's tests need: a test states only what matters to it.

    a_model().with_mig("1g.10gb").build()          an InferenceModel as the API server returns it, parsed
    an_observed(a_model().with_gate()).built().serving("next").build()
    a_node().with_mig("NVIDIA-H100-80GB-HBM3", {"1g.10gb": 7}).body()

Everything is frozen or copied, so that builders may be shared.
"""

import copy
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml
from enginery_operator import keys
from enginery_operator.api.v1alpha1 import API_VERSION, InferenceModel, Tenant
from enginery_operator.cache import Cache
from enginery_operator.decide import ladder
from enginery_operator.decide.seen import (
    Candidate,
    EngineSeen,
    JobSeen,
    Observed,
    RevisionSeen,
    SourceSeen,
    Trouble,
)
from enginery_operator.render import labels
from enginery_operator.settings import Converters, Images, Settings
from enginery_operator.targets import Offer, matching, offers
from enginery_store.manifest import (
    AccuracyRecord,
    BuildOptions,
    DeviceFacts,
    EngineManifest,
    LatencyRecord,
    StoredFile,
    Target,
    TensorSpec,
)
from enginery_store.reasons import Reason
from enginery_store.requests import Outcome

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
"""The moment every pass of a test happens at."""

DIGEST = f"sha256:{'d' * 64}"
FINGERPRINT = f"sha256:{'f' * 64}"
PREPARED = "b" * 64

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


IMAGES = Images(
    builder="enginery/builder:1",
    builder_tensorrt="enginery/builder-tensorrt:1",
    runtime="enginery/runtime:1",
    runtime_tensorrt="enginery/runtime-tensorrt:1",
    runtime_tensorrt_rtx="enginery/runtime-tensorrt-rtx:1",
    converters=Converters(tensorflow="enginery/converter-tensorflow:1", pytorch="enginery/converter-pytorch:1"),
)


def some_settings(**changes: Any) -> Settings:
    return Settings(
        namespace="enginery-system",
        images=IMAGES,
        **changes,
    )


@dataclass(frozen=True)
class ANode:
    """A node as the kubelet, GPU Feature Discovery and the device plugin leave it."""

    labels: dict[str, str] = field(default_factory=lambda: {"kubernetes.io/arch": "amd64"})
    allocatable: dict[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110"})
    ready: str = "True"
    unschedulable: bool = False
    name: str = "node-1"

    def labelled(self, **labels: str) -> "ANode":
        """Labels with dots and slashes are given as a dict through `label`."""
        return replace(self, labels=self.labels | labels)

    def label(self, key: str, value: str) -> "ANode":
        return replace(self, labels=self.labels | {key: value})

    def with_gpu(self, product: str, count: int = 1, *, capability: str = "9.0") -> "ANode":
        major, _, minor = capability.partition(".")
        node = self.label("nvidia.com/gpu.product", product).label("nvidia.com/gpu.compute.major", major)
        node = node.label("nvidia.com/gpu.compute.minor", minor)
        return replace(node, allocatable=node.allocatable | {"nvidia.com/gpu": str(count)})

    def with_mig(self, product: str, slices: dict[str, int], *, capability: str = "9.0") -> "ANode":
        """MIG strategy mixed: a resource per profile, named as the device plugin does."""
        node = self.with_gpu(product, 0, capability=capability)
        return replace(
            node, allocatable=node.allocatable | {f"nvidia.com/mig-{name}": str(n) for name, n in slices.items()}
        )

    def body(self) -> dict[str, Any]:
        return {
            "metadata": {"name": self.name, "labels": dict(self.labels)},
            "spec": {"unschedulable": True} if self.unschedulable else {},
            "status": {
                "allocatable": dict(self.allocatable),
                "conditions": [{"type": "Ready", "status": self.ready}],
            },
        }


def a_node() -> ANode:
    return ANode()


def some_offers(*nodes: ANode) -> tuple[Offer, ...]:
    return offers([node.body() for node in nodes or (a_node(),)])


H100 = a_node().with_mig("NVIDIA-H100-80GB-HBM3", {"1g.10gb": 7})
H200 = a_node().with_mig("NVIDIA-H200", {"1g.18gb": 4})
A10 = a_node().with_gpu("NVIDIA-A10", capability="8.6")
L40S = a_node().with_gpu("NVIDIA-L40S", capability="8.9")
A100 = a_node().with_mig("NVIDIA-A100-SXM4-80GB", {"1g.10gb": 2}, capability="8.0")


def a_manifest(target: Target, **changes: Any) -> EngineManifest:
    fields: dict[str, Any] = {
        "key": "e" * 64,
        "prepared_key": PREPARED,
        "source_digest": DIGEST,
        "target": target,
        "backend": "ONNXRuntime",
        "backend_version": "1.32.0",
        "file": StoredFile(name="model-1.onnx", sha256="a" * 64, size_bytes=1000),
        "inputs": [TensorSpec(name="x", datatype="FP32", shape=[-1, 4])],
        "outputs": [TensorSpec(name="y", datatype="FP32", shape=[-1, 2])],
        "profiles": [],
        "options": BuildOptions(),
        "precision_requested": "FP32",
        "precision_effective": "FP32",
        "accuracy": an_accuracy("0.0000"),
        "latency": [LatencyRecord(profile="default", batch=1, p50_microseconds=40, p99_microseconds=60,
                                  items_per_second="25000")],
        "device": DeviceFacts(name="cpu", architecture="amd64"),
        "device_memory_bytes": 5000,
        "build_seconds": 7,
        "builder_version": "0.1.0",
        "created_at": ago(60),
    }  # fmt: skip
    return EngineManifest(**(fields | changes))


def an_accuracy(degradation: str, measured: str = "0.9800") -> AccuracyRecord:
    return AccuracyRecord(
        metric="Top1",
        reference="0.9800",
        measured=measured,
        degradation=degradation,
        samples=1000,
        data_digest=f"sha256:{'a' * 64}",
    )


def an_outcome(reason: Reason = Reason.DIGEST_RECORDED, message: str = "", **changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "key": "1" * 64,
        "reason": reason,
        "message": message,
        "prepared_key": PREPARED,
        "source_digest": DIGEST,
        "source_size_bytes": 1000,
        "finished_at": ago(60),
    }
    return Outcome(**(fields | changes))


def a_job(state: str = "Running", **changes: Any) -> JobSeen:
    fields: dict[str, Any] = {
        "namespace": "team-a",
        "name": "resnet50-build-eeeeeeeeee",
        "attempt": 1,
        "state": state,
        "created_at": ago(30),
    }
    return JobSeen(**(fields | changes))


def a_revision(name: str, *, ready: int = 1, desired: int = 1, **changes: Any) -> RevisionSeen:
    fields: dict[str, Any] = {"updated": desired, "replicas": desired, "current": True}
    return RevisionSeen(revision=name, desired=desired, ready=ready, **(fields | changes))


CANDIDATE_FIELDS = frozenset(item.name for item in fields(Candidate))


@dataclass(frozen=True)
class AnObserved:
    """What a pass saw; step by step the life of a model: pinned, prepared, built, serving."""

    seen: Observed

    def having(self, **changes: Any) -> "AnObserved":
        """With other fields, of the pass or of its current candidate."""
        inner = {name: value for name, value in changes.items() if name in CANDIDATE_FIELDS}
        outer = {name: value for name, value in changes.items() if name not in CANDIDATE_FIELDS}
        current = replace(self.seen.current, **inner)
        return replace(self, seen=replace(self.seen, **{"current": current, "candidates": (current,)} | outer))

    def with_model(self, model: AModel) -> "AnObserved":
        parsed = model.build()
        offered = self.seen.offers
        wanted = matching(parsed.spec.accelerator, offered, parsed.spec.build.targets.products or ())
        return self.having(model=parsed, matching=wanted)

    def tried(self, *candidates: Candidate) -> "AnObserved":
        """Every candidate of precision Auto, as the ladder would go on from them."""
        return self.having(current=ladder.chosen(self.seen.model, candidates), candidates=candidates)

    def with_nodes(self, *nodes: ANode) -> "AnObserved":
        offered = some_offers(*nodes)
        wanted = matching(self.seen.model.spec.accelerator, offered)
        return self.having(offers=offered, matching=wanted)

    def with_tenant(self, tenant: ATenant | None) -> "AnObserved":
        return self.having(tenant=None if tenant is None else tenant.build())

    def unpinned(self, trouble: Trouble | None = None) -> "AnObserved":
        return self.having(source=SourceSeen(None, trouble=trouble), revision=None, request_key=None)

    def unlisted(self) -> "AnObserved":
        """The operator may not list the source."""
        source = SourceSeen("", pinned_at=ago(300))
        return self.having(source=source, revision=keys.revision_name(self.seen.model, ""))

    def prepared(self, reason: Reason = Reason.DIGEST_RECORDED, **outcome: Any) -> "AnObserved":
        waiting = tuple(EngineSeen(offer, "e" * 64) for offer in self.seen.matching)
        return self.having(outcome=an_outcome(reason, **outcome), engines=waiting)

    def refused(self, reason: Reason, message: str = "the file is no model", **changes: Any) -> "AnObserved":
        """The prepare request ended for good."""
        return self.having(outcome=an_outcome(reason, message, **changes), engines=())

    def built(self, **manifest: Any) -> "AnObserved":
        after = self if self.seen.outcome else self.prepared()
        return after.having(
            engines=tuple(
                replace(engine, manifest=a_manifest(engine.offer.target, **manifest), signed=True)
                for engine in after.seen.engines
            )
        )

    def engine(self, index: int = 0, **changes: Any) -> "AnObserved":
        """Change one engine."""
        found = list(self.seen.engines)
        found[index] = replace(found[index], **changes)
        return self.having(engines=tuple(found))

    def deployed(self, *, ready: int = 1, **changes: Any) -> "AnObserved":
        """The target revision has its Deployment."""
        revision = a_revision(str(self.seen.revision), ready=ready, desired=self.seen.replicas, **changes)
        others = tuple(item for item in self.seen.revisions if item.revision != revision.revision)
        return self.having(revisions=(*others, revision))

    def old_serves(self, *, ready: int = 1, **changes: Any) -> "AnObserved":
        """Another revision has a Deployment and the Service's selector."""
        old = a_revision("resnet50-01d01d01", ready=ready, **changes)
        return self.having(revisions=(*self.seen.revisions, old), serving=old.revision)

    def serves(self, *, ready: int | None = None, **changes: Any) -> "AnObserved":
        """The target revision is up and selected."""
        up = self.deployed(ready=self.seen.replicas if ready is None else ready, **changes)
        return up.having(serving=up.seen.revision)

    def remembering(self, **conditions: tuple[str, str]) -> "AnObserved":
        """The status before this pass: condition=(status, reason), for this generation."""
        before = [
            {
                "type": name,
                "status": status,
                "reason": reason,
                "message": "before",
                "observedGeneration": self.seen.model.generation,
                "lastTransitionTime": stamp(ago(3600)),
            }
            for name, (status, reason) in conditions.items()
        ]
        body = self.seen.model.model_dump(mode="json", by_alias=True, exclude_none=True)
        body["status"] = {"conditions": before}
        return self.having(model=InferenceModel.model_validate(body))

    def build(self) -> Observed:
        return self.seen


def an_observed(model: AModel | None = None, *nodes: ANode) -> AnObserved:
    """A model whose source is pinned and whose prepare request has not been answered."""
    parsed = (model or a_model()).build()
    offered = some_offers(*nodes)
    return AnObserved(
        Observed(
            model=parsed,
            now=NOW,
            tenant=a_tenant().build(),
            offers=offered,
            matching=matching(parsed.spec.accelerator, offered, parsed.spec.build.targets.products or ()),
            source=SourceSeen(FINGERPRINT, 1000, ago(300)),
            revision=keys.revision_name(parsed, FINGERPRINT),
            current=a_candidate(parsed),
            candidates=(a_candidate(parsed),),
        )
    )


def a_candidate(model: InferenceModel, precision: str | None = None, **changes: Any) -> Candidate:
    """A request that has not been answered: for the precision that comes first, or another."""
    wanted = precision or ladder.following(model, ()) or "FP32"
    return replace(Candidate(keys.precision_ref(model, wanted), request_key="1" * 64), **changes)


def a_cache(
    *,
    tenants: tuple[ATenant, ...] = (),
    namespaces: dict[str, dict[str, str]] | None = None,
    nodes: tuple[ANode, ...] = (),
    models: tuple[AModel, ...] = (),
    deployments: tuple[dict[str, Any], ...] = (),
    services: tuple[dict[str, Any], ...] = (),
) -> Cache:
    """A cache as kopf's indices would fill it."""
    cache = Cache()
    cache.bind(
        {
            "tenants": {item.data["metadata"]["name"]: [item.body()] for item in tenants},
            "namespaces": {
                name: [{"metadata": {"name": name, "labels": labels}}] for name, labels in (namespaces or {}).items()
            },
            "nodes": {node.name: [node.body()] for node in nodes},
            "models": {
                (item.data["metadata"]["namespace"], item.data["metadata"]["name"]): [item.body()] for item in models
            },
            "jobs": {},
            "pods": {},
            "deployments": _by_model(deployments),
            "services": _by_model(services),
        }
    )
    return cache


def _by_model(objects: tuple[dict[str, Any], ...]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for item in objects:
        metadata = item["metadata"]
        found.setdefault((metadata["namespace"], metadata["labels"][labels.MODEL]), []).append(item)
    return found
