"""Which inputs are sizes? A model may take the shape of its answer as an input; compilers must know its range."""

import onnx

from enginery_builder.onnx_files import real_inputs

_SHAPE_PORTS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,),
    "Expand": (1,),
    "ConstantOfShape": (0,),
    "Tile": (1,),
    "Resize": (3,),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
    "Pad": (1,),
    "TopK": (1,),
}
"""Operator to the inputs whose values decide the shape of its output."""

_PASSING = frozenset(
    {
        "Add",
        "Cast",
        "Concat",
        "Div",
        "Gather",
        "Identity",
        "Max",
        "Min",
        "Mul",
        "Reshape",
        "Squeeze",
        "Sub",
        "Unsqueeze",
    }
)
"""Operators that compute one size from another."""

_INTEGERS = frozenset({onnx.TensorProto.INT32, onnx.TensorProto.INT64})


def shape_inputs(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Names of scalar and one-dimensional integer inputs whose values reach a size."""
    sizes = {name for node in graph.node for name in _ports(node)}
    for node in reversed(graph.node):
        if node.op_type in _PASSING and not sizes.isdisjoint(node.output):
            sizes.update(node.input)
    return tuple(value.name for value in real_inputs(graph) if value.name in sizes and _is_list(value))


def _ports(node: onnx.NodeProto) -> list[str]:
    return [node.input[index] for index in _SHAPE_PORTS.get(node.op_type, ()) if index < len(node.input)]


def _is_list(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.tensor_type
    return kind.elem_type in _INTEGERS and len(kind.shape.dim) <= 1 and all(dim.dim_value for dim in kind.shape.dim)
