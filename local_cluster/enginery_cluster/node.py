"""Process 1 of the node: starts the components, restarts those that end, and buries orphans.

Started by node_process.py through unshare(1) inside new namespaces. When it ends, the kernel ends every process of its
process namespace; when its `go` file disappears it ends, so no cluster outlives its state folder.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from enginery_cluster import node_mounts, node_spec
from enginery_cluster.components import Component, base_environment
from enginery_cluster.network import ip
from enginery_cluster.places import Places
from enginery_cluster.steps import eventually

POLL_SECONDS = 0.1
"""How often the supervisor looks."""

RESTART_SECONDS = 1.0
"""Pause before an ended component starts again."""

END_SECONDS = 10.0
"""How long a component that is taken out of service may take to end by itself."""

HOST_TIMEOUT_SECONDS = 30.0
"""How long the host's part of the start may take; `up` may have been killed meanwhile."""


@dataclass
class _Running:
    component: Component
    process: subprocess.Popen[bytes] | None = None
    not_before: float = 0.0
    starts: int = 0


def main(name: str) -> None:
    """Run the node until told to end."""
    places = Places(name)
    eventually(places.go_ahead.exists, HOST_TIMEOUT_SECONDS, lambda: "the host's part of the start never came")
    spec = node_spec.read(places)
    node_mounts.prepare(places)
    _configure_network(spec.address, spec.gateway)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    running: dict[str, _Running] = {}
    while places.go_ahead.exists():
        wanted = {component.name: component for component in node_spec.read(places).wanted}
        for outdated in [name for name, entry in running.items() if wanted.get(name) != entry.component]:
            _end(running.pop(outdated))
        for component in wanted.values():
            _advance(running.setdefault(component.name, _Running(component)), places)
        _bury_orphans({entry.process.pid for entry in running.values() if entry.process})
        time.sleep(POLL_SECONDS)


def _configure_network(address: str, gateway: str) -> None:
    ip("link", "set", "lo", "up")
    ip("address", "add", address, "dev", "eth0")
    ip("link", "set", "eth0", "up")
    ip("route", "add", "default", "via", gateway)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for setting in ("iptables", "ip6tables"):  # where bridge netfilter is loaded: same-node traffic meets policies
        path = Path(f"/proc/sys/net/bridge/bridge-nf-call-{setting}")
        if path.exists():
            path.write_text("1")


def _advance(entry: _Running, places: Places) -> None:
    """Start a component whose time has come; note one that has ended."""
    if entry.process is not None:
        code = entry.process.poll()
        if code is None:
            return
        print(f"{entry.component.name} ended with {code}", flush=True)
        entry.process, entry.not_before = None, time.monotonic() + RESTART_SECONDS
    if time.monotonic() >= entry.not_before and all(map(_answers, entry.component.after)):
        entry.process, entry.starts = _start(entry.component, places), entry.starts + 1
        print(f"{entry.component.name} started, start {entry.starts}", flush=True)


def _start(component: Component, places: Places) -> subprocess.Popen[bytes]:
    with (places.logs / f"{component.name}.log").open("ab") as log:
        return subprocess.Popen(
            component.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=base_environment(places) | component.environment,
            start_new_session=True,
        )


def _end(entry: _Running) -> None:
    """Take a component out of service; its containers, if it has any, stay."""
    if entry.process is not None:
        print(f"{entry.component.name} is told to end", flush=True)
        entry.process.terminate()
        try:
            entry.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            entry.process.kill()
            entry.process.wait()


def _answers(address: str) -> bool:
    family, target = socket.AF_UNIX, address
    if not address.startswith("/"):
        host, port = address.rsplit(":", 1)
        family, target = socket.AF_INET, (host, int(port))  # type: ignore[assignment]
    with socket.socket(family) as client:
        client.settimeout(1)
        return client.connect_ex(target) == 0


def _bury_orphans(ours: set[int]) -> None:
    """Containers' shims outlive their parents and become our children; ours are waited for by their Popen."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_pid in ours:
            return
        os.waitpid(ended.si_pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
