"""The operator as a platform team meets it: installed by the chart, found, killed, replaced. Called by e2e/."""

import os
import signal
from pathlib import Path
from typing import Any

from enginery_cluster import cgroups, platform_team
from enginery_cluster.places import Places
from support.eventually import eventually
from support.kube import Kube, Object

CONFIG: dict[str, Any] = {
    "resyncSeconds": 15,
    "jobs": {
        "retryBaseSeconds": 2,
        "recheckSeconds": 15,
        "startDeadlineSeconds": 10,
        "cpuRequest": "100m",
        "memoryRequest": "256Mi",
    },
    "lease": {"durationSeconds": 6, "renewDeadlineSeconds": 4, "retrySeconds": 1},
}
"""Settings of the operator under test: what it would do in minutes it does in seconds."""

TAKE_OVER_SECONDS = CONFIG["lease"]["durationSeconds"] + CONFIG["lease"]["retrySeconds"] + 2
"""A standby acts at the latest so long after the active replica vanished: the Lease, one retry, and the watches."""

_PODS = f"/api/v1/namespaces/{platform_team.NAMESPACE}/pods"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{platform_team.NAMESPACE}/leases/enginery-operator"


def pods(kube: Kube) -> list[Object]:
    """The operator's pods that are not on their way out."""
    found = kube.items(_PODS, "app.kubernetes.io/name=enginery")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def holder(kube: Kube) -> str:
    """Name of the pod that holds the Lease; empty when nobody does."""
    lease = kube.get(_LEASE)
    identity: str = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
    return identity.rpartition("-")[0]


def wait_acting(kube: Kube, timeout: float = 60, *, apart_from: str = "") -> str:
    """The pod that holds the Lease and exists, once there is one; its name."""

    def acting() -> str:
        name = holder(kube)
        return name if name != apart_from and name in {pod["metadata"]["name"] for pod in pods(kube)} else ""

    return eventually(acting, timeout, 0.1)


def kill(kube: Kube, name: str | None = None) -> str:
    """SIGKILL to the process of the active replica, or of the one named; its pod goes as well, so that the next comes
    at once and not after the kubelet's back-off. The name of the pod.
    """
    victim = name or wait_acting(kube)
    running = _processes(kube, victim)
    assert running, f"no process of {victim} on this machine"
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    kube.kubectl("-n", platform_team.NAMESPACE, "delete", "pod", victim, "--grace-period=0", "--force", "--wait=false")
    return victim


def logs(kube: Kube) -> str:
    """What every operator pod that exists has logged."""
    return "".join(kube.kubectl("-n", platform_team.NAMESPACE, "logs", pod["metadata"]["name"]) for pod in pods(kube))


def _processes(kube: Kube, pod: str) -> list[int]:
    """Host's numbers of the operator's processes in a pod; its environment tells which."""
    everything = cgroups.processes(Places(kube.cluster.name).cgroup)
    found = [pid for pid in everything if _says(pid, "cmdline", b"enginery_operator")]
    return [pid for pid in found if _says(pid, "environ", f"POD_NAME={pod}\0".encode())]


def _says(pid: int, file: str, text: bytes) -> bool:
    try:
        return text in Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return False
