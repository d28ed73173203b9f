"""Small models that lower precisions treat badly, each for one reason. Used by the tests of `precision`."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from enginery_builder.artifacts import ConvertedModel
from enginery_builder.backend import Array
from enginery_builder.precision import convert_file
from enginery_store.requests import PrecisionRef
from onnx import TensorProto
from support.onnx_models import FLOAT, constant, model, node, value, weight

ROW = [value("x", FLOAT, ["N", 64])]
OUT = [value("y", FLOAT, ["N", 10])]


def convert(made: onnx.ModelProto, folder: Path, kind: Any, rest: Any = "FP32", **arrays: Array) -> ConvertedModel:
    """What `prepare` would store of this model, from a file of its own."""
    place = folder / f"{kind}-{rest}"
    place.mkdir()
    source = place / "source.onnx"
    source.write_bytes(made.SerializeToString())
    return convert_file(source, PrecisionRef(type=kind, rest=rest), arrays, place / "prepared")


def normal(*shape: int, scale: float = 1.0, seed: int = 0) -> Array:
    """FP32, the same for the same seed."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def rms() -> onnx.ModelProto:
    """x / rms(x), then a matrix product: squares of inputs near 1000 pass 65504, and x / inf is 0."""
    return model(
        [
            node("Pow", ["x", "two"], ["p"], "pow"),
            node("ReduceMean", ["p"], ["m"], "mean", axes=[-1], keepdims=1),
            node("Sqrt", ["m"], ["s"], "sqrt"),
            node("Div", ["x", "s"], ["n"], "div"),
            node("MatMul", ["n", "W"], ["y"], "fc"),
        ],
        ROW,
        OUT,
        [constant("two", 2, np.float32), weight("W", 64, 10)],
    )


def quiet_sum() -> onnx.ModelProto:
    """A mean whose sum passes 65504 where nothing that is written does."""
    return model(
        [node("ReduceMean", ["x"], ["m"], "mean", axes=[1], keepdims=1), node("Sub", ["x", "m"], ["y"], "centre")],
        [value("x", FLOAT, ["N", 4096])],
        [value("y", FLOAT, ["N", 4096])],
    )


def convolutions(opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    """Conv, batch normalisation, residual Conv, pool, Gemm with a bias: [N, 8, 16, 16] to [N, 10]."""
    nodes = [
        node("Conv", ["x", "W1", "B1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "g", "b", "mu", "var"], ["n1"], "norm1"),
        node("Relu", ["n1"], ["r1"], "relu1"),
        node("Conv", ["r1", "W2", "B2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["a"], "residual"),
        node("Relu", ["a"], ["r2"], "relu2"),
        node("GlobalAveragePool", ["r2"], ["p"], "pool"),
        node("Flatten", ["p"], ["f"], "flat"),
        node("Gemm", ["f", "W3", "B3"], ["y"], "fc"),
    ]
    weights = [
        weight("W1", 16, 8, 3, 3), weight("B1", 16), weight("W2", 16, 16, 3, 3, seed=1), weight("B2", 16),
        weight("W3", 16, 10, seed=2), weight("B3", 10), weight("b", 16), weight("mu", 16),
        constant("g", np.full(16, 2.0), np.float32), constant("var", np.full(16, 0.5), np.float32),
    ]  # fmt: skip
    return model(nodes, [value("x", FLOAT, ["N", 8, 16, 16])], OUT, weights, opset=opset, ir=ir)


def masked() -> onnx.ModelProto:
    """Softmax over scores with an additive mask of the least FP32 number, as exporters write attention masks."""
    return model(
        [
            node("Cast", ["keep"], ["k"], "keep_cast", to=FLOAT),
            node("Sub", ["one", "k"], ["drop"], "drop"),
            node("Mul", ["drop", "least"], ["mask"], "mask"),
            node("MatMul", ["x", "W"], ["scores"], "scores"),
            node("Add", ["scores", "mask"], ["masked"], "add"),
            node("Softmax", ["masked"], ["y"], "softmax", axis=-1),
        ],
        [*ROW, value("keep", TensorProto.INT64, ["N", 10])],
        OUT,
        [
            constant("one", 1, np.float32),
            constant("least", np.finfo(np.float32).min, np.float32),
            weight("W", 64, 10),
        ],
    )
