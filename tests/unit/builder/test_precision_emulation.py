"""Half precision emulated on a CPU: rounded after every operator, as ONNX's reference implementation does."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from enginery_builder.backend import open_reference
from enginery_builder.precision import weights
from enginery_builder.precision.emulation import emulated
from enginery_builder.precision.half import to_half
from enginery_builder.precision.sessions import tensor_types
from enginery_store.reasons import Reason
from onnx.reference import ReferenceEvaluator
from support.onnx_models import mlp
from support.precision_models import convert, convolutions, normal, rms


@pytest.mark.parametrize("kind", ["FP16", "BF16"])
def test_answers_are_those_of_true_half_precision(tmp_path: Path, kind: Any) -> None:
    x = normal(4, 64)
    converted = convert(mlp(), tmp_path, kind, x=x)

    found = open_reference(emulated(converted.files[0]), Reason.EVALUATION_FAILED).run({"x": x})["y"]

    true = ReferenceEvaluator(onnx.load(converted.files[0])).run(None, {"x": x})[0]
    exact = open_reference(converted.reference[0], Reason.EVALUATION_FAILED).run({"x": x})["y"]
    step = 2.0**-11 if kind == "FP16" else 2.0**-8
    np.testing.assert_allclose(found, true, atol=2 * step)
    assert 0 < np.abs(found - exact).max() < 8 * step


def test_overflow_shows(tmp_path: Path) -> None:
    x = normal(8, 64, scale=1000)
    source = tmp_path / "m.onnx"
    source.write_bytes(rms().SerializeToString())
    bench = weights.Workbench(source, tmp_path / "bench")
    careless = to_half(bench, bench.skeleton, tensor_types(bench, bench.skeleton), (), "FP16")
    path = bench.write(careless, tmp_path, "half.onnx")[0]

    found = open_reference(emulated(path), Reason.EVALUATION_FAILED).run({"x": x})["y"]

    assert np.abs(found).max() < 1e-2


def test_half_scales_of_a_quantized_model_are_emulated_too(tmp_path: Path) -> None:
    x = normal(64, 8, 16, 16)
    converted = convert(convolutions(opset=19, ir=9), tmp_path, "INT8", rest="FP16", x=x)

    found, wanted = (
        open_reference(path, Reason.EVALUATION_FAILED).run({"x": x})["y"]
        for path in (emulated(converted.files[0]), converted.reference[0])
    )

    assert 0 < np.linalg.norm(found - wanted) / np.linalg.norm(wanted) < 0.03


def test_model_without_halves_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(mlp().SerializeToString())

    assert emulated(path) == path
