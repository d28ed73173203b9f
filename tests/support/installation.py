"""The cluster around a model: settings and images, nodes and what they offer, and the watches' cache.

For example: a_node().with_mig("NVIDIA-H100-80GB-HBM3", {"1g.10gb": 7}).body().
"""

from dataclasses import dataclass, field, replace
from typing import Any

from enginery_operator.cache import Cache
from enginery_operator.render import labels
from enginery_operator.settings import Converters, Images, Settings
from enginery_operator.targets import Offer, offers
from support.api_objects import AModel, ATenant

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
