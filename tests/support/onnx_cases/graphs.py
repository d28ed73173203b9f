"""Wiring that is wrong, or odd, and tensors that are too large."""

import numpy as np
import onnx
from onnx import TensorProto, helper
from support.onnx_cases.case import Maker
from support.onnx_models import FLOAT, constant, model, node, one, value, weight

S1 = (FLOAT, [1])
V4 = (FLOAT, [1, 4])
HUGE = (FLOAT, ["N", 1 << 20])
CUBE = (FLOAT, [1, 64, 64, 64])


def cycle() -> onnx.ModelProto:
    """Two nodes that feed each other."""
    nodes = [node("Add", ["x", "b"], ["a"], "n1"), node("Relu", ["a"], ["b"], "n2")]
    return model(nodes, [value("x", *S1)], [value("b", *S1)])


def one_name_twice() -> onnx.ModelProto:
    """Two nodes of one name, which ONNX allows."""
    nodes = [node("Relu", ["x"], ["a"], "n"), node("Sigmoid", ["a"], ["y"], "n")]
    return model(nodes, [value("x", FLOAT, [4])], [value("y", FLOAT, [4])])


def branches_of_two_ranks() -> onnx.ModelProto:
    """An If whose branches return [1, 4] and [4]."""
    then = helper.make_graph([node("Relu", ["x"], ["o1"])], "then", [], [value("o1", *V4)])
    other = helper.make_graph([node("Squeeze", ["x"], ["o2"])], "else", [], [value("o2", FLOAT, [4])])
    return model(
        [node("If", ["c"], ["y"], "if0", then_branch=then, else_branch=other)],
        [value("c", TensorProto.BOOL, []), value("x", *V4)],
        [value("y", FLOAT, None)],
    )


def growing_activation() -> onnx.ModelProto:
    """An outer product: small inputs, and a tensor of their product between them and the output."""
    return model(
        [
            node("MatMul", ["a", "b"], ["h"], "outer"),
            node("ReduceSum", ["h"], ["y"], "sum", keepdims=0),
        ],
        [value("a", FLOAT, ["N", 1]), value("b", FLOAT, [1, "M"])],
        [value("y", FLOAT, [])],
    )


MODELS: dict[str, Maker] = {
    "graph_no_outputs": lambda: model([node("Relu", ["x"], ["y"])], [value("x", *V4)], []),
    "graph_no_nodes": lambda: model([], [value("x", *V4)], [value("x", *V4)]),
    "graph_cycle": cycle,
    "graph_missing_tensor": lambda: model(
        [node("Add", ["x", "nope"], ["y"], "n1")], [value("x", *S1)], [value("y", *S1)]
    ),
    "graph_output_missing": lambda: model([node("Relu", ["x"], ["z"], "n1")], [value("x", *S1)], [value("y", *S1)]),
    "graph_unused_input": lambda: model(
        [node("Relu", ["x"], ["y"], "n1")], [value("x", *V4), value("unused", *V4)], [value("y", *V4)]
    ),
    "graph_dup_node_names": one_name_twice,
    "graph_div_by_zero": lambda: one(
        "Div", (FLOAT, [4]), (FLOAT, [4]), "dv", weights=[constant("z", [0] * 4, np.float32)]
    ),
    "graph_if_rank_mismatch": branches_of_two_ranks,
    "mem_workspace_tiny": lambda: one(
        "Conv", CUBE, CUBE, "bigconv", weights=[weight("W", 64, 64, 3, 3)], pads=[1, 1, 1, 1]
    ),
    "mem_huge_tensor": lambda: one("Relu", HUGE, HUGE, "r"),
    "mem_huge_activation": growing_activation,
}
