"""The node seen from the host: start its process 1 in new namespaces, tell whether it lives, run programs in it.

Called by `up`, `down`, `images` and `leftovers`.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from enginery_cluster import cgroups, network, node_spec
from enginery_cluster.addresses import Addresses
from enginery_cluster.components import Component
from enginery_cluster.configuration import CONTAINERD_SOCKET
from enginery_cluster.node_spec import NodeSpec
from enginery_cluster.places import Places

NAMESPACES = ("--cgroup", "--ipc", "--mount", "--net", "--pid", "--uts")
"""What the node has of its own. Users stay shared: a user namespace would forbid most of what a kubelet does."""


def start(places: Places, addresses: Addresses, components: list[Component]) -> None:
    """Start the node and give it the host's end of its network."""
    address = f"{addresses.node}/{addresses.link.prefixlen}"
    node_spec.write(places, NodeSpec(address, addresses.host, tuple(components)))
    folders = cgroups.make(places.cgroup)
    unshare = ["unshare", *NAMESPACES, "--propagation=slave", "--fork", "--kill-child"]
    with (places.logs / "node.log").open("ab") as log:
        process = subprocess.Popen(
            [*unshare, sys.executable, "-m", "enginery_cluster.node", places.name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: cgroups.enter(folders),  # noqa: PLW1509 (no threads run yet that could hold locks)
        )
    pid = _child_of(process)
    (places.state / "node.pid").write_text(f"{pid} {_start_time(pid)}\n")
    network.connect(places.interface, pid, addresses)
    cgroups.settle(places.cgroup)
    places.go_ahead.touch()


def _child_of(parent: subprocess.Popen[bytes]) -> int:
    """The process that unshare forked, as the host numbers it."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and parent.poll() is None:
        everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        if child := next((pid for pid in everybody if _parent(pid) == parent.pid), None):
            return child
        time.sleep(0.01)
    raise RuntimeError("unshare made no process: are namespaces allowed here? See node.log in the state folder")


def _stat(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat after the command's name; empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _start_time(pid: int) -> str:
    fields = _stat(pid)
    return fields[19] if fields else ""


def pid_of_node(places: Places) -> int | None:
    """Process 1 as the host numbers it, None unless it is the very process that was started."""
    try:
        pid, started = (places.state / "node.pid").read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if started and _start_time(int(pid)) == started and _stat(int(pid))[0] != "Z" else None


def inside(places: Places, *command: str) -> list[str]:
    """A command line that runs a program in the node's mount and network namespaces."""
    return ["nsenter", f"--target={pid_of_node(places)}", "--mount", "--net", "--", *command]


def ctr(places: Places, *arguments: str) -> list[str]:
    """A command line of containerd's client, in the name space of images that the kubelet uses."""
    return inside(places, "ctr", "--address", str(CONTAINERD_SOCKET), "--namespace", "k8s.io", *arguments)


def stop(places: Places) -> None:
    """End every process of the cluster: process 1 takes its whole process namespace along."""
    deadline = time.monotonic() + 10
    while (pids := cgroups.processes(places.cgroup)) and time.monotonic() < deadline:
        for pid in sorted(pids):  # process 1 and its parent are the oldest
            _kill(pid)
        time.sleep(0.1)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
