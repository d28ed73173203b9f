"""The programs that run on the node: command lines, and what each waits for before it starts. Pure; called by `up`,
which hands them as JSON to the node's process 1 (node.py).
"""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from enginery_cluster.addresses import Addresses
from enginery_cluster.configuration import CONTAINERD_SOCKET, NODE_NAME
from enginery_cluster.gpu_labels import GPU_LABELS
from enginery_cluster.places import Places
from enginery_cluster.state import S3

API_PORT = 6443
"""The API server."""

S3_PORT = 7070
"""The S3 server."""

ETCD_URL = "http://127.0.0.1:2379"
"""etcd, reachable inside the node's network namespace only."""


@dataclass(frozen=True)
class Component:
    """One program; restarted when it ends."""

    name: str
    command: list[str]
    after: list[str] = field(default_factory=list)
    """TCP addresses (host:port) and unix sockets (/path) that must answer first."""
    environment: dict[str, str] = field(default_factory=dict)


def components(places: Places, addresses: Addresses, kubebox: Path, versitygw: Path, s3: S3) -> list[Component]:
    """Everything that runs on the node beside pods."""
    api = f"{addresses.node}:{API_PORT}"
    box = str(kubebox)
    return [
        Component("etcd", [box, "etcd", *_etcd(places)]),
        Component("containerd", ["containerd", "--config", f"{places.configuration}/containerd.toml"]),
        Component("versitygw", _versitygw(places, addresses, versitygw), environment=_s3_environment(s3)),
        Component("kube-apiserver", [box, "kube-apiserver", *_apiserver(places, addresses)], [ETCD_URL[7:]]),
        Component("kube-controller-manager", [box, "kube-controller-manager", *_manager(places, addresses)], [api]),
        Component("kube-scheduler", [box, "kube-scheduler", *_login(places, "kube-scheduler"), _ALONE, *_BRISK], [api]),
        Component("kubelet", [box, "kubelet", *_kubelet(places, addresses)], [api, str(CONTAINERD_SOCKET)]),
        Component("kube-proxy", [box, "kube-proxy", f"--config={places.configuration}/kube-proxy.yaml"], [api]),
        Component("device-plugin", [sys.executable, "-m", "enginery_cluster", "device-plugin", str(places.devices)]),
    ]


_ALONE = "--leader-elect=false"
_BRISK = ("--kube-api-qps=300", "--kube-api-burst=600")
"""With the default of 20 requests a second a thousand Deployments measure the controllers' patience and not ours."""


def _etcd(places: Places) -> list[str]:
    peers = "http://127.0.0.1:2380"
    return [
        f"--data-dir={places.data}/etcd",
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        f"--listen-peer-urls={peers}",
        "--unsafe-no-fsync",  # a local cluster does not outlive its machine
        "--log-level=warn",
    ]


def _apiserver(places: Places, addresses: Addresses) -> list[str]:
    pki = places.pki
    return [
        f"--etcd-servers={ETCD_URL}",
        f"--secure-port={API_PORT}",
        f"--advertise-address={addresses.node}",
        f"--service-cluster-ip-range={addresses.services}",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
        f"--proxy-client-key-file={pki}/front-proxy-client.key",
        f"--audit-policy-file={places.configuration}/audit-policy.yaml",
        f"--audit-log-path={places.audit_log}",
        "--audit-log-maxsize=200",
        "--audit-log-maxbackup=1",
    ]


def _login(places: Places, user: str) -> list[str]:
    file = f"{places.configuration}/{user}.kubeconfig"
    return [f"--{prefix}kubeconfig={file}" for prefix in ("", "authentication-", "authorization-")]


def _manager(places: Places, addresses: Addresses) -> list[str]:
    pki = places.pki
    return [
        *_login(places, "kube-controller-manager"),
        _ALONE,
        *_BRISK,
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--use-service-account-credentials=true",
        "--allocate-node-cidrs=true",
        f"--cluster-cidr={addresses.pods}",
        f"--service-cluster-ip-range={addresses.services}",
    ]


def _kubelet(places: Places, addresses: Addresses) -> list[str]:
    return [
        f"--config={places.configuration}/kubelet.yaml",
        f"--kubeconfig={places.configuration}/kubelet.kubeconfig",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={addresses.node}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in GPU_LABELS.items())}",
    ]


def _versitygw(places: Places, addresses: Addresses, program: Path) -> list[str]:
    store = places.data / "s3"
    return [
        str(program),
        f"--port={addresses.node}:{S3_PORT}",
        "--region=us-east-1",
        f"--iam-dir={store}/users",
        "--quiet",
        "posix",
        f"{store}/buckets",
    ]


def _s3_environment(s3: S3) -> dict[str, str]:
    """By environment, as a command line is readable by everybody on the machine."""
    return {"ROOT_ACCESS_KEY": s3.access_key, "ROOT_SECRET_KEY": s3.secret_key}


def base_environment(places: Places) -> dict[str, str]:
    """The environment of every component: nothing of the user's but PATH and HOME."""
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    return {"PATH": path, "HOME": str(places.state), "TMPDIR": str(places.data / "tmp")}
