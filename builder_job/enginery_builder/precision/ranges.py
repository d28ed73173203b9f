"""How large activations get: the FP32 model is run on samples, with the extremes of every tensor as outputs.

Called by `precision`. The extremes are computed in the graph, tensor after tensor, so that memory holds what a plain
run holds; of each only the largest magnitude so far is kept.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx
from onnx import helper

from enginery_builder.backend import Array, Tensors
from enginery_builder.precision.sessions import FLOAT, Session
from enginery_builder.precision.weights import Workbench

LOG = logging.getLogger(__name__)

_SUMS: dict[str, tuple[str, dict[str, int], int]] = {
    "ReduceSum": ("ReduceSum", {}, 1),
    "ReduceMean": ("ReduceL1", {}, 1),
    "ReduceL1": ("ReduceL1", {}, 1),
    "ReduceL2": ("ReduceL2", {}, 2),
    "ReduceSumSquare": ("ReduceSumSquare", {}, 1),
    "ReduceLogSum": ("ReduceL1", {}, 1),
    "GlobalAveragePool": ("GlobalLpPool", {"p": 1}, 1),
    "InstanceNormalization": ("GlobalLpPool", {"p": 2}, 2),
    "CumSum": ("CumSum", {}, 1),
}
"""Operators that add up more than their output shows, and what gives the sum of the magnitudes: operator, attributes of
its own, and the power its result is raised to. Others are safe: Softmax adds numbers of at most 1, LayerNormalization
and its kin compute their statistics in FP32 (stash_type), and matrix products are summed in FP32 by tensor cores."""


@dataclass
class Ranges:
    """Largest magnitude of each FP32 tensor, and of the sums within nodes (by their first output)."""

    tensors: dict[str, float] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    elements: dict[str, int] = field(default_factory=dict)
    """Elements of each tensor in the largest batch."""


def measure_ranges(
    bench: Workbench, model: onnx.ModelProto, types: Mapping[str, str], batches: Iterable[Tensors]
) -> Ranges:
    """Run every batch. Raises EngineryError (CalibrationFailed)."""
    probes = _Probes(model, types)
    session = Session(bench.save(probes.model, "ranges.onnx"))
    found = Ranges()
    runs = 0
    for feeds in batches:
        for reading, value in zip(probes.readings.values(), session.run(list(probes.readings), feeds), strict=True):
            reading.note(found, value)
        runs += 1
    LOG.info("ranges measured", extra={"tensors": len(found.tensors), "runs": runs})
    return found


@dataclass(frozen=True)
class _Reading:
    """What one output of the probed model tells."""

    of: Literal["tensor", "sum", "size"]
    name: str
    power: int = 1

    def note(self, found: Ranges, value: Array) -> None:
        if self.of == "size":
            found.elements[self.name] = max(found.elements.get(self.name, 0), int(value))
            return
        kept = found.tensors if self.of == "tensor" else found.sums
        # Infinity is no overflow: it was in the FP32 model, as an attention mask, and stays what it is.
        finite = np.abs(value[np.isfinite(value)].astype(np.float64))
        kept[self.name] = max(kept.get(self.name, 0.0), float(finite.max(initial=0.0)) ** self.power)


class _Probes:
    """The model with its extremes as outputs, and what each output tells."""

    def __init__(self, model: onnx.ModelProto, types: Mapping[str, str]) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.readings: dict[str, _Reading] = {}
        graph = self.model.graph
        del graph.node[:], graph.output[:]
        for value in model.graph.input:
            self._watch(value.name, types)
        for node in model.graph.node:
            graph.node.append(node)
            if node.op_type in _SUMS and types.get(node.input[0]) == FLOAT:
                self._watch_sum(node)
            for name in node.output:
                self._watch(name, types)

    def _watch(self, name: str, types: Mapping[str, str]) -> None:
        if types.get(name) == FLOAT:
            for extreme in ("ReduceMax", "ReduceMin"):
                self._add(helper.make_node(extreme, [name], [], keepdims=1), _Reading("tensor", name))
            self._add(helper.make_node("Size", [name], []), _Reading("size", name))

    def _watch_sum(self, node: onnx.NodeProto) -> None:
        """The operator of _SUMS on magnitudes, with those of the node's inputs and attributes that it has too."""
        what, extra, power = _SUMS[node.op_type]
        magnitudes = f"enginery_magnitudes_{len(self.readings)}"
        self.model.graph.node.append(helper.make_node("Abs", [node.input[0]], [magnitudes]))
        rest = () if what == "GlobalLpPool" else node.input[1:]
        probe = helper.make_node(what, [magnitudes, *rest], [])
        probe.attribute.extend(helper.make_attribute(key, value) for key, value in extra.items())
        if what != "GlobalLpPool":
            probe.attribute.extend(node.attribute)
        self._add(probe, _Reading("sum", node.output[0], power))

    def _add(self, probe: onnx.NodeProto, reading: _Reading) -> None:
        name = f"enginery_probe_{len(self.readings)}"
        probe.output.append(name)
        self.model.graph.node.append(probe)
        self.model.graph.output.append(onnx.ValueInfoProto(name=name))
        self.readings[name] = reading
