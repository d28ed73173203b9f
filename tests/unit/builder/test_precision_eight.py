"""INT8 and FP8 in the graph: the form that compilers take, near to FP32, whole where it is loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from enginery_builder.artifacts import ConvertedModel
from enginery_builder.backend import Array, CompileOrder
from enginery_builder.onnxruntime_backend import OnnxRuntimeBackend
from enginery_builder.precision import convert_file
from enginery_builder.precision.ranges import Ranges
from enginery_builder.precision.thresholds import BINS, thresholds
from enginery_store.errors import FinalError
from enginery_store.manifest import BuildOptions, Target
from enginery_store.reasons import Reason
from enginery_store.requests import PrecisionRef
from onnx import TensorProto, numpy_helper
from support.builder_runs import ARCHITECTURE
from support.onnx_models import FLOAT, constant, mlp, model, node, one, value, weight
from support.precision_models import convert, convolutions, normal
from support.tensorrt_models import quantized_mlp

X = normal(128, 8, 16, 16)


def answers(path: Path, x: Array) -> Array:
    """As the nodes say: ONNX Runtime's optimiser has no FP8 on CPUs, and takes such pairs for INT8."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    answer: Array = session.run(None, {"x": x})[0]
    return answer


def error(converted: ConvertedModel, x: Array) -> float:
    """Relative to the reference."""
    wanted = answers(converted.reference[0], x)
    return float(np.linalg.norm(answers(converted.files[0], x) - wanted) / np.linalg.norm(wanted))


def loaded(converted: ConvertedModel) -> onnx.ModelProto:
    return onnx.load(converted.files[0])


def constants(made: onnx.ModelProto) -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}


def test_int8_is_symmetric_per_channel_with_float_biases(tmp_path: Path) -> None:
    converted = convert(convolutions(), tmp_path, "INT8", x=X)

    made = loaded(converted)
    onnx.checker.check_model(made, full_check=True)
    values = constants(made)
    pairs = [item for item in made.graph.node if item.op_type == "QuantizeLinear"]
    assert {values[item.input[2]].dtype for item in pairs} == {np.dtype(np.int8)}
    assert not any(values[item.input[2]].any() for item in pairs)
    assert all((values[item.input[1]] > 0).all() for item in pairs)
    scales = {tuple(values[item.input[1]].shape) for item in pairs if item.input[0] in values}
    assert scales == {(16,), (10,)}
    for item in made.graph.node:
        if item.op_type in {"Conv", "Gemm"}:
            assert values[item.input[2]].dtype == np.float32
            assert all(name.endswith("_DequantizeLinear_Output") for name in item.input[:2])
    assert error(converted, normal(32, 8, 16, 16, seed=5)) < 0.02


def test_batch_normalisation_is_folded_and_the_residual_side_quantized(tmp_path: Path) -> None:
    made = loaded(convert(convolutions(), tmp_path, "INT8", x=X))

    assert "BatchNormalization" not in {item.op_type for item in made.graph.node}
    add = next(item for item in made.graph.node if item.op_type == "Add")
    assert [name.endswith("_DequantizeLinear_Output") for name in add.input] == [False, True]
    conv = [item for item in made.graph.node if item.op_type == "Conv"]
    assert conv[1].input[0] == add.input[1]


def test_record_says_what_the_scales_were_measured_on(tmp_path: Path) -> None:
    record = convert(convolutions(), tmp_path, "INT8", x=X).calibration

    assert record is not None
    assert (record.samples, record.distance) == (128, "")
    assert record.data_digest.startswith("sha256:")


def test_fp8_raises_the_opset_and_is_near(tmp_path: Path) -> None:
    converted = convert(convolutions(), tmp_path, "FP8", x=X)

    made = loaded(converted)
    zeros = [tensor.data_type for tensor in made.graph.initializer if tensor.name.endswith("_ZeroPoint")]
    assert set(zeros) == {TensorProto.FLOAT8E4M3FN}
    assert converted.checked.opset == 19
    assert error(converted, normal(32, 8, 16, 16, seed=5)) < 0.06


