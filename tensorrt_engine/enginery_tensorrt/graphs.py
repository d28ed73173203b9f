"""CUDA graphs of a session: one per profile and shapes, replayed as a single call instead of hundreds of launches.

Shapes get their graph when they come a second time, as recording costs more than a run. For `session`.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from enginery_tensorrt.cuda import Graph, Stream
from enginery_tensorrt.shapes import Shape

LOG = logging.getLogger(__name__)

KEPT_GRAPHS = 32
"""Each takes some device memory; servers see few batch sizes, and shapes that never return are pushed out."""


@dataclass(frozen=True)
class Recorded:
    """A graph, and the output shapes that come of it."""

    graph: Graph
    outputs: Mapping[str, Shape]


class Graphs:
    """The graphs used last."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._entries: OrderedDict[Hashable, Recorded | None] = OrderedDict()
        """None for shapes that came once."""

    @property
    def recorded(self) -> int:
        """Graphs in hand."""
        return sum(entry is not None for entry in self._entries.values())

    def find(self, key: Hashable) -> Recorded | None:
        """The graph of these shapes, if they have one."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def offer(self, key: Hashable, stream: Stream, enqueue: Callable[[], bool], outputs: Mapping[str, Shape]) -> None:
        """Called after a run without a graph, its results fetched: remembers the shapes, or records them."""
        if not self._enabled:
            return
        if key not in self._entries:
            self._keep(key, None)
            return
        graph = stream.capture(enqueue)
        if graph is None:
            LOG.info("this engine cannot be recorded as a CUDA graph, it goes on without")
            self.clear()
            self._enabled = False
            return
        self._keep(key, Recorded(graph, dict(outputs)))

    def clear(self) -> None:
        """Forget everything: an address that graphs hold has changed."""
        for entry in self._entries.values():
            if entry is not None:
                entry.graph.free()
        self._entries.clear()

    def _keep(self, key: Hashable, entry: Recorded | None) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        while len(self._entries) > KEPT_GRAPHS:
            _, oldest = self._entries.popitem(last=False)
            if oldest is not None:
                oldest.graph.free()
