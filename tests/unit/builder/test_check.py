"""Every way an upload can be no model, by the sentence that says it: the reason, and words the message must hold."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from enginery_builder.wording import MESSAGE_LIMIT
from enginery_store.errors import FinalError
from enginery_store.manifest import InputRange, ShapeProfile
from enginery_store.reasons import Reason
from onnx import TensorProto, helper
from support.checking import Files, checked
from support.onnx_models import FLOAT, constant, mlp, model, node, one, value, weight, with_external_data


@dataclass(frozen=True)
class Case:
    files: Callable[[], "Files | bytes | onnx.ModelProto"]
    reason: Reason
    words: list[str]
    profiles: list[ShapeProfile] = field(default_factory=list)


def profile(name: str = "x", low: object = (1, 64), best: object = (8, 64), high: object = (32, 64)) -> ShapeProfile:
    return ShapeProfile.model_validate(
        {"name": "p", "inputs": [{"name": name, "min": list(low), "opt": list(best), "max": list(high)}]}  # type: ignore[call-overload]
    )


def external(location: str, keep: int | None = None, name: str | None = None) -> Files:
    model_bytes, data = with_external_data(mlp(), location)
    return {"model.onnx": model_bytes} | ({name or location: data[:keep]} if keep != 0 else {})


def without_opset() -> onnx.ModelProto:
    made = mlp()
    del made.opset_import[:]
    return made


def without_graph() -> onnx.ModelProto:
    made = mlp()
    made.ClearField("graph")
    return made


def cycle() -> onnx.ModelProto:
    nodes = [node("Add", ["x", "b"], ["a"], "n1"), node("Relu", ["a"], ["b"], "n2")]
    return model(nodes, [value("x", FLOAT, [1])], [value("b", FLOAT, [1])])


def two_writers() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["y"], "first"), node("Sigmoid", ["x"], ["y"], "second")]
    return model(nodes, [value("x", FLOAT, [1])], [value("y", FLOAT, [1])])


def weights_of(data: np.ndarray) -> onnx.ModelProto:
    return model(
        [node("MatMul", ["x", "W"], ["y"], "fc")],
        [value("x", FLOAT, ["N", data.shape[0]])],
        [value("y", FLOAT, ["N", data.shape[1]])],
        [onnx.numpy_helper.from_array(data, "W")],
    )


def short_weight() -> onnx.ModelProto:
    made = mlp()
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:100]
    return made


def sequence_output() -> onnx.ModelProto:
    made = one("SequenceConstruct", (FLOAT, [1]), (FLOAT, [1]))
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [1]))
    made.graph.output[0].CopyFrom(helper.make_value_info("y", kind))
    return made


def nan_inside_a_branch() -> onnx.ModelProto:
    def branch(content: float) -> onnx.GraphProto:
        made = node("Constant", [], ["o"], value=constant("bad", [content], np.float32))
        return helper.make_graph([made], "b", [], [value("o", FLOAT, [1])])

    choice = node("If", ["c"], ["y"], "if", then_branch=branch(1.0), else_branch=branch(np.nan))
    return model([choice], [value("c", TensorProto.BOOL, [])], [value("y", FLOAT, [1])])


V4 = (FLOAT, [1, 4])
ROW = (FLOAT, ["N", 64])
INVALID, SHAPES, OPERATOR = Reason.SOURCE_INVALID, Reason.INVALID_SHAPES, Reason.UNSUPPORTED_OPERATOR

CASES = {
    "an empty file": Case(lambda: b"", INVALID, ["model.onnx", "empty (0 bytes)"]),
    "an input that holds nothing": Case(
        lambda: one("Identity", (FLOAT, [0, 4]), (FLOAT, [0, 4])), INVALID, ["input x", "dimension of size 0"]
    ),
    "plain text": Case(lambda: b"this is no model\n" * 10, INVALID, ["plain text"]),
    "an HTML error page": Case(lambda: b"\n<!DOCTYPE html><html>403</html>", INVALID, ["HTML or XML"]),
    "an XML error document": Case(
        lambda: b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", INVALID, ["error answer"]
    ),
    "a Git LFS pointer": Case(
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", INVALID, ["Git LFS", "git lfs pull"]
    ),
    "a PyTorch file": Case(lambda: b"PK\x03\x04" + bytes(100), Reason.UNSUPPORTED_FORMAT, ["ZIP", "export it to ONNX"]),
    "a model cut off": Case(lambda: mlp().SerializeToString()[:20000], INVALID, ["cut off or damaged", "20000 bytes"]),
    "random bytes": Case(lambda: bytes(range(255, 0, -1)) * 4, INVALID, ["damaged"]),
    "a proto that is no model": Case(lambda: V4_PROTO, INVALID, ["not an ONNX model"]),
    "a model without a graph": Case(without_graph, INVALID, ["not an ONNX model"]),
    "two models in one folder": Case(
        lambda: {"a.onnx": b"x", "b.onnx": b"y"}, INVALID, ["no single .onnx file", "a.onnx, b.onnx"]
    ),
    "no operators": Case(lambda: model([], [value("x", *V4)], [value("x", *V4)]), INVALID, ["no operators"]),
    "no outputs": Case(lambda: model([node("Relu", ["x"], ["y"])], [value("x", *V4)], []), INVALID, ["no outputs"]),
    "no inputs": Case(
        lambda: model([node("Relu", ["c"], ["y"])], [], [value("y", *V4)], [weight("c", 1, 4)]), INVALID, ["no inputs"]
    ),
    "an opset before 7": Case(lambda: mlp(opset=5, ir=3), INVALID, ["opset 5"]),
    "an opset that does not exist": Case(lambda: mlp(opset=99, ir=10), INVALID, ["opset 99"]),
    "an IR version that does not exist": Case(lambda: mlp(ir=99), INVALID, ["IR version 99"]),
    "no opset import": Case(without_opset, INVALID, ["no opset import", "ai.onnx", "MatMul (node fc1)"]),
    "a cycle": Case(cycle, INVALID, ["cycle", "n1", "n2"]),
    "two writers of one tensor": Case(two_writers, INVALID, ["tensor y", "two writers", "first", "second"]),
    "a tensor from nowhere": Case(
        lambda: model([node("Add", ["x", "nope"], ["y"], "n1")], [value("x", *V4)], [value("y", *V4)]),
        INVALID,
        ["Add (node n1)", "nope"],
    ),
    "an output nobody makes": Case(
        lambda: model([node("Relu", ["x"], ["z"])], [value("x", *V4)], [value("y", *V4)]), INVALID, ["output y"]
    ),
    "an input without a shape": Case(lambda: one("Relu", (FLOAT, None), (FLOAT, None)), INVALID, ["input x", "shape"]),
    "an output that is a sequence": Case(sequence_output, INVALID, ["output y", "sequence", "zipmap"]),
    "an input no client can send": Case(
        lambda: one("Identity", (TensorProto.COMPLEX64, [1]), (TensorProto.COMPLEX64, [1])), INVALID, ["x", "COMPLEX64"]
    ),
    "weights of NaN": Case(lambda: weights_of(np.full((4, 2), np.nan, np.float32)), INVALID, ["weight W", "NaN"]),
    "one infinite weight": Case(
        lambda: weights_of(np.array([[1, np.inf], [1, 2]], np.float32)), INVALID, ["weight W", "infinite"]
    ),
    "half weights of NaN": Case(
        lambda: one(
            "Add",
            (TensorProto.FLOAT16, [2]),
            (TensorProto.FLOAT16, [2]),
            weights=[constant("h", [1, np.nan], np.float16)],
        ),
        INVALID,
        ["weight h", "NaN"],
    ),
    "NaN inside a branch": Case(nan_inside_a_branch, INVALID, ["NaN"]),
    "a weight shorter than its shape": Case(short_weight, INVALID, ["weight W1", "100 bytes"]),
    "external data not uploaded": Case(
        lambda: external("w.data", keep=0), INVALID, ["w.data", "missing", "spec.source.uri"]
    ),
    "external data cut off": Case(lambda: external("w.data", keep=1000), INVALID, ["w.data", "1000", "cut off"]),
    "external data that climb": Case(
        lambda: external("../../etc/hostname", keep=0), INVALID, ["W1", "../../etc/hostname", "outside"]
    ),
    "external data by absolute path": Case(
        lambda: external("/etc/hostname", keep=0), INVALID, ["/etc/hostname", "outside"]
    ),
    "external data by Windows path": Case(lambda: external("C:\\w.data", keep=0), INVALID, ["outside"]),
    "external data hidden by a detour": Case(
        lambda: external("a/../w.data", name="w.data"), INVALID, ["a/../w.data", "outside"]
    ),
    "an operator ONNX lacks": Case(
        lambda: one("NotAnOp", V4, V4, "bad_node"), OPERATOR, ["NotAnOp", "ai.onnx", "bad_node", "opset 17"]
    ),
    "a custom operator": Case(
        lambda: one("Mine", V4, V4, "c0", domain="com.acme"), OPERATOR, ["Mine", "com.acme", "c0"]
    ),
    "a runtime operator that does not exist": Case(
        lambda: one("Mine", V4, V4, "c0", domain="com.microsoft"), OPERATOR, ["Mine", "com.microsoft"]
    ),
    "a datatype without kernel": Case(
        lambda: one(
            "MatMul",
            (TensorProto.BFLOAT16, [4, 4]),
            (TensorProto.BFLOAT16, [4, 4]),
            "fc",
            opset=22,
            weights=[helper.make_tensor("W", TensorProto.BFLOAT16, [4, 4], bytes(32), raw=True)],
        ),
        OPERATOR,
        ["MatMul", "fc"],
    ),
    "shapes that contradict": Case(
        lambda: one("MatMul", (FLOAT, [1, 63]), (FLOAT, [1, 10]), "fc", weights=[weight("W", 64, 10)]),
        INVALID,
        ["fc", "Incompatible dimensions"],
    ),
    "a fixed model that never runs": Case(
        lambda: one("Conv", (FLOAT, [1, 8, 8, 3]), (FLOAT, [1, 8, 6, 6]), "conv0", weights=[weight("W", 8, 3, 3, 3)]),
        INVALID,
        ["conv0", "does not run"],
    ),
    "types that meet without a Cast": Case(
        lambda: model(
            [node("Add", ["a", "b"], ["y"], "mix")],
            [value("a", TensorProto.FLOAT16, [1]), value("b", FLOAT, [1])],
            [value("y", FLOAT, [1])],
        ),
        INVALID,
        ["mix", "float16"],
    ),
    "a profile for an unknown input": Case(mlp, SHAPES, ["no input xx", "inputs are x"], [profile("xx")]),
    "a profile of another rank": Case(
        mlp,
        SHAPES,
        ["input x", "2 dimensions", "gives 3", "[N, 64]"],
        [profile(low=(1, 64, 1), best=(8, 64, 1), high=(32, 64, 1))],
    ),
    "min above opt": Case(mlp, SHAPES, ["dimension 0", "min 16", "opt 8"], [profile(low=(16, 64))]),
    "opt above max": Case(mlp, SHAPES, ["dimension 0", "opt 64", "max 32"], [profile(best=(64, 64))]),
    "min of zero": Case(mlp, SHAPES, ["min is 0"], [profile(low=(0, 64))]),
    "min below zero": Case(mlp, SHAPES, ["min is -1"], [profile(low=(-1, 64))]),
    "a fixed dimension contradicted": Case(
        mlp, SHAPES, ["dimension 1", "fixed to 64", "63"], [profile(low=(1, 63), best=(8, 63), high=(32, 63))]
    ),
    "another batch than a fixed one": Case(lambda: mlp(4), SHAPES, ["dimension 0", "fixed to 4"], [profile()]),
    "a profile of terabytes": Case(
        lambda: one("Relu", (FLOAT, ["N", "M"]), (FLOAT, ["N", "M"])),
        SHAPES,
        ["bytes at max", "lower max"],
        [profile(low=(1, 1), best=(1, 1), high=(1 << 20, 1 << 20))],
    ),
    "one profile name twice": Case(mlp, SHAPES, ["used twice"], [profile(), profile()]),
    "an input twice in a profile": Case(
        mlp, SHAPES, ["twice"], [ShapeProfile(name="p", inputs=[profile().inputs[0], profile().inputs[0]])]
    ),
    "a batch baked into a Reshape": Case(
        lambda: one("Reshape", ROW, (FLOAT, [1, 8, 8]), "baked", weights=[constant("s", [1, 8, 8], np.int64)]),
        SHAPES,
        ["opt shapes", "baked"],
        [profile()],
    ),
    "ranges whose ends never agree": Case(
        lambda: model(
            [node("MatMul", ["a", "b"], ["y"], "mm")],
            [value("a", FLOAT, ["N", "K"]), value("b", FLOAT, ["L", 4])],
            [value("y", FLOAT, ["N", 4])],
        ),
        SHAPES,
        ["max shapes", "mm"],
        [
            ShapeProfile(
                name="p",
                inputs=[
                    InputRange(name="a", min=[1, 8], opt=[1, 8], max=[1, 16]),
                    InputRange(name="b", min=[8, 4], opt=[8, 4], max=[12, 4]),
                ],
            )
        ],
    ),
}
V4_PROTO = value("x", *V4).SerializeToString()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_source_is_refused_with_reason_and_words(tmp_path: Path, case: Case) -> None:
    with pytest.raises(FinalError) as caught:
        checked(tmp_path, case.files(), case.profiles)

    message = caught.value.message
    assert caught.value.reason == case.reason, message
    assert [word for word in case.words if word not in message] == [], message
    assert len(message) <= MESSAGE_LIMIT
    assert str(tmp_path) not in message
    assert "Traceback" not in message
    assert "onnxruntime_src" not in message


GOOD: dict[str, tuple[Callable[[], "Files | onnx.ModelProto"], list[ShapeProfile]]] = {
    "a free batch without a profile": (mlp, []),
    "a free batch with a profile": (mlp, [profile()]),
    "a fixed batch": (lambda: mlp(4), []),
    "a profile that repeats a fixed batch": (lambda: mlp(4), [profile(low=(4, 64), best=(4, 64), high=(4, 64))]),
    "external data beside the model": (lambda: external("w.data"), []),
    "external data in a folder below": (lambda: external("data/w.bin"), [profile()]),
    "a file without the usual name": (lambda: {"weights.bin": mlp().SerializeToString()}, []),
    "a folder with a README": (lambda: {"model.onnx": mlp().SerializeToString(), "README.md": b"# hello"}, []),
    "model.onnx among several": (
        lambda: {"model.onnx": mlp().SerializeToString(), "old.onnx": b"junk"},
        [],
    ),
    "double weights": (
        lambda: one(
            "Add", (TensorProto.DOUBLE, [2]), (TensorProto.DOUBLE, [2]), weights=[constant("d", [1, 2], np.float64)]
        ),
        [],
    ),
    "string input": (lambda: one("Identity", (TensorProto.STRING, [4]), (TensorProto.STRING, [4])), []),
    "ai.onnx.ml": (lambda: one("Scaler", V4, V4, domain="ai.onnx.ml", offset=[0.0], scale=[1.0]), []),
    "an attention mask of minus infinity": (
        lambda: one(
            "Add", (FLOAT, [2, 2]), (FLOAT, [2, 2]), weights=[constant("m", [[0, -np.inf], [0, 0]], np.float32)]
        ),
        [],
    ),
    "token ids": (
        lambda: model(
            [node("Gather", ["E", "i"], ["y"], "emb")],
            [value("i", TensorProto.INT64, ["N", "T"])],
            [value("y", FLOAT, ["N", "T", 16])],
            [weight("E", 100, 16)],
        ),
        [profile("i", (1, 1), (2, 16), (4, 64))],
    ),
    "a scalar input": (
        lambda: model(
            [node("Add", ["x", "s"], ["y"])],
            [value("x", FLOAT, ["N"]), value("s", FLOAT, [])],
            [value("y", FLOAT, ["N"])],
        ),
        [],
    ),
    "nodes in another order": (
        lambda: model(
            [node("Relu", ["h"], ["y"]), node("Sigmoid", ["x"], ["h"])], [value("x", *V4)], [value("y", *V4)]
        ),
        [],
    ),
}


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_good_source_passes(
    tmp_path: Path, case: tuple[Callable[[], "Files | onnx.ModelProto"], list[ShapeProfile]]
) -> None:
    make, profiles = case
    result = checked(tmp_path, make(), profiles)

    assert result.inputs
    assert result.outputs


def test_interface_says_names_types_and_free_dimensions(tmp_path: Path) -> None:
    result = checked(tmp_path, mlp(), [])

    assert [(spec.name, spec.datatype, spec.shape) for spec in result.inputs] == [("x", "FP32", [-1, 64])]
    assert [(spec.name, spec.datatype, spec.shape) for spec in result.outputs] == [("y", "FP32", [-1, 10])]
    assert result.opset == 17


def test_output_without_a_declared_shape_gets_the_inferred_one(tmp_path: Path) -> None:
    made = one("Flatten", (FLOAT, ["N", 4, 4]), (FLOAT, None), axis=1)

    assert [spec.shape for spec in checked(tmp_path, made, []).outputs] == [[-1, 16]]


def test_hostile_names_do_not_reach_the_message_whole(tmp_path: Path) -> None:
    made = one("Relu", V4, V4)
    made.graph.node[0].op_type = "Bad\n\x1b[31m" + "x" * 5000

    with pytest.raises(FinalError) as caught:
        checked(tmp_path, made, [])
    assert caught.value.message.isprintable()
    assert len(caught.value.message) <= MESSAGE_LIMIT
