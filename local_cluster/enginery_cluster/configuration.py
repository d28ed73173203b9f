"""Configuration files of the node's components, as text. Pure; `up` writes them below <state>/etc.

JSON is YAML, so structured files are written as JSON; only containerd wants TOML.
"""

import base64
import json
from pathlib import Path
from typing import Any

from enginery_cluster.addresses import Addresses
from enginery_cluster.places import CHECKOUT, Places

NODE_NAME = "gpu-node-1"
"""The one real node."""

RUN = Path("/run/enginery")
"""Sockets and run-time state in the node; /run is private there, so every cluster uses the same short path."""

CONTAINERD_SOCKET = RUN / "containerd.sock"
"""The node's containerd."""

PAUSE_IMAGE = "localhost/enginery/pause:1"
"""The sandbox image (pause_image.py)."""

CONTEXT_MARKER = "enginery.io/local-cluster"
"""Name of the kubeconfig extension that tells tests: a context that this package made."""


def kubeconfig(places: Places, server: str, user: str) -> str:
    """A self-contained kubeconfig, marked as ours."""
    pki = places.pki
    marker = {"name": places.name, "checkout": str(CHECKOUT)}
    context = {
        "cluster": places.context,
        "user": user,
        "extensions": [{"name": CONTEXT_MARKER, "extension": marker}],
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": places.context, "cluster": {"server": server, "certificate-authority-data": _b64(pki / "ca.crt")}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _b64(pki / f"{user}.crt"),
                    "client-key-data": _b64(pki / f"{user}.key"),
                },
            }
        ],
        "contexts": [{"name": places.context, "context": context}],
        "current-context": places.context,
    }
    return _json(document)


def kubelet(places: Places, addresses: Addresses) -> str:
    """The kubelet: cgroup v1 and swap allowed, no evictions but by a nearly full disk, images never collected."""
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(places.pki / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(places.pki / "kubelet.crt"),
            "tlsPrivateKeyFile": str(places.pki / "kubelet.key"),
            "address": addresses.node,
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [addresses.dns_service],
            "clusterDomain": "cluster.local",
            "resolvConf": str(places.configuration / "resolv.conf"),
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "enforceNodeAllocatable": [],
            "serializeImagePulls": False,
            "volumePluginDir": str(places.data / "volume-plugins"),
        }
    )


def kube_proxy(places: Places, addresses: Addresses) -> str:
    """kube-proxy on nftables; connection tracking limits belong to the machine, so they stay as they are."""
    unchanged = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return _json(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(places.configuration / "kube-proxy.kubeconfig")},
            "mode": "nftables",
            "clusterCIDR": str(addresses.pods),
            "hostnameOverride": NODE_NAME,
            "conntrack": unchanged,
        }
    )


def containerd(places: Places, snapshotter: str) -> str:
    """Containerd 1.6 or newer; `restrict_oom_score_adj` where the machine lacks CAP_SYS_RESOURCE."""
    return f"""\
version = 2
root = "{places.data}/containerd"
state = "{RUN}/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{PAUSE_IMAGE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{places.configuration}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def pod_network(addresses: Addresses) -> str:
    """CNI: a bridge with host-local addresses, and host ports."""
    bridge: dict[str, Any] = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": str(addresses.node_pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    port_map = {"type": "portmap", "capabilities": {"portMappings": True}}
    return _json({"cniVersion": "0.4.0", "name": "enginery", "plugins": [bridge, port_map]})


AUDIT_POLICY = json.dumps(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {
                "level": "None",
                "users": [
                    "system:apiserver",
                    "system:kube-controller-manager",
                    "system:kube-scheduler",
                    "system:kube-proxy",
                    "kwok",
                ],
            },
            {"level": "None", "userGroups": ["system:nodes"]},
            {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        ],
    },
    indent=2,
)
"""Who wrote what: every write but those of the components themselves, without bodies. Tests prove with it that the
operator writes nothing in steady state. The controllers of the controller manager are in it (they run under service
accounts of their own), as they write children of our objects."""


def _b64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"
