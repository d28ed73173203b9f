"""Objects that every cluster needs beside its components: cluster DNS as a real pod. Pure; `up` applies them.

CoreDNS runs from the kubebox binary, shared into a pod of the pause image: no image of its own is needed, and network
policies that allow DNS by its pod labels mean the same as elsewhere.
"""

from pathlib import Path
from typing import Any

from enginery_cluster.addresses import Addresses
from enginery_cluster.configuration import NODE_NAME, PAUSE_IMAGE

_LABELS = {"k8s-app": "kube-dns"}
_META = {"name": "coredns", "namespace": "kube-system"}

COREFILE = """\
.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 5
    }
    cache 5
}
"""
"""No forwarding: the local cluster has no outside network."""


def cluster_dns(addresses: Addresses, kubebox: Path) -> list[dict[str, Any]]:
    """Account, rights, configuration, pod and service of CoreDNS."""
    watch = ["list", "watch"]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _META},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": watch},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", **_META}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _META, "data": {"Corefile": COREFILE}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": _LABELS},
            "spec": {
                "clusterIP": addresses.dns_service,
                "selector": _LABELS,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**_META, "labels": _LABELS},
            "spec": {
                "selector": {"matchLabels": _LABELS},
                "template": {"metadata": {"labels": _LABELS}, "spec": _coredns_pod(kubebox)},
            },
        },
    ]


def _coredns_pod(kubebox: Path) -> dict[str, Any]:
    return {
        "serviceAccountName": "coredns",
        "priorityClassName": "system-cluster-critical",
        "nodeName": NODE_NAME,  # never on a simulated node
        "dnsPolicy": "Default",
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "coredns",
                "image": PAUSE_IMAGE,
                "imagePullPolicy": "Never",
                "command": ["/kubebox", "coredns", "-conf", "/etc/coredns/Corefile"],
                "securityContext": {"runAsUser": 0, "readOnlyRootFilesystem": True},
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                "volumeMounts": [
                    {"name": "kubebox", "mountPath": "/kubebox", "readOnly": True},
                    {"name": "configuration", "mountPath": "/etc/coredns", "readOnly": True},
                ],
            }
        ],
        "volumes": [
            {"name": "kubebox", "hostPath": {"path": str(kubebox), "type": "File"}},
            {"name": "configuration", "configMap": {"name": "coredns"}},
        ],
    }
