"""`up`: start the local cluster, or find that it runs. The story of a start on one screen.

A cluster that is complete, alive and of the current build is left alone; anything else under its name is replaced.
"""

import datetime as dt
import hashlib
import json
import secrets
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from enginery_cluster import (
    addons,
    api_server,
    binaries,
    certificates,
    components,
    configuration,
    network,
    node_process,
    pause_image,
)
from enginery_cluster.addresses import Addresses, choose
from enginery_cluster.binaries import KUBEBOX, NODE_PROGRAMS, PAUSE, VERSITYGW, binary_path
from enginery_cluster.certificates import Identity
from enginery_cluster.configuration import NODE_NAME
from enginery_cluster.device_plugin import write_devices
from enginery_cluster.down import remove
from enginery_cluster.gpu_labels import MIG_COUNT, MIG_RESOURCE
from enginery_cluster.locks import exclusive
from enginery_cluster.node_process import pid_of_node
from enginery_cluster.places import Places
from enginery_cluster.programs import write_programs
from enginery_cluster.requirements import check_machine, lies_on_overlay
from enginery_cluster.state import S3, Cluster, NoClusterError, write_private
from enginery_cluster.steps import Steps, eventually, say

START_TIMEOUT_SECONDS = 120.0
"""For each thing waited for; 5 to 20 s on two free cores."""


def up(name: str) -> Cluster:
    """Start the cluster unless it runs, and return its description."""
    check_machine()
    places = Places(name)
    with exclusive(places):
        if running := _healthy(places):
            say(f"cluster {name} is running (context {places.context})")
            return running
        steps = Steps("cluster", len(NODE_PROGRAMS) + 4)
        for program in NODE_PROGRAMS:
            binaries.ensure(program, steps)
        with steps.step("clearing the place"):
            remove(places)
        with steps.step("starting the node: etcd, API server, containerd, kubelet"):
            addresses = choose(places.hash8, network.routes_of_host())
            s3 = _new_s3(addresses)
            _write_files(places, addresses)
            node = components.components(places, addresses, binary_path(KUBEBOX), binary_path(VERSITYGW), s3)
            node_process.start(places, addresses, node)
            _wait_for(places, "the API server", lambda: api_server.is_ready(places, addresses.node))
        with steps.step("waiting for the node and cluster DNS"):
            _import_pause_image(places)
            _apply(places, addons.cluster_dns(addresses, binary_path(KUBEBOX)))
            _wait_for(places, "the node", lambda: _node_is_ready(places, addresses.node))
            _wait_for(places, "cluster DNS", lambda: _dns_is_ready(places, addresses.node))
            _wait_for(places, "the S3 server", lambda: _listens(addresses.node, components.S3_PORT))
        cluster = _describe(places, addresses, s3)
        cluster.save()
        steps.skip(f"cluster {name} is ready after {steps.seconds:.0f} s (context {places.context})")
        return cluster


def _healthy(places: Places) -> Cluster | None:
    """The running cluster, if all of it that can be asked quickly is well."""
    try:
        cluster = Cluster.load(places.name)
    except (NoClusterError, ValueError, TypeError, KeyError):
        return None
    if cluster.provider != "namespaces":
        return cluster
    well = (
        cluster.build == build_digest()
        and pid_of_node(places) is not None
        and api_server.is_ready(places, cluster.node_address)
        and _node_is_ready(places, cluster.node_address)
        and _dns_is_ready(places, cluster.node_address)
        and _listens(cluster.node_address, components.S3_PORT)
    )
    return cluster if well else None


def build_digest() -> str:
    """Changes when the programs or this package's idea of a node change, so that `up` replaces an outdated cluster."""
    digest = hashlib.sha256()
    for program in NODE_PROGRAMS:
        digest.update(binary_path(program).name.encode())
    folder = Path(__file__).parent
    for module in (
        "addons",
        "components",
        "configuration",
        "gpu_labels",
        "node",
        "node_mounts",
        "node_process",
        "node_spec",
    ):
        digest.update((folder / f"{module}.py").read_bytes())
    return digest.hexdigest()[:12]


def _new_s3(addresses: Addresses) -> S3:
    endpoint = f"http://{addresses.node}:{components.S3_PORT}"
    return S3(endpoint, f"root{secrets.token_hex(8)}", secrets.token_urlsafe(30), "us-east-1")


