"""Opsets, IR versions, element types, scales and values: what a parser takes and should not, or narrows in silence."""

import numpy as np
import onnx
from onnx import TensorProto
from support.onnx_cases.case import Maker
from support.onnx_cases.good import fp8_pair, mlp_of
from support.onnx_models import FLOAT, constant, mlp, model, node, one, value

V4 = (FLOAT, [1, 4])


def pair(scale: float = 0.1, zero: int = 0, kind: type[np.integer] = np.int8) -> onnx.ModelProto:
    """One Q/DQ pair."""
    return model(
        [node("QuantizeLinear", ["x", "s", "z"], ["q"], "Q"), node("DequantizeLinear", ["q", "s", "z"], ["y"], "DQ")],
        [value("x", *V4)],
        [value("y", *V4)],
        [constant("s", scale, np.float32), constant("z", zero, kind)],
    )


def dynamic_scale() -> onnx.ModelProto:
    """A Q/DQ pair whose scale is an input."""
    return model(
        [
            node("QuantizeLinear", ["x", "s"], ["q"], "Q", output_dtype=TensorProto.INT8),
            node("DequantizeLinear", ["q", "s"], ["y"], "DQ"),
        ],
        [value("x", *V4), value("s", FLOAT, [])],
        [value("y", *V4)],
        opset=21,
        ir=10,
    )


def half_plus_float() -> onnx.ModelProto:
    """An Add of two precisions, without a Cast."""
    return model(
        [node("Add", ["a", "b"], ["y"], "mixadd")],
        [value("a", TensorProto.FLOAT16, [1, 4]), value("b", *V4)],
        [value("y", *V4)],
    )


def weights_of_nan() -> onnx.ModelProto:
    """One MatMul whose weights are NaN."""
    return model(
        [node("MatMul", ["x", "W"], ["y"], "fc")],
        [value("x", FLOAT, ["N", 64])],
        [value("y", FLOAT, ["N", 10])],
        [constant("W", np.full((64, 10), np.nan), np.float32)],
    )


MODELS: dict[str, Maker] = {
    "opset_5_old": lambda: mlp(opset=5, ir=3),
    "opset_26_new": lambda: mlp(opset=26, ir=12),
    "opset_27": lambda: mlp(opset=27, ir=13),
    "opset_99": lambda: mlp(opset=99, ir=10),
    "opset_ir_99": lambda: mlp(ir=99),
    "type_double_weights": lambda: mlp_of(TensorProto.DOUBLE, np.float64),
    "type_cast_to_double": lambda: one("Cast", (FLOAT, [4]), (TensorProto.DOUBLE, [4]), "c", to=TensorProto.DOUBLE),
    "type_int64_overflow": lambda: one(
        "Add",
        (TensorProto.INT64, [1, 4]),
        (TensorProto.INT64, [1, 4]),
        "add",
        weights=[constant("c", [2**40, 1, 2, 3], np.int64)],
    ),
    "type_uint16": lambda: one("Cast", (TensorProto.UINT16, [1, 4]), V4, "c", to=FLOAT),
    "type_uint8_qdq": lambda: pair(zero=128, kind=np.uint8),
    "type_int8_asym_qdq": lambda: pair(zero=5),
    "type_qdq_zero_scale": lambda: pair(scale=0),
    "type_qdq_dynamic_scale": dynamic_scale,
    "type_fp8_undeclared": fp8_pair,
    "type_nan_weights": weights_of_nan,
    "mix_fp16_fp32_add": half_plus_float,
}
