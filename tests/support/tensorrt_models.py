"""Small models at every precision, with the precision in the graph as the builder prepares it. For builder tests."""

from collections.abc import Sequence

import numpy as np
import onnx
from enginery_store.manifest import InputRange, ShapeProfile
from onnx import TensorProto, helper, numpy_helper
from support.onnx_models import FLOAT, constant, mlp, model, node, value, weight


def cast_mlp(to: int) -> onnx.ModelProto:
    """The MLP with FP32 inputs and outputs that computes in another floating-point type."""
    return model(
        [
            node("Cast", ["x"], ["x_low"], "cast_x", to=to),
            node("MatMul", ["x_low", "W1"], ["h"], "fc1"),
            node("Relu", ["h"], ["r"], "act"),
            node("MatMul", ["r", "W2"], ["y_low"], "fc2"),
            node("Cast", ["y_low"], ["y"], "cast_y", to=FLOAT),
        ],
        [value("x", FLOAT, ["N", 64])],
        [value("y", FLOAT, ["N", 10])],
        [_low("W1", to, 64, 128), _low("W2", to, 128, 10)],
    )


def _low(name: str, kind: int, *shape: int) -> onnx.TensorProto:
    values = numpy_helper.to_array(weight(name, *shape))
    if kind == TensorProto.FLOAT16:
        return numpy_helper.from_array(values.astype(np.float16), name)
    halves = (values.view(np.uint32) >> 16).astype(np.uint16)  # bfloat16 is float32 without its lower half
    return helper.make_tensor(name, TensorProto.BFLOAT16, shape, halves.tobytes(), raw=True)


def quantized_mlp(kind: int = TensorProto.INT8) -> onnx.ModelProto:
    """The MLP with symmetric Q/DQ pairs around the inputs of its first product; FP8 where `kind` says so."""
    zero = helper.make_tensor("zero", kind, [], b"\0", raw=True)

    def pair(name: str) -> list[onnx.NodeProto]:
        return [
            node("QuantizeLinear", [name, "scale", "zero"], [f"{name}_q"], f"{name}_Q"),
            node("DequantizeLinear", [f"{name}_q", "scale", "zero"], [f"{name}_dq"], f"{name}_DQ"),
        ]

    return model(
        [
            *pair("x"),
            *pair("W1"),
            node("MatMul", ["x_dq", "W1_dq"], ["h"], "fc1"),
            node("Relu", ["h"], ["r"], "act"),
            node("MatMul", ["r", "W2"], ["y"], "fc2"),
        ],
        [value("x", FLOAT, ["N", 64])],
        [value("y", FLOAT, ["N", 10])],
        [weight("W1", 64, 128), weight("W2", 128, 10), constant("scale", 0.02, np.float32), zero],
        opset=19,
        ir=9,
    )


def at_precision(precision: str) -> onnx.ModelProto:
    """The MLP that computes in FP32, FP16, BF16, INT8 or FP8."""
    if precision == "FP32":
        return mlp()
    if precision in {"INT8", "FP8"}:
        return quantized_mlp(TensorProto.INT8 if precision == "INT8" else TensorProto.FLOAT8E4M3FN)
    return cast_mlp(TensorProto.FLOAT16 if precision == "FP16" else TensorProto.BFLOAT16)


def profile(name: str = "default", **ranges: Sequence[Sequence[int]]) -> ShapeProfile:
    """A profile from (min, opt, max) by input."""
    return ShapeProfile(
        name=name,
        inputs=[
            InputRange(name=input_name, min=list(low), opt=list(best), max=list(high))
            for input_name, (low, best, high) in ranges.items()
        ],
    )


BATCHES = profile(x=([1, 64], [8, 64], [32, 64]))
"""For the MLP."""
