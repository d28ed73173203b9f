"""A model's graph without its weights, with the shapes and types of every tensor. Called by the checks after the first.

What ONNX's own inference finds is used to bound memory and to see types. It knows nothing of sizes that depend on data;
those tensors are left out.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx

from enginery_builder.backend import Array
from enginery_builder.check import tensors
from enginery_builder.onnx_files import bits_per_element, every_graph, every_tensor, parse_model
from enginery_builder.shapes import Shapes

SMALL_BYTES = 1 << 16
"""Larger weights are dropped: what decides a shape or a limit (sizes, axes, zero points) is smaller."""

LONGEST_VECTOR = 1 << 16
"""Inference that follows the values of vectors keeps an object for each element: 8 GB for 16 million of them, which one
number in a profile may ask for. Vectors that hold shapes are short."""


@dataclass(frozen=True)
class Structure:
    """A graph of which only small constants are left."""

    model: onnx.ModelProto

    @cached_property
    def constants(self) -> dict[str, Array]:
        """Small constants by name: initializers and Constant nodes of every graph."""
        found: dict[str, onnx.TensorProto] = {}
        for graph in every_graph(self.model):
            if isinstance(graph, onnx.GraphProto):
                found |= {tensor.name: tensor for tensor in graph.initializer}
            for node in graph.node:
                if node.op_type == "Constant" and node.output:
                    found |= dict.fromkeys(node.output[:1], _value_of(node))
        known = {name: tensors.small_values(tensor) for name, tensor in found.items() if _has_data(tensor)}
        return {name: values for name, values in known.items() if values is not None}

    @cached_property
    def types(self) -> dict[str, int]:
        """ONNX element type by the name of a tensor, where known."""
        graph = self.inferred.graph
        values = (*graph.input, *graph.value_info, *graph.output)
        found = {value.name: value.type.tensor_type.elem_type for value in values}
        return found | {tensor.name: tensor.data_type for tensor in graph.initializer}

    @cached_property
    def inferred(self) -> onnx.ModelProto:
        """The model with shapes as far as they are known without a profile."""
        return _inferred(self.model)

    def sizes_at(self, shapes: Shapes) -> dict[str, int]:
        """Bytes of each tensor that nodes make, by name, when the inputs have these shapes."""
        asked = onnx.ModelProto()
        asked.CopyFrom(self.model)
        for value in asked.graph.input:
            if value.name in shapes:
                _set_shape(value, shapes[value.name])
        for value in asked.graph.output:
            value.type.tensor_type.ClearField("shape")
        del asked.graph.value_info[:]
        graph = _inferred(asked).graph
        made = {name for node in graph.node for name in node.output}
        sizes = {value.name: _bytes_of(value) for value in (*graph.value_info, *graph.output) if value.name in made}
        return {name: size for name, size in sizes.items() if size is not None}

    def maker_of(self, tensor: str) -> onnx.NodeProto:
        """The node of the main graph that makes a tensor."""
        return next(node for node in self.model.graph.node if tensor in node.output)


def structure_of(path: Path) -> Structure:
    """Read a checked model again and drop its large weights; small ones in other files are read in."""
    model = parse_model(path.read_bytes())
    for tensor in every_tensor(model):
        _keep_small(tensor, path)
    return Structure(model)


def _keep_small(tensor: onnx.TensorProto, path: Path) -> None:
    size = math.prod(tensor.dims) * (bits_per_element(tensor.data_type) or 8) // 8
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if size > SMALL_BYTES:
        for name in tensors.DATA_FIELDS:
            tensor.ClearField(name)
    elif external:
        tensor.raw_data = tensors.external_bytes(tensor, path)
    if external:
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")


def _value_of(constant: onnx.NodeProto) -> onnx.TensorProto:
    """What a Constant node gives; an empty tensor where it is not written as a tensor."""
    return next((item.t for item in constant.attribute if item.name == "value"), onnx.TensorProto())


def _has_data(tensor: onnx.TensorProto) -> bool:
    return not math.prod(tensor.dims) or any(
        tensor.HasField(name) if name == "raw_data" else len(getattr(tensor, name)) for name in tensors.DATA_FIELDS
    )


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """With shapes as far as they can be known; as it is where inference fails, as ONNX Runtime judges that better."""
    try:
        plain = onnx.shape_inference.infer_shapes(model)
        return plain if _has_long_vector(plain.graph) else onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - the library raises many types with no common base
        return model


def _has_long_vector(graph: onnx.GraphProto) -> bool:
    shapes = [value.type.tensor_type.shape for value in (*graph.input, *graph.value_info)]
    return any(len(shape.dim) == 1 and shape.dim[0].dim_value > LONGEST_VECTOR for shape in shapes)


def _set_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    dims = value.type.tensor_type.shape
    dims.Clear()
    for size in shape:
        dims.dim.add(dim_value=size)


def _bytes_of(value: onnx.ValueInfoProto) -> int | None:
    kind = value.type.tensor_type
    bits = bits_per_element(kind.elem_type) if kind.HasField("shape") else None
    if bits is None or any(dim.WhichOneof("value") != "dim_value" for dim in kind.shape.dim):
        return None
    return math.prod(dim.dim_value for dim in kind.shape.dim) * bits // 8
