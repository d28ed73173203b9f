"""FP16 and BF16 in the graph: right in true half precision, and FP32 wherever half cannot be."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from enginery_builder.artifacts import CheckedModel, ConvertedModel
from enginery_builder.backend import Array
from enginery_builder.precision import apply, convert_file, weights
from enginery_builder.precision.half import to_half
from enginery_builder.precision.sessions import tensor_types
from enginery_store.manifest import TensorSpec
from enginery_store.requests import PrecisionRef
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator
from support.onnx_models import FLOAT, constant, mlp, model, node, value, weight, with_external_data
from support.precision_models import OUT, ROW, convert, convolutions, masked, normal, quiet_sum, rms

INTEGER = TensorProto.INT64


def loaded(converted: ConvertedModel) -> onnx.ModelProto:
    return onnx.load(converted.files[0])


def on_runtime(made: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def in_true_half(made: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """ONNX's reference implementation rounds after every operator; ONNX Runtime computes half in FP32 on a CPU."""
    with np.errstate(over="ignore"):
        return list(ReferenceEvaluator(made).run(None, feeds))


def nodes_in_half(made: onnx.ModelProto, folder: Path) -> set[str]:
    """Names of nodes, other than casts, that read or write FP16."""
    bench = weights.Workbench(saved(made, folder / "again.onnx"), folder / "again")
    types = tensor_types(bench, made)
    half = {"tensor(float16)", f"tensor({TensorProto.FLOAT16})"}
    return {item.name for item in made.graph.node if {types.get(name) for name in (*item.input, *item.output)} & half}


def saved(made: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(made.SerializeToString())
    return path


def test_squares_beyond_half_stay_in_fp32_and_the_answer_is_right(tmp_path: Path) -> None:
    x = normal(32, 64, scale=1000)
    wanted = on_runtime(rms(), {"x": x})[0]

    converted = convert(rms(), tmp_path, "FP16", x=x)

    assert converted.kept_nodes == ("pow", "mean", "sqrt")
    assert "3 nodes stay in FP32" in converted.notes[0]
    assert "65504" in converted.notes[0]
    found = in_true_half(loaded(converted), {"x": x})[0]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=5e-3)


def test_without_kept_nodes_the_same_model_answers_zeros(tmp_path: Path) -> None:
    x = normal(32, 64, scale=1000)
    bench = weights.Workbench(saved(rms(), tmp_path / "m.onnx"), tmp_path / "bench")

    careless = to_half(bench, bench.skeleton, tensor_types(bench, bench.skeleton), (), "FP16")

    answer = in_true_half(onnx.load(bench.write(careless, tmp_path, "half.onnx")[0]), {"x": x})[0]
    assert np.abs(answer).max() < 1e-2 < np.abs(on_runtime(rms(), {"x": x})[0]).max()


def test_sum_that_overflows_within_a_node_keeps_it(tmp_path: Path) -> None:
    x = normal(4, 4096, scale=10) + np.float32(50)

    converted = convert(quiet_sum(), tmp_path, "FP16", x=x)

    assert converted.kept_nodes == ("mean",)
    assert "2.0" in converted.notes[0]
    np.testing.assert_allclose(
        in_true_half(loaded(converted), {"x": x})[0], on_runtime(quiet_sum(), {"x": x})[0], atol=0.1
    )


def test_attention_mask_is_brought_within_range_and_nothing_is_kept(tmp_path: Path) -> None:
    feeds = {"x": normal(8, 64), "keep": np.random.default_rng(0).integers(0, 2, (8, 10))}

    converted = convert(masked(), tmp_path, "FP16", **feeds)

    assert converted.kept_nodes == ()
    np.testing.assert_allclose(in_true_half(loaded(converted), feeds)[0], on_runtime(masked(), feeds)[0], atol=2e-3)