def test_rest_becomes_half_where_scales_can_be_half(tmp_path: Path) -> None:
    converted = convert(convolutions(opset=19, ir=9), tmp_path, "INT8", rest="FP16", x=X)

    made = loaded(converted)
    onnx.checker.check_model(made, full_check=True)
    kinds = {tensor.data_type for tensor in made.graph.initializer}
    assert kinds == {TensorProto.FLOAT16, TensorProto.INT8}
    assert [item.op_type for item in made.graph.node].count("Cast") == 2
    assert converted.notes == ()
    assert error(converted, normal(32, 8, 16, 16, seed=5)) < 0.02


def test_rest_stays_fp32_below_opset_19_and_a_note_says_so(tmp_path: Path) -> None:
    converted = convert(convolutions(), tmp_path, "INT8", rest="FP16", x=X)

    assert converted.checked.opset == 17
    assert "opset 19" in converted.notes[0]
    assert "the model has 17" in converted.notes[0]
    assert TensorProto.FLOAT16 not in {tensor.data_type for tensor in loaded(converted).graph.initializer}


def test_input_that_calibration_never_moved_gets_a_positive_scale(tmp_path: Path) -> None:
    made = model(
        [node("Relu", ["x"], ["r"], "relu"), node("MatMul", ["r", "W"], ["y"], "fc")],
        [value("x", FLOAT, ["N", 64])], [value("y", FLOAT, ["N", 10])], [weight("W", 64, 10)],
    )  # fmt: skip

    converted = convert(made, tmp_path, "INT8", x=-np.abs(normal(64, 64)))

    assert constants(loaded(converted))["r_QuantizeLinear_Scale"] > 0


def test_constant_of_the_model_that_is_called_a_scale_keeps_its_value(tmp_path: Path) -> None:
    made = model(
        [node("MatMul", ["x", "W"], ["h"], "fc"), node("Mul", ["h", "x_scale"], ["y"], "mul")],
        [value("x", FLOAT, ["N", 64])], [value("y", FLOAT, ["N", 10])],
        [weight("W", 64, 10), constant("x_scale", 7, np.float32)],
    )  # fmt: skip

    converted = convert(made, tmp_path, "INT8", x=normal(64, 64))

    assert constants(loaded(converted))["x_scale"] == 7
    assert error(converted, normal(64, 64, seed=5)) < 0.05


def test_channel_of_zeros_gets_a_positive_scale(tmp_path: Path) -> None:
    made = mlp()
    values = np.array(numpy_helper.to_array(made.graph.initializer[0]))
    values[:, 3] = 0
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "W1"))

    scales = constants(loaded(convert(made, tmp_path, "INT8", x=normal(64, 64))))["W1_axis1_QuantizeLinear_Scale"]

    assert scales.shape == (128,)
    assert (scales > 0).all()


def test_outlier_of_one_sample_does_not_set_the_scale(tmp_path: Path) -> None:
    x = normal(400, 64)
    x[7, 11] = 60.0

    converted = convert(mlp(), tmp_path, "INT8", x=x)

    assert converted.calibration is not None
    assert converted.calibration.method != "MinMax"
    assert constants(loaded(converted))["x_QuantizeLinear_Scale"] < 0.1
    assert error(converted, normal(64, 64, seed=5)) < 0.05


def test_masked_rows_leave_the_histogram_as_it_is(tmp_path: Path) -> None:
    made = model(
        [node("Log", ["x"], ["l"], "log"), node("MatMul", ["l", "W"], ["y"], "fc")],  # of 0 and below: -inf and NaN
        [value("x", FLOAT, ["N", 64])], [value("y", FLOAT, ["N", 10])], [weight("W", 64, 10)],
    )  # fmt: skip
    x = np.exp(normal(64, 64))
    x[3], x[5] = 0, -1

    converted = convert(made, tmp_path, "INT8", x=x)

    assert 2 / 127 < constants(loaded(converted))["l_QuantizeLinear_Scale"] < 6 / 127


def test_thresholds_by_hand() -> None:
    counts = np.zeros(BINS, np.int64)
    counts[:100], counts[-1] = 1000, 1
    ranges = Ranges({"t": float(BINS)})

    assert thresholds("MinMax", {"t": counts}, ranges) == {"t": BINS}
    assert thresholds("Percentile", {"t": counts}, ranges) == {"t": 100.0}


def test_entropy_cuts_outliers_and_keeps_the_bulk() -> None:
    bins = np.arange(BINS)
    bell = np.round(1e5 * np.exp(-np.square(bins / 100) / 2)).astype(np.int64)
    bell[[900, 1500, 2047]] += 1
    flat = np.full(BINS, 1000)
    ranges = Ranges({"bell": float(BINS), "flat": float(BINS)})

    found = thresholds("Entropy", {"bell": bell, "flat": flat}, ranges)

    assert 300 < found["bell"] < 600
    assert found["flat"] == BINS


REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], Any, Reason, str]] = {
    "nothing to quantize": (
        lambda: one("Relu", (FLOAT, ["N", 4]), (FLOAT, ["N", 4])),
        {"type": "INT8"}, Reason.CONVERSION_FAILED, "nothing that INT8 computes",
    ),
    "quantized already": (quantized_mlp, {"type": "INT8"}, Reason.SOURCE_INVALID, "Prequantized"),
    "prequantized without pairs": (
        mlp, {"type": "INT8", "prequantized": True}, Reason.SOURCE_INVALID, "no QuantizeLinear",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_model_that_cannot_be_quantized_is_refused_in_words(
    tmp_path: Path, case: tuple[Callable[[], onnx.ModelProto], Any, Reason, str]
) -> None:
    make, order, reason, words = case
    (tmp_path / "source.onnx").write_bytes(make().SerializeToString())
    width = make().graph.input[0].type.tensor_type.shape.dim[1].dim_value

    with pytest.raises(FinalError) as caught:
        convert_file(
            tmp_path / "source.onnx",
            PrecisionRef.model_validate(order),
            {"x": normal(16, width)},
            tmp_path / "prepared",
        )
    assert caught.value.reason == reason
    assert words in caught.value.message


@pytest.mark.parametrize("rest", ["FP32", "FP16"])
def test_prequantized_model_keeps_its_scales(tmp_path: Path, rest: Any) -> None:
    (tmp_path / "source.onnx").write_bytes(quantized_mlp().SerializeToString())
    order = PrecisionRef(type="INT8", prequantized=True, rest=rest)

    converted = convert_file(tmp_path / "source.onnx", order, {"x": normal(16, 64)}, tmp_path / "prepared")

    scale = next(array for name, array in constants(loaded(converted)).items() if name.startswith("scale"))
    assert float(scale) == pytest.approx(0.02, rel=1e-3)
    assert scale.dtype == (np.float16 if rest == "FP16" else np.float32)
    assert converted.calibration is None
    assert error(converted, normal(16, 64)) < 0.02


@pytest.mark.parametrize("kind", ["INT8", "FP16"])
def test_engine_of_onnx_runtime_answers_as_the_prepared_model(tmp_path: Path, kind: Any) -> None:
    converted = convert(convolutions(), tmp_path, kind, x=X)
    backend = OnnxRuntimeBackend()
    order = CompileOrder(
        converted.files[0], tmp_path, "engine", [], BuildOptions(), kind,
        Target(accelerator="CPU", architecture=ARCHITECTURE),
    )  # fmt: skip

    engine = backend.open(backend.compile(order).files[0])

    x = normal(16, 8, 16, 16, seed=3)
    assert engine is not None
    wanted = answers(converted.reference[0], x)
    assert float(np.linalg.norm(engine.run({"x": x})["y"] - wanted) / np.linalg.norm(wanted)) < 0.03


def test_weights_feed_a_shared_constant_once(tmp_path: Path) -> None:
    made = model(
        [node("MatMul", ["x", "W"], ["h"], "a"), node("MatMul", ["h", "W"], ["y"], "b")],
        [value("x", FLOAT, ["N", 64])], [value("y", FLOAT, ["N", 64])], [weight("W", 64, 64)],
    )  # fmt: skip

    kinds = [item.op_type for item in loaded(convert(made, tmp_path, "INT8", x=normal(64, 64))).graph.node]

    assert kinds.count("QuantizeLinear") == 3


def test_constant_is_not_an_activation(tmp_path: Path) -> None:
    """A product of two constants is left to constant folding."""
    made = model(
        [node("MatMul", ["A", "W"], ["c"], "fold"), node("MatMul", ["x", "c"], ["y"], "fc")],
        [value("x", FLOAT, ["N", 8])], [value("y", FLOAT, ["N", 8])],
        [weight("A", 8, 8), constant("W", np.eye(8), np.float32)],
    )  # fmt: skip

    converted = convert(made, tmp_path, "INT8", x=normal(64, 8))

    assert [item.op_type for item in loaded(converted).graph.node].count("QuantizeLinear") == 2
