"""`kwok`: simulated GPU nodes beside the real one, for benchmarks of the operator against a fleet.

kwok plays the kubelet of every node that carries its annotation: pods become Ready, pods of Jobs complete. Stages of a
file (`--stages`) replace its stages of pods, for example to give them termination messages.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from enginery_cluster import api_server, binaries, node_spec
from enginery_cluster.addresses import of_node
from enginery_cluster.binaries import KWOK
from enginery_cluster.components import API_PORT, Component
from enginery_cluster.gpu_labels import GPU_LABELS, MIG_RESOURCE
from enginery_cluster.places import MODULES, Places
from enginery_cluster.state import Cluster
from enginery_cluster.steps import Steps, eventually

ANNOTATION = ("kwok.x-k8s.io/node", "fake")
"""Marks the nodes that kwok plays."""

SLICES_PER_NODE = 7
"""An H100 in slices of 1g.10gb."""

NODE_STAGES = ("node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease")
POD_STAGES = ("pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")
"""What kwok does to nodes and pods, from its own module."""

READY_TIMEOUT_SECONDS = 120.0
"""For the whole fleet."""


def kwok(name: str, nodes: int, stages: Path | None) -> None:
    """Run kwok on the cluster and make its nodes number `nodes`."""
    cluster = Cluster.load(name)
    if cluster.provider != "namespaces":
        raise RuntimeError("simulated nodes are for the cluster that we run ourselves")
    places, steps = Places(name), Steps("kwok", 2)
    program = binaries.ensure(KWOK, steps)
    configuration = places.configuration / "kwok.yaml"
    configuration.write_text(_stages(stages))
    node_spec.write(places, node_spec.read(places).with_component(_component(places, cluster, program, configuration)))
    with steps.step(f"{nodes} simulated nodes"):
        _apply(cluster, [_node(number) for number in range(nodes)])
        eventually(
            lambda: _ready(places, cluster) >= nodes, READY_TIMEOUT_SECONDS, lambda: f"see {places.logs}/kwok.log"
        )


def _stages(of_pods: Path | None) -> str:
    command = [binaries.find_go(), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]
    listed = subprocess.run(command, cwd=MODULES / KWOK.module, capture_output=True, text=True, check=True)
    files = [*NODE_STAGES, *(() if of_pods else POD_STAGES)]
    texts = [(Path(listed.stdout.strip()) / "kustomize/stage" / f"{file}.yaml").read_text() for file in files]
    return "\n---\n".join([*texts, *([of_pods.read_text()] if of_pods else [])])


def _component(places: Places, cluster: Cluster, program: Path, configuration: Path) -> Component:
    selector = "=".join(ANNOTATION)
    command = [
        str(program),
        f"--config={configuration}",
        f"--kubeconfig={places.configuration}/kwok.kubeconfig",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={selector}",
        f"--node-ip={cluster.node_address}",
        f"--cidr={of_node(cluster.node_address).simulated_pods}",
        "--node-lease-duration-seconds=40",
    ]
    return Component("kwok", command, [f"{cluster.node_address}:{API_PORT}"])


def _node(number: int) -> dict[str, Any]:
    name = f"simulated-{number:04d}"
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", MIG_RESOURCE: str(SLICES_PER_NODE)}
    labels = GPU_LABELS | {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": dict([ANNOTATION])},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _apply(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    command = [cluster.kubectl, "apply", "--server-side", "-f", "-"]
    subprocess.run(command, input=document, text=True, check=True, stdout=subprocess.DEVNULL)


def _ready(places: Places, cluster: Cluster) -> int:
    nodes = api_server.get(places, cluster.node_address, "/api/v1/nodes") or {"items": []}
    simulated = [node for node in nodes["items"] if ANNOTATION[0] in node["metadata"].get("annotations", {})]
    return sum(api_server.condition(node, "Ready") for node in simulated)
