"""The host's side of a cluster's network: one veth pair and two routes over it. Called by `up`, `down` and leftovers.

The other end lives in the node's network namespace, so the pair and its routes vanish with the node by themselves;
removing them here only spares the wait.
"""

import json
import subprocess
from ipaddress import IPv4Network

from enginery_cluster.addresses import Addresses

NODE_INTERFACE = "eth0"
"""The node's end of the pair."""


def ip(*arguments: str, check: bool = True) -> str:
    """iproute2, whose complaint becomes the error's text."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def routes_of_host() -> list[IPv4Network]:
    """Every IPv4 destination the machine has a route for, the default route apart."""
    table = json.loads(ip("-4", "-json", "route", "show", "table", "all") or "[]")
    destinations = (route["dst"] for route in table if route.get("type", "unicast") != "broadcast")
    return [IPv4Network(destination) for destination in destinations if destination != "default"]


def connect(interface: str, node_pid: int, addresses: Addresses) -> None:
    """Join host and node: the node's other end waits in its namespace under its final name."""
    peer = ["peer", "name", NODE_INTERFACE, "netns", str(node_pid)]
    ip("link", "add", interface, "type", "veth", *peer)
    ip("address", "add", f"{addresses.host}/{addresses.link.prefixlen}", "dev", interface)
    ip("link", "set", interface, "up")
    for network in (addresses.pods, addresses.services):
        ip("route", "add", str(network), "via", addresses.node, "dev", interface)


def disconnect(interface: str) -> None:
    """Remove the pair, and with it the routes; nothing to do is fine."""
    ip("link", "delete", interface, check=False)


def interface_exists(interface: str) -> bool:
    """Whether the host's end is there."""
    return bool(ip("link", "show", interface, check=False))
