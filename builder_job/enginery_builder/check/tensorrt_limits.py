"""What TensorRT and TensorRT-RTX are known to refuse, said before a device is taken. Called by `check_request`.

Everything here is valid ONNX that other backends run. Each limit was met in a build that failed, mostly in words that
name neither node nor input.
"""

from collections.abc import Sequence

import onnx
from enginery_store.errors import FinalError
from enginery_store.manifest import ShapeProfile, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted

from enginery_builder.check import quantization, tensorrt_operators
from enginery_builder.check.structure import Structure
from enginery_builder.onnx_files import every_graph, every_tensor

MOST_DIMENSIONS = 8

_WHOLE = "export it as INT32 or INT64"
_FOREIGN_TYPES = {
    "BYTES": ("a string tensor", "handle text outside the model"),
    "FP64": ("FP64", "export the model in FP32"),
    **{name: (name, _WHOLE) for name in ("INT16", "UINT16", "UINT32", "UINT64")},
}
"""Datatypes of inputs and outputs that no engine has: what they are, and what to do."""

_FOREIGN_ELEMENTS = frozenset(
    {
        onnx.TensorProto.STRING,
        onnx.TensorProto.INT16,
        onnx.TensorProto.UINT16,
        onnx.TensorProto.UINT32,
        onnx.TensorProto.UINT64,
        onnx.TensorProto.COMPLEX64,
        onnx.TensorProto.COMPLEX128,
    }
)


def require_tensorrt(
    backend: str, structure: Structure, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> None:
    """Raises FinalError: UnsupportedOperator, or SourceInvalid for a graph to be exported or quantized again."""
    _require_types("input", inputs)
    _require_types("output", outputs)
    _require_operators(backend, structure)
    _require_constant_types(structure.model)
    _require_dimensions(structure)
    quantization.require_tensorrt_form(structure)
    _require_equal_branches(structure)


def require_ranges(inputs: Sequence[TensorSpec], shape_inputs: Sequence[str], profiles: Sequence[ShapeProfile]) -> None:
    """Every profile gives a range for every input that is free, or whose values are sizes. Raises InvalidShapes."""
    needed = [spec.name for spec in inputs if -1 in spec.shape]
    needed += [name for name in shape_inputs if name not in needed]
    if needed and not profiles:
        raise _shapes(
            f"input {listed(needed)} has no fixed size, and TensorRT needs to know the range; write min, opt and max of"
            " it in spec.shapes.profiles"
        )
    for profile in profiles:
        missing = [name for name in needed if name not in {item.name for item in profile.inputs}]
        if missing and missing[0] in shape_inputs:
            raise _shapes(
                f"spec.shapes.profiles {quoted(profile.name)}: the values of input {quoted(missing[0])} decide a shape;"
                " write min, opt and max of its values"
            )
        if missing:
            raise _shapes(
                f"spec.shapes.profiles {quoted(profile.name)} leaves out input {listed(missing)}, which has no fixed"
                " size; write min, opt and max of it"
            )


def _require_types(kind: str, tensors: Sequence[TensorSpec]) -> None:
    """FP64 is refused although parsers read it: the engine takes and answers FP32, which clients were not promised."""
    for spec in tensors:
        if spec.datatype in _FOREIGN_TYPES:
            what, advice = _FOREIGN_TYPES[spec.datatype]
            raise _unsupported(f"{kind} {quoted(spec.name)} is {what}, which TensorRT does not take; {advice}")


def _require_operators(backend: str, structure: Structure) -> None:
    local = frozenset((function.domain, function.name) for function in structure.model.functions)
    for graph in every_graph(structure.model):
        for node in graph.node:
            if text := tensorrt_operators.fault(node, backend, structure, local):
                raise _unsupported(text)


def _require_constant_types(model: onnx.ModelProto) -> None:
    for tensor in every_tensor(model):
        if tensor.data_type in _FOREIGN_ELEMENTS:
            kind = onnx.TensorProto.DataType.Name(tensor.data_type)
            raise _unsupported(
                f"constant {quoted(tensor.name)} is {kind}, which TensorRT does not support; export it as INT32 or"
                " INT64 (quantized tensors: as INT8)"
            )


def _require_dimensions(structure: Structure) -> None:
    graph = structure.inferred.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        count = len(value.type.tensor_type.shape.dim)
        if count > MOST_DIMENSIONS:
            raise _unsupported(
                f"tensor {quoted(value.name)} has {count} dimensions, TensorRT allows {MOST_DIMENSIONS}; export the"
                " model with fewer"
            )


def _require_equal_branches(structure: Structure) -> None:
    """Both branches of an If give tensors of one rank; unknown ranks, and a constant condition, pass."""
    for graph in every_graph(structure.inferred):
        for node in graph.node:
            if node.op_type != "If" or node.input[0] in structure.constants:
                continue
            for values in zip(*(branch.output for branch in _branches(node)), strict=False):
                kinds = [value.type.tensor_type for value in values]
                if len({len(kind.shape.dim) for kind in kinds if kind.HasField("shape")}) > 1:
                    raise FinalError(
                        f"the branches of If (node {quoted(node.name)}) give different numbers of dimensions, which"
                        " TensorRT refuses; make them equal",
                        reason=Reason.SOURCE_INVALID,
                    )


def _branches(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]


def _unsupported(text: str) -> FinalError:
    return FinalError(text, reason=Reason.UNSUPPORTED_OPERATOR)


def _shapes(text: str) -> FinalError:
    return FinalError(text, reason=Reason.INVALID_SHAPES)
