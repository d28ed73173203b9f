"""What is legal and probably not meant: said in notes, refused by nobody. Called by `check_model`."""

from collections.abc import Iterator

import numpy as np
import onnx
from enginery_store.wording import listed, quoted

from enginery_builder.check.structure import Structure
from enginery_builder.onnx_files import DEFAULT_DOMAINS, every_graph, real_inputs


def notes(structure: Structure) -> list[str]:
    """One sentence for each kind of oddity, naming the first nodes or inputs."""
    return [*_unused_inputs(structure.model), *_divisions_by_zero(structure), *_half_squares(structure)]


def _unused_inputs(model: onnx.ModelProto) -> Iterator[str]:
    read = {name for graph in every_graph(model) for node in graph.node for name in node.input}
    read |= {value.name for graph in every_graph(model) if isinstance(graph, onnx.GraphProto) for value in graph.output}
    if unused := [value.name for value in real_inputs(model.graph) if value.name not in read]:
        yield f"input {listed(unused)} is not used by the model, yet clients must send it; export the model without it"


def _divisions_by_zero(structure: Structure) -> Iterator[str]:
    for node in _nodes(structure, "Div"):
        divisor = structure.constants.get(node.input[1]) if len(node.input) > 1 else None
        if divisor is not None and (divisor == 0).any():
            yield f"Div (node {quoted(node.name)}) divides by a constant 0: its answers are infinite or NaN"
            return


def _half_squares(structure: Structure) -> Iterator[str]:
    """Norms exported in half precision: x * x is infinite from 256 on, and x divided by that is 0."""
    powers = [node.name for node in _nodes(structure, "Pow") if _squares_half(structure, node)]
    if powers:
        yield (
            f"Pow (node {listed(powers)}) computes in FP16, whose largest value is {np.finfo(np.float16).max:.0f}: it"
            " passes that for larger inputs, and answers become 0; export in FP32 and let spec.precision.type FP16"
            " keep such nodes in FP32"
        )


def _squares_half(structure: Structure, node: onnx.NodeProto) -> bool:
    exponent = structure.constants.get(node.input[1])
    grows = exponent is None or bool((exponent > 1).any())
    return grows and structure.types.get(node.input[0]) == onnx.TensorProto.FLOAT16


def _nodes(structure: Structure, operator: str) -> Iterator[onnx.NodeProto]:
    for graph in every_graph(structure.model):
        yield from (node for node in graph.node if node.op_type == operator and node.domain in DEFAULT_DOMAINS)
