"""What TensorRT refuses, node by node: the limits, and what must not be mistaken for one."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from enginery_builder.check import tensorrt_operators
from enginery_builder.check.structure import Structure
from enginery_store.errors import FinalError
from enginery_store.requests import PrecisionRef
from onnx import TensorProto, helper
from support.checking import Files, checked
from support.onnx_cases.datatypes import pair
from support.onnx_cases.expected import ROWS, profile
from support.onnx_cases.good import fp8_pair
from support.onnx_cases.graphs import branches_of_two_ranks
from support.onnx_cases.shapes import shape_as_input
from support.onnx_models import FLOAT, constant, mlp, model, node, one, value, with_external_data

V4 = (FLOAT, [1, 4])


def fault(made: onnx.NodeProto, backend: str = "TensorRT", local: frozenset[tuple[str, str]] = frozenset()) -> str:
    return tensorrt_operators.fault(made, backend, Structure(onnx.ModelProto()), local)


@pytest.mark.parametrize("operator", sorted(tensorrt_operators.UNSUPPORTED))
def test_operator_that_no_tensorrt_has_is_named_with_its_node(operator: str) -> None:
    message = fault(node(operator, ["x"], ["y"], "layer7"))

    assert f"{operator} (node layer7)" in message
    assert "TensorRT" in message


@pytest.mark.parametrize("operator", ["Conv", "MatMul", "LayerNormalization", "QuantizeLinear", "NonZero", "TopK"])
def test_operator_that_tensorrt_has_passes(operator: str) -> None:
    assert fault(node(operator, ["x"], ["y"])) == ""


def test_operator_of_another_domain_with_a_name_of_onnx_is_left_to_the_parser() -> None:
    assert fault(node("Gelu", ["x"], ["y"], domain="com.microsoft")) == ""
    assert "com.microsoft.FusedConv" in fault(node("FusedConv", ["x"], ["y"], domain="com.microsoft"))


def test_function_of_the_model_itself_passes() -> None:
    call = node("Mine", ["x"], ["y"], domain="own")

    assert fault(call, local=frozenset({("own", "Mine")})) == ""
    assert "own.Mine" in fault(call)


def in_another_file(made: onnx.ModelProto) -> dict[str, bytes]:
    model_bytes, data = with_external_data(made, "constants.data")
    return {"model.onnx": model_bytes, "constants.data": data}


def in_constant_nodes(made: onnx.ModelProto) -> onnx.ModelProto:
    for tensor in made.graph.initializer:
        made.graph.node.insert(0, node("Constant", [], [tensor.name], value=tensor))
    del made.graph.initializer[:]
    return made


@pytest.mark.parametrize("keep", [in_another_file, in_constant_nodes])
def test_constant_is_found_wherever_it_is_kept(
    tmp_path: Path, keep: Callable[[onnx.ModelProto], Files | onnx.ModelProto]
) -> None:
    with pytest.raises(FinalError, match="zero point other than 0"):
        checked(tmp_path, keep(pair(zero=5)), backends=["TensorRT"])


def test_branches_of_a_constant_condition_may_differ(tmp_path: Path) -> None:
    made = branches_of_two_ranks()
    del made.graph.input[0]
    made.graph.initializer.append(constant("c", True, np.bool_))

    assert checked(tmp_path, made, backends=["TensorRT"]).notes == ()


def test_dimensions_are_counted_inside_the_model_too(tmp_path: Path) -> None:
    made = model(
        [node("Reshape", ["x", "s"], ["h"], "deep"), node("Reshape", ["h", "t"], ["y"])],
        [value("x", *V4)],
        [value("y", *V4)],
        [constant("s", [1] * 8 + [4], np.int64), constant("t", [1, 4], np.int64)],
    )

    with pytest.raises(FinalError, match="tensor h has 9 dimensions, TensorRT allows 8"):
        checked(tmp_path, made, backends=["TensorRT"])


@pytest.mark.parametrize("kind", ["DOUBLE", "UINT16", "UINT32", "UINT64", "INT16", "STRING"])
def test_datatypes_that_no_engine_has_are_refused_as_outputs_too(tmp_path: Path, kind: str) -> None:
    made = one("Cast", V4, (getattr(TensorProto, kind), [4]), to=getattr(TensorProto, kind))

    with pytest.raises(FinalError, match=r"output y is .* which TensorRT does not take") as caught:
        checked(tmp_path, made, backends=["TensorRT"])
    assert caught.value.reason == "UnsupportedOperator"
    checked(tmp_path, made, backends=["ONNXRuntime"])


def test_double_precision_inside_a_model_is_no_matter(tmp_path: Path) -> None:
    made = model(
        [node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE), node("Cast", ["d"], ["y"], to=FLOAT)],
        [value("x", *V4)],
        [value("y", *V4)],
    )

    assert checked(tmp_path, made, backends=["TensorRT"]).notes == ()


def test_shape_values_are_checked_as_values(tmp_path: Path) -> None:
    good = profile(shp=([4, 4], [4, 4], [4, 4]))
    wrong = profile(shp=([4], [4], [4]))
    never = profile(shp=([4, 4], [4, 4], [4, 5]))
    endless = profile(shp=([4, 4], [4, 4], [4, 1 << 70]))

    assert checked(tmp_path, shape_as_input(), [good], ["TensorRT"]).shape_inputs == ("shp",)
    with pytest.raises(FinalError, match="input shp holds 2 sizes, min gives 1"):
        checked(tmp_path, shape_as_input(), [wrong], ["TensorRT"])
    with pytest.raises(FinalError, match="value 1: max is 1180591620717411303424, 2147483647 is allowed"):
        checked(tmp_path, shape_as_input(), [endless], ["TensorRT"])
    with pytest.raises(FinalError, match="does not run at its max shapes"):
        checked(tmp_path, shape_as_input(), [never], ["TensorRT"])


def test_size_that_is_computed_from_an_input_makes_that_input_a_shape(tmp_path: Path) -> None:
    made = model(
        [
            node("Mul", ["n", "two"], ["twice"]),
            node("Concat", ["one", "twice"], ["shape"], axis=0),
            node("Expand", ["x", "shape"], ["y"]),
        ],
        [value("x", FLOAT, [1, 1]), value("n", TensorProto.INT64, [1])],
        [value("y", FLOAT, [1, "M"])],
        [constant("two", [2], np.int64), constant("one", [1], np.int64)],
    )

    assert checked(tmp_path, made).shape_inputs == ("n",)


def test_token_ids_are_no_shape(tmp_path: Path) -> None:
    made = one("Gather", (TensorProto.INT64, [4]), (FLOAT, [4, 2]), weights=[], domain="")
    made.graph.node[0].input[:] = ["E", "x"]
    made.graph.initializer.append(constant("E", np.ones((9, 2)), np.float32))

    assert checked(tmp_path, made).shape_inputs == ()


def test_fp8_must_be_declared_where_devices_differ(tmp_path: Path) -> None:
    declared = PrecisionRef(type="FP8", prequantized=True)

    assert checked(tmp_path, fp8_pair(), backends=["TensorRT"], precision=declared).notes == ()
    assert checked(tmp_path, fp8_pair(), backends=["ONNXRuntime"]).notes == ()
    with pytest.raises(FinalError, match=r"spec.precision.type is FP32; write type FP8") as caught:
        checked(tmp_path, fp8_pair(), backends=["TensorRT"])
    assert caught.value.reason == "InvalidSpec"


def test_request_for_several_backends_must_suit_each(tmp_path: Path) -> None:
    with pytest.raises(FinalError, match="input x has no fixed size"):
        checked(tmp_path, mlp(), backends=["ONNXRuntime", "TensorRTRTX"])
    assert checked(tmp_path, mlp(), ROWS, ["ONNXRuntime", "TensorRT", "TensorRTRTX"]).notes == ()


def test_request_that_names_no_backend_is_held_to_none(tmp_path: Path) -> None:
    text = one("Identity", (TensorProto.STRING, [4]), (TensorProto.STRING, [4]))

    assert checked(tmp_path, text).notes == ()


def test_limits_hold_inside_branches(tmp_path: Path) -> None:
    def branch(name: str, operator: str) -> onnx.GraphProto:
        return helper.make_graph([node(operator, ["x"], [name], name)], name, [], [value(name, FLOAT, ["M"])])

    choice = node("If", ["c"], ["y"], then_branch=branch("a", "Unique"), else_branch=branch("b", "Identity"))
    made = model([choice], [value("c", TensorProto.BOOL, []), value("x", FLOAT, [8])], [value("y", FLOAT, ["M"])])

    with pytest.raises(FinalError, match=r"Unique \(node a\)"):
        checked(tmp_path, made, backends=["TensorRT"])
