"""Engines whose outputs died: caught by name, on evaluation data and on generated inputs, whatever the metric says."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from enginery_builder.artifacts import FetchedFiles
from enginery_builder.backend import Array, OpenModel, open_reference
from enginery_builder.measure.accuracy import on_data, on_generated
from enginery_store.client import file_digest
from enginery_store.errors import FinalError
from enginery_store.manifest import TensorSpec
from enginery_store.reasons import Reason
from enginery_store.requests import EvaluationRef
from support.evaluation_files import npz
from support.onnx_models import FLOAT, constant, model, node, value
from support.precision_models import normal

X = TensorSpec(name="x", datatype="FP32", shape=[-1, 4])


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
            opened(tmp_path, "reference", two_outputs()), opened(tmp_path, "engine", make()), [X], [{"x": (8, 4)}], "ab"
        )
    assert caught.value.reason == Reason.EVALUATION_FAILED
    assert words in caught.value.message


def test_output_that_is_constant_in_the_reference_too_is_no_fault(tmp_path: Path) -> None:
    reference, engine = (opened(tmp_path, name, ones()) for name in ("reference", "engine"))

    record = on_generated(reference, engine, [X], [{"x": (8, 4)}], "ab")

    assert (record.measured, record.samples) == ("0.000000000", 8)


def test_output_that_varies_less_than_half_precision_shows_may_be_constant(tmp_path: Path) -> None:
    small = constant("small", 1e-3, np.float32)
    reference = two_outputs(node("Mul", ["h", "small"], ["s"]), node("Sigmoid", ["s"], ["b"]))
    reference.graph.initializer.append(small)
    half = constant("half", 0.5, np.float32)
    engine = two_outputs(node("Mul", ["h", "zero"], ["o"]), node("Add", ["o", "half"], ["b"]))
    engine.graph.initializer.append(half)

    record = on_generated(
        opened(tmp_path, "reference", reference), opened(tmp_path, "engine", engine), [X], [{"x": (8, 4)}], "ab"
    )

    assert 0 < float(record.measured) < 0.01
