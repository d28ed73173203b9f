"""Engines whose outputs died: caught by name, on evaluation data and on generated inputs, whatever the metric says."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import onnx
import pytest
from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import Array, OpenModel, Tensors, open_reference
from enginery_builder.measure.accuracy import on_data, on_generated
from enginery_builder.measure.latency import WorkingPoint, working_points
from enginery_store.client import file_digest
from enginery_store.errors import EngineryError, FinalError, PassingError
from enginery_store.manifest import PreparedManifest, TensorSpec
from enginery_store.reasons import Reason
from enginery_store.requests import EvaluationRef
from support.evaluation_files import npz
from support.onnx_models import FLOAT, constant, model, node, value
from support.precision_models import normal

X = TensorSpec(name="x", datatype="FP32", shape=[-1, 4])
POINT = WorkingPoint("p", 8, {"x": (8, 4)}, {})


def two_outputs(*after: onnx.NodeProto) -> onnx.ModelProto:
    """a = x * x and b = x + 1, the latter then what `after` makes of `h`."""
    last = after or (node("Identity", ["h"], ["b"]),)
    constants = [constant(name, number, np.float32) for name, number in (("one", 1), ("zero", 0))]
    return model(
        [node("Mul", ["x", "x"], ["a"]), node("Add", ["x", "one"], ["h"]), *last],
        [value("x", FLOAT, ["N", 4])],
        [value("a", FLOAT, ["N", 4]), value("b", FLOAT, ["N", 4])],
        constants,
    )


def nan() -> onnx.ModelProto:
    return two_outputs(node("Sub", ["h", "h"], ["o"]), node("Div", ["o", "o"], ["b"]))


def zeros() -> onnx.ModelProto:
    return two_outputs(node("Mul", ["h", "zero"], ["b"]))


def ones() -> onnx.ModelProto:
    return two_outputs(node("Mul", ["h", "zero"], ["o"]), node("Add", ["o", "one"], ["b"]))


def opened(folder: Path, name: str, made: onnx.ModelProto) -> OpenModel:
    path = folder / f"{name}.onnx"
    path.write_bytes(made.SerializeToString())
    return open_reference(path, Reason.EVALUATION_FAILED)


def data(folder: Path, x: Array) -> FetchedFiles:
    (folder / "a.npz").write_bytes(npz(x=x))
    return FetchedFiles(folder, {"a.npz": file_digest(folder / "a.npz")}, "sha256:0")


DEAD: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "NaN": (nan, "output b of the engine holds NaN"),
    "zeros": (zeros, "output b of the engine is 0 throughout"),
    "a constant": (ones, "output b of the engine is 1 throughout"),
}


@pytest.mark.parametrize("case", DEAD.values(), ids=DEAD.keys())
@pytest.mark.parametrize("metric", ["CosineSimilarity", "MaxAbsError", "Top1"])
def test_dead_output_is_found_on_evaluation_data(
    tmp_path: Path, case: tuple[Callable[[], onnx.ModelProto], str], metric: str
) -> None:
    make, words = case
    asked = EvaluationRef.model_validate(
        {"uri": "s3://bucket/e", "metric": metric, "samples": 20, "max_degradation": 1}
    )

    with pytest.raises(FinalError) as caught:
        on_data(
            opened(tmp_path, "reference", two_outputs()), opened(tmp_path, "engine", make()), [X],
            profiles=[], asked=asked, data=data(tmp_path, normal(20, 4)),
        )  # fmt: skip
    assert caught.value.reason == Reason.EVALUATION_FAILED
    assert words in caught.value.message


@pytest.mark.parametrize("case", DEAD.values(), ids=DEAD.keys())
def test_dead_output_is_found_on_generated_inputs(
    tmp_path: Path, case: tuple[Callable[[], onnx.ModelProto], str]
) -> None:
    make, words = case

    with pytest.raises(FinalError) as caught:
        on_generated(
            opened(tmp_path, "reference", two_outputs()), opened(tmp_path, "engine", make()), [X], [POINT], "ab"
        )
    assert caught.value.reason == Reason.EVALUATION_FAILED
    assert words in caught.value.message


class Ending:
    """An engine whose runs end with an error, as those on a device do."""

    def __init__(self, error: EngineryError) -> None:
        self.error = error

    def run(self, feeds: Tensors) -> Tensors:  # noqa: ARG002 - the protocol's
        raise self.error

    def device_memory_bytes(self) -> int:
        return 0

    def output_shapes(self) -> dict[str, list[int]]:
        return {}


ENDS: dict[str, tuple[EngineryError, Reason]] = {
    "the device failed": (PassingError("lost", reason=Reason.DEVICE_UNAVAILABLE), Reason.DEVICE_UNAVAILABLE),
    "the slice is full": (FinalError("full", reason=Reason.BUILD_OUT_OF_MEMORY), Reason.BUILD_OUT_OF_MEMORY),
    "data outside the profiles": (FinalError("9 rows", reason=Reason.INVALID_SHAPES), Reason.EVALUATION_DATA_INVALID),
    "the engine failed": (FinalError("no", reason=Reason.BUILD_FAILED), Reason.EVALUATION_FAILED),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_run_that_ends_says_whose_fault_it_is(tmp_path: Path, case: tuple[EngineryError, Reason]) -> None:
    error, reason = case
    (tmp_path / "a.npz").write_bytes(npz(x=normal(8, 4)))
    data = FetchedFiles(tmp_path, {"a.npz": file_digest(tmp_path / "a.npz")}, "sha256:0")
    asked = EvaluationRef(uri="s3://data/e", metric="MaxAbsError", samples=8, max_degradation=Decimal(1))

    with pytest.raises(EngineryError) as caught:
        on_data(opened(tmp_path, "reference", two_outputs()), Ending(error), [X], profiles=[], asked=asked, data=data)

    assert caught.value.reason is reason
    assert caught.value.retryable is error.retryable


def test_device_that_fails_is_no_engine_that_takes_no_input() -> None:
    manifest = prepared([X])
    lost = Ending(PassingError("lost", reason=Reason.DEVICE_UNAVAILABLE))

    with pytest.raises(PassingError):
        working_points(lost, manifest, [], "ab")
    assert working_points(Ending(FinalError("no", reason=Reason.BUILD_FAILED)), manifest, [], "ab") == []


def prepared(inputs: list[TensorSpec]) -> PreparedManifest:
    return PreparedManifest(
        key="a" * 64, source_digest="sha256:0", source_size_bytes=1, source_format="ONNX", precision="FP32",
        inputs=inputs, outputs=[], files=[], opset=17, tool_versions={}, created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip


def test_output_that_is_constant_in_the_reference_too_is_no_fault(tmp_path: Path) -> None:
    reference, engine = (opened(tmp_path, name, ones()) for name in ("reference", "engine"))

    record = on_generated(reference, engine, [X], [POINT], "ab")

    assert (record.measured, record.samples) == ("0.000000000", 8)


def test_output_that_varies_less_than_half_precision_shows_may_be_constant(tmp_path: Path) -> None:
    small = constant("small", 1e-3, np.float32)
    reference = two_outputs(node("Mul", ["h", "small"], ["s"]), node("Sigmoid", ["s"], ["b"]))
    reference.graph.initializer.append(small)
    half = constant("half", 0.5, np.float32)
    engine = two_outputs(node("Mul", ["h", "zero"], ["o"]), node("Add", ["o", "half"], ["b"]))
    engine.graph.initializer.append(half)

    record = on_generated(
        opened(tmp_path, "reference", reference), opened(tmp_path, "engine", engine), [X], [POINT], "ab"
    )

    assert 0 < float(record.measured) < 0.01
