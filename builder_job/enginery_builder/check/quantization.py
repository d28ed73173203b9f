"""Quantization nodes that a source brings along: scales that can work, and the forms that TensorRT takes."""

from collections.abc import Iterator

import numpy as np
import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.backend import Array
from enginery_builder.check.structure import Structure
from enginery_builder.onnx_files import every_graph

_OPERATORS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_FP8 = frozenset(
    {
        onnx.TensorProto.FLOAT8E4M3FN,
        onnx.TensorProto.FLOAT8E4M3FNUZ,
        onnx.TensorProto.FLOAT8E5M2,
        onnx.TensorProto.FLOAT8E5M2FNUZ,
    }
)

_SCALE, _ZERO_POINT = 1, 2
"""Indices of their inputs."""


def require_positive_scales(structure: Structure) -> None:
    """Raises FinalError (SourceInvalid): a scale of 0 divides by zero. (A weight may be restored by any scale.)"""
    for node in _nodes(structure):
        if node.op_type != "QuantizeLinear":
            continue
        scale = _constant(structure, node, _SCALE)
        if scale is not None and not (np.asarray(scale, np.float64) > 0).all():
            raise _invalid(
                f"{_called(node)} has a scale that is not positive: the calibration data never moved this tensor;"
                " quantize again with calibration data that do"
            )


def require_declared(structure: Structure, precision: str) -> None:
    """Raises FinalError (InvalidSpec) for a graph in FP8 that the spec calls something else: most devices lack FP8."""
    held = sorted(name for name, kind in structure.types.items() if kind in _FP8)
    if held and precision != "FP8":
        raise FinalError(
            f"tensor {quoted(held[0])} is FP8, and spec.precision.type is {precision}; write type FP8 and quantization"
            " Prequantized, so that only devices with FP8 are taken",
            reason=Reason.INVALID_SPEC,
        )


def require_tensorrt_form(structure: Structure) -> None:
    """Raises FinalError (SourceInvalid) for what TensorRT's parser refuses: quantized biases, zero points."""
    for node in _nodes(structure):
        if node.op_type == "DequantizeLinear" and structure.types.get(node.input[0]) == onnx.TensorProto.INT32:
            raise _invalid(
                f"{_called(node)} reads a bias quantized to INT32, which TensorRT refuses; quantize again with"
                " QuantizeBias=False (and ActivationSymmetric=True)"
            )
    for node in _nodes(structure):
        zero = _constant(structure, node, _ZERO_POINT)
        if zero is not None and np.asarray(zero, np.float64).any():
            raise _invalid(
                f"{_called(node)} has a zero point other than 0, which TensorRT does not support; quantize again with"
                " signed INT8 and ActivationSymmetric=True"
            )


def _nodes(structure: Structure) -> Iterator[onnx.NodeProto]:
    for graph in every_graph(structure.model):
        yield from (node for node in graph.node if node.op_type in _OPERATORS)


def _constant(structure: Structure, node: onnx.NodeProto, index: int) -> Array | None:
    return structure.constants.get(node.input[index]) if len(node.input) > index else None


def _called(node: onnx.NodeProto) -> str:
    return f"{quoted(node.op_type)} (node {quoted(node.name)})"


def _invalid(text: str) -> FinalError:
    return FinalError(text, reason=Reason.SOURCE_INVALID)
