"""The toy net in half precision, and a norm whose squares leave the range of half precision."""

from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto
from support.onnx_cases import toy_net
from support.onnx_cases.case import Maker
from support.onnx_models import FLOAT, constant, model, node, value, weight


def keep_io() -> onnx.ModelProto:
    """Half inside, float inputs and outputs."""
    inner = [item for _, item in toy_net.nodes(x="x_fp16", y="y_fp16")]
    first = node("Cast", ["x"], ["x_fp16"], "x_cast", to=TensorProto.FLOAT16)
    last = node("Cast", ["y_fp16"], ["y"], "y_cast", to=FLOAT)
    return toy_net.net([first, *inner, last], toy_net.weights(np.float16).values())


def pure() -> onnx.ModelProto:
    """Half throughout."""
    made = [item for _, item in toy_net.nodes()]
    return toy_net.net(made, toy_net.weights(np.float16).values(), kind=TensorProto.FLOAT16)


def rms_norm(form: Literal["fp32", "fp16", "fp16_kept"]) -> onnx.ModelProto:
    """x / rms(x), then MatMul. `fp16_kept`: the norm stays in float. In half, squares of x above 255 are infinite."""
    norm_in = "x16" if form == "fp16" else "x"
    norm_out = "n16" if form == "fp16_kept" else "n"
    result = "y" if form == "fp32" else "y16"
    made = [
        node("Pow", [norm_in, "two"], ["p"], "pow"),
        node("ReduceMean", ["p"], ["m"], "mean", axes=[-1], keepdims=1),
        node("Sqrt", ["m"], ["s"], "sqrt"),
        node("Div", [norm_in, "s"], ["n"], "div"),
        node("MatMul", [norm_out, "W"], [result], "fc"),
    ]
    if form == "fp16":
        made.insert(0, node("Cast", ["x"], ["x16"], "x_cast", to=TensorProto.FLOAT16))
    if form == "fp16_kept":
        made.insert(-1, node("Cast", ["n"], ["n16"], "n_cast", to=TensorProto.FLOAT16))
    if form != "fp32":
        made.append(node("Cast", ["y16"], ["y"], "y_cast", to=FLOAT))
    two = constant("two", 2, np.float16 if form == "fp16" else np.float32)
    matrix = weight("W", 64, 10, dtype=np.float32 if form == "fp32" else np.float16)
    return model(made, [value("x", FLOAT, ["N", 64])], [value("y", FLOAT, ["N", 10])], [two, matrix])


MODELS: dict[str, Maker] = {
    "quant_fp32": lambda: toy_net.net([item for _, item in toy_net.nodes()], toy_net.weights().values()),
    "quant_fp16_keep_io": keep_io,
    "quant_fp16_pure": pure,
    "quant_rms_fp32": lambda: rms_norm("fp32"),
    "quant_rms_fp16": lambda: rms_norm("fp16"),
    "quant_rms_fp16_kept": lambda: rms_norm("fp16_kept"),
}
