"""cluster.json: what a running cluster offers, in one typed value. Tests, the demo and the benchmarks load it:

cluster = Cluster.load("demo")
subprocess.run([cluster.kubectl, "get", "nodes"], check=True)
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from enginery_cluster.places import Places


class NoClusterError(RuntimeError):
    """There is no such cluster; the message says how to make one."""


@dataclass(frozen=True)
class S3:
    """The model store's endpoint with root credentials; tests make users of their own with them."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str


@dataclass(frozen=True)
class Images:
    """Tags of our programs' images in this cluster; empty until `images` ran."""

    operator: str = ""
    builder: str = ""
    runtime: str = ""
    converter_tensorflow: str = ""
    converter_pytorch: str = ""


@dataclass(frozen=True)
class Cluster:
    """A cluster that can be used now, wherever it came from (`provider`)."""

    name: str
    provider: str
    """namespaces (ours), kind, or existing."""
    context: str
    kubeconfig: str
    kubectl: str
    helm: str
    s3: S3
    node_name: str
    node_address: str
    """Where the host reaches the node; pods reach the host at `host_address`."""
    host_address: str
    pod_cidr: str
    service_cidr: str
    audit_log: str
    """Empty where we do not run the API server."""
    created_at: str
    build: str = ""
    """Digest of programs and configuration; a cluster of another build is replaced by `up`."""
    images: Images = field(default_factory=Images)

    @staticmethod
    def load(name: str = "demo") -> "Cluster":
        """Read a cluster's description; NoClusterError when there is none."""
        path = Places(name).description
        if not path.exists():
            raise NoClusterError(f"no cluster named {name}: start it with `make cluster-up NAME={name}`")
        fields: dict[str, Any] = json.loads(path.read_text())
        fields["s3"], fields["images"] = S3(**fields["s3"]), Images(**fields["images"])
        return Cluster(**fields)

    def save(self) -> None:
        """Replace the description in one move; it holds credentials, so only its owner reads it."""
        path = Places(self.name).description
        write_private(path, json.dumps(asdict(self), indent=2) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(path)