def test_constant_that_means_itself_is_not_mistaken_for_infinity(tmp_path: Path) -> None:
    made = model(
        [node("Log", ["huge"], ["l"], "log"), node("Add", ["x", "l"], ["y"], "add")],
        ROW, [value("y", FLOAT, ["N", 64])], [constant("huge", 1e32, np.float32)],
    )  # fmt: skip
    x = normal(8, 64)

    converted = convert(made, tmp_path, "FP16", x=x)

    assert converted.kept_nodes == ("log",)
    np.testing.assert_allclose(in_true_half(loaded(converted), {"x": x})[0], x + np.log(1e32), rtol=1e-3)


@dataclass(frozen=True)
class Case:
    model: Callable[[], onnx.ModelProto]
    half: set[str]
    """Nodes that must work in half; all others must not."""
    feeds: dict[str, Array]
    close: float = 1e-2


def resized() -> onnx.ModelProto:
    """FP16 image, FP32 scales: the schema says so."""
    return model(
        [node("Resize", ["x", "", "scales"], ["r"], "resize", mode="linear"), node("Relu", ["r"], ["y"], "relu")],
        [value("x", FLOAT, ["N", 1, 4, 4])], [value("y", FLOAT, ["N", 1, 8, 8])],
        [constant("scales", [1, 1, 2, 2], np.float32)],
    )  # fmt: skip


def branching() -> onnx.ModelProto:
    """A subgraph that takes a half tensor and a weight from around it."""
    branches = {
        name: onnx.helper.make_graph(
            [node(op, ["h", "W"], [f"{name}_out"], name)], name, [], [value(f"{name}_out", FLOAT, ["N", 10])]
        )
        for name, op in (("then_branch", "MatMul"), ("else_branch", "Gemm"))
    }
    return model(
        [
            node("Relu", ["x"], ["h"], "relu"),
            node("MatMul", ["h", "W"], ["m"], "outside"),
            node("If", ["flag"], ["i"], "if", **branches),
            node("Add", ["m", "i"], ["y"], "add"),
        ],
        [*ROW, value("flag", TensorProto.BOOL, [1])], OUT, [weight("W", 64, 10)],
    )  # fmt: skip


def indexed() -> onnx.ModelProto:
    """Positions computed in floats: 3001 is no number in half precision."""
    return model(
        [
            node("Add", ["position", "one"], ["next"], "next"),
            node("Cast", ["next"], ["index"], "index", to=INTEGER),
            node("Gather", ["table", "index"], ["y"], "gather"),
        ],
        [value("position", FLOAT, ["N"])], [value("y", FLOAT, ["N", 2])],
        [constant("one", 1, np.float32), constant("table", np.arange(8000).reshape(4000, 2) % 97, np.float32)],
    )  # fmt: skip


def rotary() -> onnx.ModelProto:
    """Angles grow with the position; their sine is lost in half precision."""
    return model(
        [
            node("Mul", ["position", "speed"], ["angle"], "angle"),
            node("Sin", ["angle"], ["s"], "sine"),
            node("Mul", ["s", "x"], ["y"], "rotate"),
        ],
        [value("position", FLOAT, ["N", 1]), *ROW], [value("y", FLOAT, ["N", 64])],
        [constant("speed", np.linspace(0.1, 1, 64), np.float32)],
    )  # fmt: skip


def casting() -> onnx.ModelProto:
    """Casts of the model's own, to FP32 and to FP16, and a constant within a node."""
    return model(
        [
            node("Cast", ["ids"], ["f"], "up", to=FLOAT),
            node("Constant", [], ["c"], "constant", value=constant("", 0.5, np.float32)),
            node("Mul", ["f", "c"], ["h"], "mul"),
            node("Cast", ["h"], ["narrow"], "narrow", to=TensorProto.FLOAT16),
            node("Cast", ["narrow"], ["y"], "wide", to=FLOAT),
        ],
        [value("ids", INTEGER, ["N", 4])], [value("y", FLOAT, ["N", 4])],
    )  # fmt: skip


