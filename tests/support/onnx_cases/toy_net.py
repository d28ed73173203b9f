"""The float net that all quantized and half-precision cases come from: two Conv, a residual Add, a pool and a Gemm."""

from collections.abc import Callable, Iterable

import numpy as np
import onnx
from support.onnx_models import FLOAT, model, node, value, weight

SCALES = {
    "x": 0.035,
    "c1": 0.057,
    "r1": 0.057,
    "c2": 0.097,
    "a": 0.11,
    "r2": 0.11,
    "p": 0.025,
    "f": 0.025,
    "b": 0.014,
    "y": 0.0068,
}
"""Quantization scale of each activation, for standard normal input."""

WEIGHT_SHAPES = {"W1": (16, 8, 3, 3), "B1": (16,), "W2": (16, 16, 3, 3), "B2": (16,), "W3": (16, 10), "B3": (10,)}


def weights(dtype: type[np.floating] = np.float32) -> dict[str, onnx.TensorProto]:
    """Weights (W) and biases (B) of the three layers."""
    return {
        name: weight(name, *shape, seed=seed, dtype=dtype) for seed, (name, shape) in enumerate(WEIGHT_SHAPES.items())
    }


def nodes(
    read: Callable[[str], str] = lambda name: name, *, x: str = "x", y: str = "y"
) -> list[tuple[str, onnx.NodeProto]]:
    """Each node with the name of the activation it makes; `read` says under which name others read a tensor."""
    return [
        ("c1", node("Conv", [read(x), read("W1"), read("B1")], ["c1"], "conv1", pads=[1, 1, 1, 1])),
        ("r1", node("Relu", [read("c1")], ["r1"], "relu1")),
        ("c2", node("Conv", [read("r1"), read("W2"), read("B2")], ["c2"], "conv2", pads=[1, 1, 1, 1])),
        ("a", node("Add", [read("c2"), read("r1")], ["a"], "resadd")),
        ("r2", node("Relu", [read("a")], ["r2"], "relu2")),
        ("p", node("GlobalAveragePool", [read("r2")], ["p"], "gap")),
        ("f", node("Flatten", [read("p")], ["f"], "flat")),
        ("b", node("Gemm", [read("f"), read("W3"), read("B3")], ["b"], "fc")),
        ("y", node("Sigmoid", [read("b")], [y], "sig")),
    ]


def net(
    made: Iterable[onnx.NodeProto],
    initializers: Iterable[onnx.TensorProto],
    *,
    kind: int = FLOAT,
    opset: int = 17,
    domains: Iterable[str] = (),
) -> onnx.ModelProto:
    """The model around these nodes: [N, 8, 16, 16] to [N, 10]."""
    return model(
        list(made),
        [value("x", kind, ["N", 8, 16, 16])],
        [value("y", kind, ["N", 10])],
        list(initializers),
        opset=opset,
        domains=list(domains),
    )
