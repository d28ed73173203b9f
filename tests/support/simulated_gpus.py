"""GPU nodes that exist only in the API: labelled as GPU Feature Discovery does, and kept Ready. Called by e2e/.

A taint keeps every pod off them, so that nothing is ever scheduled where no kubelet is: what is built for such a GPU is
built elsewhere, and what would serve on it stays Pending.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from enginery_cluster.state import Cluster
from support.kube import Kube, Object

TAINT = {"key": "enginery.io/simulated", "value": "true", "effect": "NoSchedule"}

HEARTBEAT_SECONDS = 10.0
"""The node controller takes a node for lost after 40 s without a word of its kubelet."""


@contextmanager
def simulated_gpus(cluster: Cluster, gpus: Sequence[tuple[str, str]]) -> Iterator[None]:
    """One node with one GPU for each (product, compute capability)."""
    kube, over = Kube(cluster), threading.Event()
    names = [f"simulated-{product.lower()}" for product, _ in gpus]
    kube.apply(*(_node(name, *gpu) for name, gpu in zip(names, gpus, strict=True)))
    _beat(kube, names)

    def keep() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            _beat(kube, names)

    heart = threading.Thread(target=keep, name="kubelets of simulated nodes")
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join()
        kube.kubectl("delete", "node", *names, "--wait=false")
        kube.close()


def _node(name: str, product: str, capability: str) -> Object:
    major, _, minor = capability.partition(".")
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.strategy": "none",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [TAINT]},
    }


def _beat(kube: Kube, names: Sequence[str]) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Simulated",
        "message": "a node without a kubelet",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"}
    status = {"status": {"capacity": resources, "allocatable": resources, "conditions": [ready]}}
    for name in names:
        kube.kubectl("patch", "node", name, "--subresource=status", "--type=strategic", "-p", json.dumps(status))
