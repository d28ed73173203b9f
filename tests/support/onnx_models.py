"""Small ONNX models, good and bad, each a few hundred bytes. Used by the tests of builder and runtime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name: str, kind: int, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 17,
    ir: int = 8,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    )
    made.ir_version = ir
    return made


def weight(name: str, *shape: int, seed: int = 0, dtype: Any = np.float32) -> onnx.TensorProto:
    values = np.random.default_rng(seed).standard_normal(shape) * 0.1
    return numpy_helper.from_array(values.astype(dtype), name)


def constant(name: str, data: Any, dtype: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(data, dtype), name)


def one(op: str, x: tuple[int, Any], y: tuple[int, Any], name: str = "n", **options: Any) -> onnx.ModelProto:
    """One node from `x` to `y`, each (type, shape); `weights` and `domain` as options, the rest are attributes."""
    weights = options.pop("weights", ())
    domain = options.pop("domain", "")
    opset = options.pop("opset", 17)
    reads = ["x", *(tensor.name for tensor in weights)]
    made = node(op, reads, ["y"], name, domain=domain, **options)
    return model([made], [value("x", *x)], [value("y", *y)], weights, opset=opset, domains=[domain] if domain else ())


def mlp(batch: int | str = "N", *, opset: int = 17, ir: int = 8, seed: int = 0) -> onnx.ModelProto:
    """The plain good model: MatMul, Relu, MatMul; [batch, 64] to [batch, 10]."""
    return model(
        [
            node("MatMul", ["x", "W1"], ["h"], "fc1"),
            node("Relu", ["h"], ["r"], "act"),
            node("MatMul", ["r", "W2"], ["y"], "fc2"),
        ],
        [value("x", FLOAT, [batch, 64])],
        [value("y", FLOAT, [batch, 10])],
        [weight("W1", 64, 128, seed=seed), weight("W2", 128, 10, seed=seed + 1)],
        opset=opset,
        ir=ir,
    )


def with_external_data(source: onnx.ModelProto, location: str) -> tuple[bytes, bytes]:
    """The model with its weights in another file: (bytes of the .onnx file, bytes of the other)."""
    made, data = onnx.ModelProto(), b""
    made.CopyFrom(source)
    for tensor in made.graph.initializer:
        for key, entry in (("location", location), ("offset", len(data)), ("length", len(tensor.raw_data))):
            tensor.external_data.add(key=key, value=str(entry))
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
    return made.SerializeToString(), data
