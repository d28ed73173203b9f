"""node.json: what the node's process 1 is told to run. Written by `up`, `component` and `kwok`; followed by `node`.

It is read again and again, so components come and go while the node runs: tests take the S3 server or the API server
out of service, benchmarks add a simulated fleet.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from enginery_cluster.components import Component
from enginery_cluster.places import Places
from enginery_cluster.state import write_private


@dataclass(frozen=True)
class NodeSpec:
    """The node's network, its components, and which of them are out of service."""

    address: str
    gateway: str
    components: tuple[Component, ...]
    stopped: tuple[str, ...] = ()

    @property
    def wanted(self) -> list[Component]:
        """Components that should run."""
        return [component for component in self.components if component.name not in self.stopped]

    def with_component(self, component: Component) -> "NodeSpec":
        """Add a component, or replace the one of its name."""
        others = tuple(known for known in self.components if known.name != component.name)
        return replace(self, components=(*others, component))


def read(places: Places) -> NodeSpec:
    """The current specification."""
    fields: dict[str, Any] = json.loads(places.node_spec.read_text())
    fields["components"] = tuple(Component(**component) for component in fields["components"])
    fields["stopped"] = tuple(fields["stopped"])
    return NodeSpec(**fields)


def write(places: Places, spec: NodeSpec) -> None:
    """Replace the specification; it holds credentials of the S3 server."""
    write_private(places.node_spec, json.dumps(asdict(spec), indent=2))


def stop_component(places: Places, name: str) -> None:
    """Take a component out of service, as an outage of it would."""
    spec = read(places)
    if name not in {component.name for component in spec.components}:
        known = ", ".join(sorted(component.name for component in spec.components))
        raise RuntimeError(f"no component is called {name}; there are {known}")
    write(places, replace(spec, stopped=tuple({*spec.stopped, name})))


def start_component(places: Places, name: str) -> None:
    """Bring a component back into service."""
    spec = read(places)
    write(places, replace(spec, stopped=tuple(known for known in spec.stopped if known != name)))
