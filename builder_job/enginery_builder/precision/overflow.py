"""Which nodes must stay in FP32, because half precision ends at 65504. Called by `precision`; see `ranges`.

What overflows gives zeros (x / inf = 0), no NaN, so it must be found beforehand. bfloat16 has FP32's range and needs
none of this.
"""

import math
from collections.abc import Mapping

import numpy as np
import onnx

from enginery_builder.backend import Tensors
from enginery_builder.precision.ranges import Ranges
from enginery_builder.precision.sessions import FLOAT, Session
from enginery_builder.precision.weights import Workbench

LARGEST_HALF = 65504.0
"""The largest finite FP16 number."""

LIMIT = LARGEST_HALF / 4
"""Largest activation that is trusted to half precision. Samples show a part of what will come: four times their
largest still fits. (AutoCast of NVIDIA ModelOpt takes 512, as the square of 512 no longer fits; here squares and sums
are measured themselves, so nothing has to be guessed from their inputs.)"""

STAND_IN = 1e30
"""Finite constants beyond it stand for infinity: attention masks of -3.4e38, the least FP32 number."""

SATURATED = 8000.0
"""What becomes of them: exp(-8000) is 0 as well, and two such masks added stay within LIMIT."""


def saturate_stand_ins(bench: Workbench, model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with SATURATED in place of stand-ins for infinity; None where it has none."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    changed = False
    for index, tensor in enumerate(model.graph.initializer):
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        values = bench.read(tensor)
        far = np.isfinite(values) & (np.abs(values) >= STAND_IN)
        if far.any():
            near = np.where(far, np.copysign(np.float32(SATURATED), values), values)
            made.graph.initializer[index].CopyFrom(bench.tensor(tensor.name, near))
            changed = True
    return made if changed else None


def overflowing_nodes(
    bench: Workbench, model: onnx.ModelProto, types: Mapping[str, str], ranges: Ranges
) -> dict[int, float]:
    """Positions of nodes that read, write or sum up to what half precision may not hold, and the magnitude found."""
    sizes = dict(ranges.tensors)
    weights = {
        tensor.name: _magnitude(bench, tensor) for tensor in model.graph.initializer if types.get(tensor.name) == FLOAT
    }
    found = {}
    for index, node in enumerate(model.graph.node):
        names = [name for name in (*node.input, *node.output) if types.get(name) == FLOAT]
        measured = max([sizes.get(name, 0.0) for name in names], default=0.0)
        summed = max(ranges.sums.get(node.output[0], 0.0), _pooled(node, sizes))
        stored = max([weights.get(name, 0.0) for name in names], default=0.0)
        if max(measured, summed) > LIMIT or stored > LARGEST_HALF:
            found[index] = max(measured, summed, stored)
    return found


def _magnitude(bench: Workbench, tensor: onnx.TensorProto) -> float:
    values = bench.read(tensor)
    finite = values[np.isfinite(values)]
    return float(max(finite.max(initial=0.0), -finite.min(initial=0.0)))


def _pooled(node: onnx.NodeProto, sizes: Mapping[str, float]) -> float:
    """The most that a window of an average pool can add up to."""
    if node.op_type != "AveragePool":
        return 0.0
    kernel = next(item.ints for item in node.attribute if item.name == "kernel_shape")
    return sizes.get(node.input[0], 0.0) * math.prod(kernel)


def same_outputs(one: Session, other: Session, names: list[str], feeds: Tensors) -> bool:
    """Whether two models agree on an input, up to rounding."""
    pairs = zip(one.run(names, feeds), other.run(names, feeds), strict=True)
    return all(
        first.shape == second.shape
        and (first.dtype.kind != "f" or np.allclose(first, second, rtol=1e-3, atol=1e-4, equal_nan=True))
        for first, second in pairs
    )