def _write_files(places: Places, addresses: Addresses) -> None:
    """Everything the components read."""
    for folder in ("etcd", "containerd", "kubelet", "cni", "pod-logs", "s3/buckets", "s3/users", "tmp"):
        (places.data / folder).mkdir(parents=True)
    for path in (places.logs, places.programs, places.configuration / "cni"):
        path.mkdir(parents=True)
    _write_certificates(places, addresses)
    server = f"https://{addresses.node}:{components.API_PORT}"
    for user in ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kube-router", "kwok"):
        file = places.configuration / f"{user}.kubeconfig"
        write_private(file, configuration.kubeconfig(places, server, user))
    write_private(places.kubeconfig, configuration.kubeconfig(places, server, "admin"))
    texts = {
        "kubelet.yaml": configuration.kubelet(places, addresses),
        "kube-proxy.yaml": configuration.kube_proxy(places, addresses),
        "containerd.toml": configuration.containerd(places, "native" if lies_on_overlay(places.state) else "overlayfs"),
        "cni/10-enginery.conflist": configuration.pod_network(addresses),
        "audit-policy.yaml": configuration.AUDIT_POLICY,
        "resolv.conf": "",
    }
    for name, text in texts.items():
        (places.configuration / name).write_text(text)
    write_devices(places.devices, {MIG_RESOURCE: {"count": MIG_COUNT, "unhealthy": 0}})
    write_programs(places, binary_path(KUBEBOX))


def _write_certificates(places: Places, addresses: Addresses) -> None:
    authority = certificates.Authority(places.pki, "ca")
    service = "kubernetes.default.svc"
    api_names = ("kubernetes", "kubernetes.default", service, f"{service}.cluster.local", "localhost")
    api_addresses = (addresses.node, addresses.apiserver_service, "127.0.0.1")
    for identity in (
        Identity("apiserver", "kube-apiserver", names=api_names, addresses=api_addresses),
        Identity("admin", "admin", "system:masters"),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        Identity("kube-scheduler", "system:kube-scheduler"),
        Identity("kube-proxy", "system:kube-proxy"),
        Identity("kubelet", f"system:node:{NODE_NAME}", "system:nodes", (NODE_NAME,), (addresses.node,)),
        Identity("kwok", "kwok", "system:masters"),
        Identity("kube-router", "kube-router", "system:masters"),
    ):
        authority.issue(identity)
    certificates.Authority(places.pki, "front-proxy-ca").issue(Identity("front-proxy-client", "front-proxy-client"))
    certificates.service_account_keys(places.pki)


def _import_pause_image(places: Places) -> None:
    archive = places.data / "tmp" / "pause.tar"
    pause_image.write(binary_path(PAUSE), archive)
    _wait_for(places, "containerd", lambda: _quiet(node_process.ctr(places, "version")))
    subprocess.run(node_process.ctr(places, "images", "import", str(archive)), check=True, stdout=subprocess.DEVNULL)
    archive.unlink()


def _apply(places: Places, objects: list[dict[str, object]]) -> None:
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    command = [str(places.programs / "kubectl"), "apply", "--server-side", "-f", "-"]
    subprocess.run(command, input=document, text=True, check=True, stdout=subprocess.DEVNULL)


def _node_is_ready(places: Places, address: str) -> bool:
    node = api_server.get(places, address, f"/api/v1/nodes/{NODE_NAME}")
    slices = ((node or {}).get("status") or {}).get("allocatable", {}).get(MIG_RESOURCE, "0")
    return api_server.condition(node, "Ready") and slices != "0"


def _dns_is_ready(places: Places, address: str) -> bool:
    deployment = api_server.get(places, address, "/apis/apps/v1/namespaces/kube-system/deployments/coredns")
    return api_server.condition(deployment, "Available")


def _listens(address: str, port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex((address, port)) == 0


def _quiet(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _wait_for(places: Places, what: str, condition: Callable[[], bool]) -> None:
    def healthy_or_dead() -> bool:
        if pid_of_node(places) is None:
            raise RuntimeError(f"the node ended while waiting for {what}: see {places.logs}/node.log\n{_tail(places)}")
        return condition()

    eventually(
        healthy_or_dead,
        START_TIMEOUT_SECONDS,
        lambda: f"{what} was not ready within {START_TIMEOUT_SECONDS:.0f} s: see {places.logs}\n{_tail(places)}",
    )


def _tail(places: Places) -> str:
    log = places.logs / "node.log"
    return "\n".join(log.read_text().splitlines()[-15:]) if log.exists() else ""


def _describe(places: Places, addresses: Addresses, s3: S3) -> Cluster:
    return Cluster(
        name=places.name,
        provider="namespaces",
        context=places.context,
        kubeconfig=str(places.kubeconfig),
        kubectl=str(places.programs / "kubectl"),
        helm=str(places.programs / "helm"),
        s3=s3,
        node_name=NODE_NAME,
        node_address=addresses.node,
        host_address=addresses.host,
        pod_cidr=str(addresses.pods),
        service_cidr=str(addresses.services),
        audit_log=str(places.audit_log),
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        build=build_digest(),
    )
