"""Half precision on a CPU, as a device rounds it: for engines that are compiled where they cannot run. Called by
`measure`.

ONNX Runtime computes FP16 graphs in FP32 on CPUs, which hides overflow, and has no BF16 at all. Here every node
computes in FP32, and what it writes is rounded to half precision before the next one reads it.
"""

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from enginery_builder.onnx_files import parse_model

_HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})


def emulated(model: Path) -> Path:
    """A model beside this one, over the same external data, that rounds as a device does; the model itself where it
    holds nothing in half precision.
    """
    proto = parse_model(model.read_bytes())
    halves = dict(_halves(proto))
    if not halves:
        return model
    nodes = list(proto.graph.node)
    del proto.graph.node[:], proto.graph.value_info[:]
    widened: set[str] = set()
    for node in nodes:
        proto.graph.node.extend(_rounding(node, halves, widened))
    path = model.with_name(f"emulated-{model.name}")
    path.write_bytes(proto.SerializeToString())
    return path


def _rounding(node: onnx.NodeProto, halves: dict[str, int], widened: set[str]) -> Iterator[onnx.NodeProto]:
    """The node in FP32, with the casts before and behind it; a cast is rounding itself."""
    if node.op_type == "Cast":
        yield node
        return
    for position, name in enumerate(node.input):
        if name in halves:
            node.input[position] = f"{name}_widened"
            if name not in widened:
                widened.add(name)
                yield helper.make_node("Cast", [name], [f"{name}_widened"], to=TensorProto.FLOAT)
    rounded = [name for name in node.output if name in halves]
    for position, name in enumerate(node.output):
        if name in halves:
            node.output[position] = f"{name}_exact"
    yield node
    for name in rounded:
        yield helper.make_node("Cast", [f"{name}_exact"], [name], to=halves[name])


def _halves(proto: onnx.ModelProto) -> Iterator[tuple[str, int]]:
    """Names and types of everything in half precision."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.elem_type in _HALVES:
            yield value.name, value.type.tensor_type.elem_type
    for tensor in graph.initializer:
        if tensor.data_type in _HALVES:
            yield tensor.name, tensor.data_type
