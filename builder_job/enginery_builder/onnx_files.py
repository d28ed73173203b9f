"""Reading ONNX files without trusting them: tensors wherever they hide, external data, datatypes. Called by the steps.

onnx.load would read external data while loading; here the proto is parsed alone, and every path in it is looked at
before a byte is read from where it points.
"""

from collections.abc import Iterator
from pathlib import Path

import onnx
from enginery_store.manifest import TensorSpec

DATATYPES: dict[int, str] = {
    onnx.TensorProto.FLOAT: "FP32",
    onnx.TensorProto.UINT8: "UINT8",
    onnx.TensorProto.INT8: "INT8",
    onnx.TensorProto.UINT16: "UINT16",
    onnx.TensorProto.INT16: "INT16",
    onnx.TensorProto.INT32: "INT32",
    onnx.TensorProto.INT64: "INT64",
    onnx.TensorProto.STRING: "BYTES",
    onnx.TensorProto.BOOL: "BOOL",
    onnx.TensorProto.FLOAT16: "FP16",
    onnx.TensorProto.DOUBLE: "FP64",
    onnx.TensorProto.UINT32: "UINT32",
    onnx.TensorProto.UINT64: "UINT64",
    onnx.TensorProto.BFLOAT16: "BF16",
}
"""ONNX element types that the Open Inference Protocol can carry, by its names."""

DEFAULT_DOMAINS = frozenset({"", "ai.onnx"})
"""Two spellings of ONNX's own operator domain."""


def parse_model(data: bytes) -> onnx.ModelProto:
    """The proto alone, no external data. Raises protobuf's DecodeError."""
    model = onnx.ModelProto()
    model.ParseFromString(data)
    return model


def graphs_below(nodes: "onnx.GraphProto | onnx.FunctionProto") -> Iterator[onnx.GraphProto]:
    """Subgraphs in attributes of these nodes, one level down (If, Loop, Scan)."""
    for node in nodes.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g
            yield from attribute.graphs


def every_graph(model: onnx.ModelProto) -> Iterator["onnx.GraphProto | onnx.FunctionProto"]:
    """The graph, the model's functions, and all graphs within them."""
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting.extend(graphs_below(graph))


def every_tensor(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Initializers, sparse values and tensor attributes of every graph: whatever may hold or point to weights."""
    for graph in every_graph(model):
        if isinstance(graph, onnx.GraphProto):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    yield attribute.t
                yield from attribute.tensors
                if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                    yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)


def external_tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Tensors whose bytes are in another file."""
    return [tensor for tensor in every_tensor(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]


def external_fields(tensor: onnx.TensorProto) -> dict[str, str]:
    """`location`, `offset`, `length` and what else the tensor says about its external bytes."""
    return {entry.key: entry.value for entry in tensor.external_data}


def bits_per_element(data_type: int) -> int | None:
    """Size of one element in raw bytes; None for strings and for types this version of onnx does not know."""
    small: dict[int, int] = {
        onnx.TensorProto.UINT4: 4,
        onnx.TensorProto.INT4: 4,
        onnx.TensorProto.FLOAT4E2M1: 4,
    }
    if data_type in small:
        return small[data_type]
    if data_type == onnx.TensorProto.STRING:
        return None
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(data_type).itemsize) * 8
    except (KeyError, ValueError, TypeError):
        return None


def tensor_spec(value: onnx.ValueInfoProto) -> TensorSpec:
    """Name, OIP datatype and shape (-1 where free, or unknown). Raises KeyError for a type the protocol lacks."""
    kind = value.type.tensor_type
    shape = [dim.dim_value if dim.dim_value > 0 else -1 for dim in kind.shape.dim]
    return TensorSpec(name=value.name, datatype=DATATYPES[kind.elem_type], shape=shape)


def real_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs that a caller must give: those without an initializer of the same name."""
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {sparse.values.name for sparse in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in constants]


def file_of(model_path: Path, location: str) -> Path:
    """Where external data lie: beside the model. The location was checked before."""
    return model_path.parent / location