def read_again() -> onnx.ModelProto:
    """An output of the graph that a node reads too."""
    return model(
        [node("Relu", ["x"], ["r"], "relu"), node("Exp", ["r"], ["y"], "exp")],
        ROW, [value("r", FLOAT, ["N", 64]), value("y", FLOAT, ["N", 64])],
    )  # fmt: skip


def tiny_epsilon() -> onnx.ModelProto:
    """0 / (0 + 1e-12): the epsilon must not become zero."""
    return model(
        [node("Add", ["x", "eps"], ["d"], "add"), node("Div", ["x", "d"], ["y"], "div")],
        ROW, [value("y", FLOAT, ["N", 64])], [constant("eps", 1e-12, np.float32)],
    )  # fmt: skip


def sequenced() -> onnx.ModelProto:
    """Sequences hold FP32."""
    return model(
        [
            node("Relu", ["x"], ["r"], "relu"),
            node("SequenceConstruct", ["r", "x"], ["s"], "construct"),
            node("ConcatFromSequence", ["s"], ["c"], "concat", axis=1),
            node("Neg", ["c"], ["y"], "neg"),
        ],
        ROW, [value("y", FLOAT, ["N", 128])],
    )  # fmt: skip


POSITIONS = np.linspace(0, 3900, 8).astype(np.float32).round()
CASES = {
    "Resize takes its scales in FP32": Case(resized, {"resize", "relu"}, {"x": normal(2, 1, 4, 4)}),
    "subgraphs stay in FP32": Case(
        branching, {"relu", "outside", "add"}, {"x": normal(1, 64), "flag": np.array([True])}
    ),
    "indices are computed in FP32": Case(indexed, {"gather"}, {"position": POSITIONS}),
    "angles are computed in FP32": Case(rotary, {"rotate"}, {"position": POSITIONS[:, None], "x": normal(8, 64)}),
    "casts of the model's own": Case(casting, {"up", "mul", "narrow", "wide"}, {"ids": np.arange(8).reshape(2, 4)}),
    "an output that is read again": Case(read_again, {"relu", "exp"}, {"x": normal(4, 64)}),
    "a scalar near zero": Case(tiny_epsilon, {"add", "div"}, {"x": np.zeros((2, 64), np.float32)}),
    "sequences": Case(sequenced, {"relu", "neg"}, {"x": normal(4, 64)}),
    "a classifier": Case(
        convolutions,
        {"conv1", "norm1", "relu1", "conv2", "residual", "relu2", "pool", "flat", "fc"},
        {"x": normal(4, 8, 16, 16)},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_half_where_it_can_be_and_the_same_answers(tmp_path: Path, case: Case) -> None:
    original = case.model()

    converted = convert(original, tmp_path, "FP16", **case.feeds)

    made = loaded(converted)
    onnx.checker.check_model(made, full_check=True)
    assert converted.kept_nodes == ()
    interface = [(item.name, item.type.tensor_type.elem_type) for item in (*made.graph.input, *made.graph.output)]
    assert interface == [
        (item.name, item.type.tensor_type.elem_type) for item in (*original.graph.input, *original.graph.output)
    ]
    names = {item.name for item in original.graph.node}
    assert nodes_in_half(made, tmp_path) & names == case.half
    wanted = on_runtime(original, case.feeds)
    for found in (on_runtime(made, case.feeds), in_true_half(made, case.feeds)):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=case.close, rtol=case.close)


def test_weight_that_both_precisions_read_is_stored_twice_and_others_once(tmp_path: Path) -> None:
    both = loaded(convert(branching(), tmp_path, "FP16", rest="FP16", x=normal(1, 64), flag=np.array([True])))
    plain = loaded(convert(convolutions(), tmp_path, "FP16", x=normal(4, 8, 16, 16)))

    assert sorted(tensor.data_type for tensor in both.graph.initializer) == [FLOAT, TensorProto.FLOAT16]
    assert {tensor.data_type for tensor in plain.graph.initializer} == {TensorProto.FLOAT16}


def test_bfloat16_raises_the_opset_and_keeps_nothing(tmp_path: Path) -> None:
    converted = convert(convolutions(), tmp_path, "BF16", x=normal(4, 8, 16, 16))

    made = loaded(converted)
    onnx.checker.check_model(made, full_check=True)
    assert (converted.checked.opset, made.opset_import[0].version) == (22, 22)
    assert converted.kept_nodes == ()
    assert {tensor.data_type for tensor in made.graph.initializer} == {TensorProto.BFLOAT16}
    x = normal(4, 8, 16, 16)
    np.testing.assert_allclose(in_true_half(made, {"x": x})[0], on_runtime(convolutions(), {"x": x})[0], atol=0.05)


def test_fp16_leaves_the_opset_alone(tmp_path: Path) -> None:
    assert convert(mlp(opset=13), tmp_path, "FP16", x=normal(4, 64)).checked.opset == 13


def test_reference_is_the_source_byte_by_byte(tmp_path: Path) -> None:
    converted = convert(mlp(), tmp_path, "FP16", x=normal(4, 64))

    assert [path.name for path in (*converted.files, *converted.reference)] == ["model.onnx", "reference.onnx"]
    assert converted.reference[0].read_bytes() == mlp().SerializeToString()


def test_fp32_passes_through(tmp_path: Path) -> None:
    converted = convert(mlp(), tmp_path, "FP32", x=normal(4, 64))

    assert converted.files[0].read_bytes() == mlp().SerializeToString()
    assert (converted.reference, converted.notes, converted.precision) == ((), (), "FP32")


def test_large_weights_stay_in_a_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "INLINE_LIMIT_BYTES", 1000)
    folder = tmp_path / "FP16-FP32"
    folder.mkdir()
    source, data = with_external_data(mlp(), "weights/all.bin")
    (folder / "weights").mkdir()
    (folder / "weights" / "all.bin").write_bytes(data)
    (folder / "source.onnx").write_bytes(source)

    order = PrecisionRef(type="FP16")
    converted = convert_file(folder / "source.onnx", order, {"x": normal(4, 64)}, folder / "prepared")

    assert [path.name for path in converted.files] == ["model.onnx", "model.onnx.data"]
    assert [path.name for path in converted.reference] == ["reference.onnx", "reference.onnx.data"]
    assert converted.files[1].stat().st_size < len(data) * 0.6
    x = normal(4, 64)
    found = onnxruntime.InferenceSession(str(converted.files[0])).run(None, {"x": x})[0]
    wanted = onnxruntime.InferenceSession(str(converted.reference[0])).run(None, {"x": x})[0]
    np.testing.assert_allclose(found, wanted, atol=1e-2)


def test_model_that_takes_no_generated_input_says_that_nothing_was_looked_for(tmp_path: Path) -> None:
    picky = model(
        [node("Reshape", ["x", "shape"], ["h"], "reshape"), node("Relu", ["h"], ["y"], "relu")],
        [value("x", FLOAT, [2, 8]), value("shape", INTEGER, [1])], [value("y", FLOAT, ["A"])],
    )  # fmt: skip
    inputs = (
        TensorSpec(name="x", datatype="FP32", shape=[2, 8]),
        TensorSpec(name="shape", datatype="INT64", shape=[1]),
    )
    checked = CheckedModel(saved(picky, tmp_path / "m.onnx"), (), inputs, (), 17)

    converted = apply(checked, PrecisionRef(type="FP16"), None, tmp_path / "prepared")

    assert "was not looked for" in converted.notes[0]
    x, shape = normal(2, 8), np.array([16])
    np.testing.assert_allclose(
        on_runtime(loaded(converted), {"x": x, "shape": shape})[0], np.maximum(x.reshape(-1), 0), atol=1e-2
    )
