"""ONNX models small enough to know their answers by heart; built here, so that no binary file is kept."""

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

ONNX_TYPES = {
    "BOOL": TensorProto.BOOL,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BF16": TensorProto.BFLOAT16,
    "BYTES": TensorProto.STRING,
}
NUMERIC = tuple(name for name in ONNX_TYPES if name != "BYTES")


def _model(graph: onnx.GraphProto) -> bytes:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    return model.SerializeToString()


def double_plus_one(batch: int | str = "n", width: int | str = 4) -> bytes:
    """y = 2x + 1 on x FP32[batch, width]."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, width])
    two = helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    nodes = [helper.make_node("Mul", ["x", "two"], ["t"]), helper.make_node("Add", ["t", "one"], ["y"])]
    return _model(helper.make_graph(nodes, "double_plus_one", [x], [y], [two, one]))


def identity(datatypes: Sequence[str] = NUMERIC) -> bytes:
    """in_<TYPE> to out_<TYPE>, each [n, 2]."""

    def infos(prefix: str) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(f"{prefix}_{name}", ONNX_TYPES[name], ["n", 2]) for name in datatypes]

    nodes = [helper.make_node("Identity", [f"in_{name}"], [f"out_{name}"]) for name in datatypes]
    return _model(helper.make_graph(nodes, "identity", infos("in"), infos("out")))


def spinning() -> bytes:
    """y = x after as many rounds of a loop as the largest of `rounds` INT64[n, 1] says: an engine of any slowness."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])
    rounds = helper.make_tensor_value_info("rounds", TensorProto.INT64, ["n", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Identity", ["v"], ["w"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, ["n", 1]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, ["n", 1]),
        ],
    )
    true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
    nodes = [
        helper.make_node("ReduceMax", ["rounds"], ["most"], keepdims=0),
        helper.make_node("Loop", ["most", "true", "x"], ["y"], body=body),
    ]
    return _model(helper.make_graph(nodes, "spinning", [x, rounds], [y], [true]))


def picky() -> bytes:
    """y = table[index] on index INT64[n, 1]: an index beyond 0..3 makes the engine fail while it runs."""
    index = helper.make_tensor_value_info("index", TensorProto.INT64, ["n", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])
    table = helper.make_tensor("table", TensorProto.FLOAT, [4], [10.0, 11.0, 12.0, 13.0])
    return _model(
        helper.make_graph([helper.make_node("Gather", ["table", "index"], ["y"])], "picky", [index], [y], [table])
    )
