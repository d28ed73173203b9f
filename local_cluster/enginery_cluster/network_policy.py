"""`network-policy`: enforce NetworkPolicy on the running cluster by kube-router, for tests of what tenants may reach.

The bridge network of the node knows no policies, as on many small clusters; so this is a component that is added when
asked for. It builds for some minutes the first time.
"""

from enginery_cluster import binaries, node_spec
from enginery_cluster.binaries import KUBE_ROUTER
from enginery_cluster.components import API_PORT, Component
from enginery_cluster.configuration import NODE_NAME
from enginery_cluster.places import Places
from enginery_cluster.state import Cluster
from enginery_cluster.steps import Steps, eventually

HEALTH_PORT = 20244
"""kube-router's own health check, on the node."""

SYNC_SECONDS = 10
"""How often it repeats everything; changes of policies and pods take effect at once."""


def network_policy(name: str) -> None:
    """Run kube-router's firewall on the node; returns when it has synced once."""
    cluster, places, steps = Cluster.load(name), Places(name), Steps("network-policy", 2)
    if cluster.provider != "namespaces":
        raise RuntimeError("bring a network with policies on a cluster that we do not run ourselves")
    program = binaries.ensure(KUBE_ROUTER, steps)
    command = [
        str(program),
        "--run-router=false",
        "--run-service-proxy=false",
        "--run-firewall=true",
        f"--kubeconfig={places.configuration}/kube-router.kubeconfig",
        f"--hostname-override={NODE_NAME}",
        f"--service-cluster-ip-range={cluster.service_cidr}",
        f"--health-port={HEALTH_PORT}",
        "--metrics-port=0",
        f"--iptables-sync-period={SYNC_SECONDS}s",
    ]
    component = Component("kube-router", command, [f"{cluster.node_address}:{API_PORT}"])
    with steps.step("waiting for kube-router"):
        node_spec.write(places, node_spec.read(places).with_component(component))
        log = places.logs / "kube-router.log"
        eventually(lambda: _has_synced(places), 60, lambda: f"kube-router did not sync: see {log}")


def _has_synced(places: Places) -> bool:
    log = places.logs / "kube-router.log"
    return log.exists() and "Starting network policy controller" in log.read_text(errors="replace")
