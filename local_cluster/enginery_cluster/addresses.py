"""Addresses of one cluster, chosen so that two clusters and the machine's own networks do not meet. Called by `up`.

Each cluster gets a number N in 0..63: the veth pair is 10.250.N.0/30, pods are 10.(64+N).0.0/16 and services are
10.(128+N).0.0/16. N starts at the cluster's hash and moves on while any of the three overlaps a route of the machine.
"""

from dataclasses import dataclass
from ipaddress import IPv4Network

NUMBERS = 64
"""How many clusters fit into the ranges above."""


@dataclass(frozen=True)
class Addresses:
    """The networks of cluster number N."""

    number: int

    @property
    def link(self) -> IPv4Network:
        """Between host and node."""
        return IPv4Network(f"10.250.{self.number}.0/30")

    @property
    def host(self) -> str:
        """The host as the node and its pods reach it."""
        return str(self.link[1])

    @property
    def node(self) -> str:
        """The node as the host reaches it."""
        return str(self.link[2])

    @property
    def pods(self) -> IPv4Network:
        """Addresses of pods, a /24 of it per node."""
        return IPv4Network(f"10.{64 + self.number}.0.0/16")

    @property
    def node_pods(self) -> IPv4Network:
        """Addresses of pods on our only real node; simulated nodes get others from the controller manager."""
        return next(self.pods.subnets(new_prefix=24))

    @property
    def simulated_pods(self) -> IPv4Network:
        """Addresses that kwok hands out; nobody answers there."""
        return list(self.pods.subnets(new_prefix=18))[-1]

    @property
    def services(self) -> IPv4Network:
        """Cluster addresses of services."""
        return IPv4Network(f"10.{128 + self.number}.0.0/16")

    @property
    def apiserver_service(self) -> str:
        """The service `kubernetes`, which the API server puts on the first address."""
        return str(self.services[1])

    @property
    def dns_service(self) -> str:
        """Cluster DNS."""
        return str(self.services[10])


def of_node(address: str) -> Addresses:
    """The networks of the cluster whose node has this address."""
    return Addresses(int(address.split(".")[2]))


def choose(hash8: str, routes: list[IPv4Network]) -> Addresses:
    """The first free number from the cluster's hash on."""
    start = int(hash8, 16)
    for offset in range(NUMBERS):
        candidate = Addresses((start + offset) % NUMBERS)
        networks = (candidate.link, candidate.pods, candidate.services)
        if not any(network.overlaps(route) for network in networks for route in routes):
            return candidate
    raise RuntimeError("every address range of the local cluster overlaps a route of this machine (see addresses.py)")
