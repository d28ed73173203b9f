"""Where things are: the checkout, the cache that outlives clusters, and the state folder of one cluster.

Used by every module here, so it imports none of them.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The repository this package stands in (installed editable, so the source is the package)."""

MODULES = CHECKOUT / "local_cluster"
"""The Go modules and this package."""

CLUSTERS = CHECKOUT / ".cluster"
"""State folders of this checkout's clusters; ignored by git."""


def cache_folder(*parts: str) -> Path:
    """A folder below the user's cache (XDG_CACHE_HOME), made when missing."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home.joinpath("enginery", *parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True)
class Places:
    """Every path of one cluster. The hash keeps clusters of two checkouts apart where the machine has one name space:
    network interfaces, cgroups, kubeconfig contexts.
    """

    name: str

    @property
    def hash8(self) -> str:
        """Identifies checkout and name on this machine."""
        return hashlib.sha256(f"{CHECKOUT}\0{self.name}".encode()).hexdigest()[:8]

    @property
    def interface(self) -> str:
        """The host's end of the veth pair; at most 15 characters."""
        return f"eng-{self.hash8}"

    @property
    def cgroup(self) -> str:
        """The cgroup folder that holds every process of the cluster, on each hierarchy."""
        return f"enginery-{self.hash8}"

    @property
    def context(self) -> str:
        """Name of the kubeconfig context."""
        return f"enginery-{self.name}-{self.hash8}"

    @property
    def state(self) -> Path:
        """Everything the cluster writes, private mounts included."""
        return CLUSTERS / self.name

    @property
    def lock(self) -> Path:
        """Held during up and down."""
        return CLUSTERS / f".{self.name}.lock"

    @property
    def description(self) -> Path:
        """cluster.json, written last: a cluster that has it was complete once."""
        return self.state / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        """Administrator's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def programs(self) -> Path:
        """Kubectl and helm that speak to this cluster."""
        return self.state / "bin"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.state / "pki"

    @property
    def configuration(self) -> Path:
        """Configuration files of the components."""
        return self.state / "etc"

    @property
    def data(self) -> Path:
        """Folders of etcd, containerd, kubelet and the S3 server."""
        return self.state / "data"

    @property
    def logs(self) -> Path:
        """One file per component, and the audit log."""
        return self.state / "log"

    @property
    def audit_log(self) -> Path:
        """One JSON line per write request (see configuration.AUDIT_POLICY)."""
        return self.logs / "audit.log"

    @property
    def node_spec(self) -> Path:
        """What `up` tells the node's process 1: the components to run."""
        return self.state / "node.json"

    @property
    def go_ahead(self) -> Path:
        """Appears when the host's part (network, cgroup) is done; when it disappears, process 1 ends the node."""
        return self.state / "go"

    @property
    def devices(self) -> Path:
        """What the fake device plugin advertises; rewritten by tests while it runs."""
        return self.state / "devices.json"


def cluster_names() -> list[str]:
    """Names of the clusters of this checkout that have state."""
    return sorted(entry.name for entry in CLUSTERS.glob("*") if entry.is_dir())
