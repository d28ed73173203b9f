"""What is legal and odd is said, and what only looks odd is not."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.checking import checked
from support.onnx_cases.graphs import one_name_twice
from support.onnx_models import FLOAT, constant, model, node, one, value

HALF = (TensorProto.FLOAT16, [4])


def power(exponent: float) -> onnx.ModelProto:
    return one("Pow", HALF, HALF, "pow", weights=[constant("e", exponent, np.float16)])


@pytest.mark.parametrize(("exponent", "said"), [(2, True), (0.5, False)])
def test_power_in_half_precision_is_said_where_it_grows(tmp_path: Path, exponent: float, said: bool) -> None:
    notes = checked(tmp_path, power(exponent)).notes

    assert [("Pow (node pow)" in note, "65504" in note) for note in notes] == [(True, True)] * said


def test_input_that_only_a_branch_reads_is_used(tmp_path: Path) -> None:
    def branch(operator: str) -> onnx.GraphProto:
        made = node(operator, ["x"], [operator])
        return onnx.helper.make_graph([made], operator, [], [value(operator, FLOAT, [1])])

    choice = node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))
    made = model([choice], [value("c", TensorProto.BOOL, []), value("x", FLOAT, [1])], [value("y", FLOAT, [1])])

    assert checked(tmp_path, made).notes == ()


def test_division_by_a_constant_that_is_not_zero_is_nothing_odd(tmp_path: Path) -> None:
    made = one("Div", (FLOAT, [4]), (FLOAT, [4]), weights=[constant("d", [1, 2, 3, 4], np.float32)])

    assert checked(tmp_path, made).notes == ()


def test_nodes_of_one_name_are_told_apart_in_what_is_prepared(tmp_path: Path) -> None:
    made = one_name_twice()
    made.graph.node.append(node("Identity", ["a"], ["unused"], "n_2"))

    result = checked(tmp_path, made)

    kept = onnx.load(result.path)
    assert [item.name for item in kept.graph.node] == ["n", "n_3", "n_2"]
    assert result.notes == ("several nodes were called n; all but the first got a number",)


def test_prose_in_any_encoding_is_no_damage(tmp_path: Path) -> None:
    made = one("Relu", (FLOAT, [4]), (FLOAT, [4]))
    made.doc_string = "ASCII only"

    assert checked(tmp_path, made.SerializeToString().replace(b"ASCII only", b"\xe9t\xe9 latinx")).notes == ()


def test_name_in_another_encoding_is_damage(tmp_path: Path) -> None:
    made = one("Relu", (FLOAT, [4]), (FLOAT, [4]), "some name")

    with pytest.raises(Exception, match="not UTF-8") as caught:
        checked(tmp_path, made.SerializeToString().replace(b"some name", b"\xe9t\xe9 namex"))
    assert "NodeProto.name" in str(caught.value)
