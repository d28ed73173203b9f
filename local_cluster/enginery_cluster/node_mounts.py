"""The node's own view of the file system, made by its process 1 in its mount namespace. Called by `node` only.

Kubernetes programs write to fixed places (/run, /var/lib/kubelet, /var/lib/cni, /var/log/pods) and to kernel settings
that belong to the whole machine. In here those places are private, so nothing of them reaches the host and two clusters
never meet; the mounts vanish with the namespace.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

from enginery_cluster import cgroups
from enginery_cluster.configuration import NODE_NAME, RUN
from enginery_cluster.places import CHECKOUT, Places, cache_folder

PRIVATE_FOLDERS = (Path("/run"), Path("/var/lib"), Path("/var/log"))
"""Empty inside the node."""

PERSISTENT = {"kubelet": Path("/var/lib/kubelet"), "cni": Path("/var/lib/cni"), "pod-logs": Path("/var/log")}
"""Folders below <state>/data that appear at these paths: they grow too large for memory."""

KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What a kubelet sets machine-wide at its start. The node shows it these values already, so it writes none."""


def prepare(places: Places) -> None:
    """Make the private view; afterwards everything the node writes is below its state folder or in its memory."""
    _mount("--make-rshared", "/")  # pods with mount propagation want it; the tree stays a slave of the host's
    _mount("-t", "proc", "proc", "/proc")
    _mount("-t", "sysfs", "sysfs", "/sys")  # shows the interfaces of our network namespace
    cgroups.mount_inside()
    _hide(PRIVATE_FOLDERS, [CHECKOUT, cache_folder(), Path(sys.prefix), Path(sys.base_prefix)])
    RUN.mkdir()
    for name, target in PERSISTENT.items():
        target.mkdir(exist_ok=True)
        _mount("--bind", str(places.data / name), str(target))
    _show_kernel_settings(places.data / "kernel-settings")
    socket.sethostname(NODE_NAME)


def _hide(hidden: tuple[Path, ...], needed: list[Path]) -> None:
    """Cover folders with empty ones, but keep what we need below them (a checkout in /var/lib/ci, for example)."""
    kept = [path.resolve() for path in needed]
    kept = [path for path in kept if any(path.is_relative_to(folder) for folder in hidden)]
    handles = [os.open(path, os.O_PATH) for path in kept]
    for folder in hidden:
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(folder))
    for path, handle in zip(kept, handles, strict=True):
        path.mkdir(parents=True, exist_ok=True)
        _mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{handle}", str(path))
        os.close(handle)


def _show_kernel_settings(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, value in KERNEL_SETTINGS.items():
        shown, real = folder / name.replace("/", "."), Path("/proc/sys") / name
        if real.exists():
            shown.write_text(value + "\n")
            _mount("--bind", str(shown), str(real))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
