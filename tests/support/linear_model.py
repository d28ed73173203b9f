"""y = factor * x + bias on x FP32[batch, 4]: 200 bytes, built in a second, and another model for each number."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 4
"""Columns of input and output."""


def linear(factor: float = 2.0, bias: float = 1.0, *, batch: int | str = 1) -> bytes:
    """The .onnx file."""
    return _model(factor, bias, batch).SerializeToString()


def linear_with_external_data(file: str, factor: float = 2.0) -> bytes:
    """The same, with a weight that lies in `file` beside the model."""
    model = _model(factor, 1.0, 1)
    weight = model.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(np.full((1, WIDTH), factor, np.float32), "factor"))
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": file, "offset": "0", "length": str(WIDTH * 4)}.items():
        weight.external_data.add(key=key, value=value)
    return model.SerializeToString()


def _model(factor: float, bias: float, batch: int | str) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, WIDTH]) for name in ("x", "y"))
    weights = [helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in
               (("factor", factor), ("bias", bias))]  # fmt: skip
    nodes = [helper.make_node("Mul", ["x", "factor"], ["t"]), helper.make_node("Add", ["t", "bias"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "linear", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    return model
