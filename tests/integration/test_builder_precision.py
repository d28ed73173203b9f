"""Lower precisions end to end: the real builder as a subprocess, a real classifier, real files, a real S3 server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from enginery_store.requests import CalibrationRef, PrecisionRef
from support.builder_runs import Workbench, evaluation
from support.evaluation_files import npz
from support.onnx_models import FLOAT, mlp, model, node, value, weight
from support.precision_models import normal, rms
from support.real_files import real_files
from support.tensorrt_models import profile

CALIBRATED, EVALUATED = 300, 1000


def ordered(bench: Workbench, kind: Any, samples: int, *, rest: Any = "FP32", gate: bool = True) -> PrecisionRef:
    """The order for data under calibration/ and evaluation/ of the bucket."""
    root = f"s3://{bench.bucket.name}"
    return PrecisionRef(
        type=kind,
        rest=rest,
        calibration=CalibrationRef(
            uri=f"{root}/calibration/", samples=samples, evaluation_uri=f"{root}/evaluation/" if gate else ""
        ),
    )


def test_real_classifier_in_int8_loses_less_than_one_percent(bench: Workbench, magika_model: bytes) -> None:
    inputs, _ = real_files(CALIBRATED)
    others, labels = real_files(EVALUATED, skip=CALIBRATED)
    bench.upload("calibration/a.npz", npz(bytes=inputs[:200]))
    bench.upload("calibration/b.npz", npz(bytes=inputs[200:]))
    bench.upload("evaluation/a.npz", npz(bytes=others, labels=labels))
    uri = bench.upload("magika/model.onnx", magika_model)
    order = ordered(bench, "INT8", CALIBRATED)
    prepare = bench.prepare_request(uri, precision=order, timeout_seconds=600)

    ended = bench.run(prepare)

    assert ended.code == 0, ended.log
    outcome = bench.outcome(prepare.key)
    assert outcome is not None
    assert outcome.calibration is not None
    assert outcome.calibration.samples == CALIBRATED
    assert float(outcome.calibration.distance) < 0.3
    prepared = bench.prepared(outcome.prepared_key)
    assert (prepared.precision, prepared.calibration) == ("INT8", outcome.calibration)
    assert [file.name for file in prepared.all_files] == ["model.onnx", "reference.onnx"]
    assert prepared.reference_files[0].size_bytes == len(magika_model)

    build = bench.build_request(
        outcome.prepared_key,
        precision=order,
        evaluation=evaluation(f"s3://{bench.bucket.name}/evaluation/", "Top1", EVALUATED),
        timeout_seconds=600,
    )
    ended = bench.run(build)

    assert ended.code == 0, ended.log
    engine = bench.engine(build.key)
    assert (engine.precision_requested, engine.precision_effective) == ("INT8", "INT8")
    assert engine.accuracy.samples == EVALUATED
    assert float(engine.accuracy.reference) > 0.9
    assert float(engine.accuracy.degradation) < 0.01


@dataclass(frozen=True)
class Refusal:
    calibration: Callable[[], dict[str, bytes]]
    reason: str
    code: int
    words: list[str]
    samples: int = 100


def real(count: int = 150) -> Any:
    return real_files(count)[0]


def noise() -> Any:
    return np.random.default_rng(0).integers(0, 256, (150, 2048)).astype(np.int32)


REFUSALS = {
    "random noise": Refusal(
        lambda: {"a.npz": npz(bytes=noise())},
        "CalibrationDataInvalid", 30, ["1.000 from the evaluation data", "0.8", "noise"],
    ),
    "no files": Refusal(dict, "CalibrationDataNotFound", 28, ["no .npz file", "/calibration/"]),
    "fewer than asked for": Refusal(
        lambda: {"a.npz": npz(bytes=real(60))}, "TooFewSamples", 29, ["60 samples", "asks for 100"]
    ),
    "another name": Refusal(
        lambda: {"a.npz": npz(data=real())}, "CalibrationDataInvalid", 30, ["no array for input bytes"]
    ),
    "another type": Refusal(
        lambda: {"a.npz": npz(bytes=real().astype(np.float32))}, "CalibrationDataInvalid", 30, ["float32", "int32"]
    ),
    "another shape": Refusal(
        lambda: {"a.npz": npz(bytes=real()[:, :100])}, "CalibrationDataInvalid", 30, ["[150, 100]", "[N, 2048]"]
    ),
    "one value throughout": Refusal(
        lambda: {"a.npz": npz(bytes=np.full((150, 2048), 256, np.int32))},
        "CalibrationDataInvalid", 30, ["all 100 samples are the same"],
    ),
    "one sample again and again": Refusal(
        lambda: {"a.npz": npz(bytes=np.repeat(real(1), 150, axis=0))},
        "CalibrationDataInvalid", 30, ["all 100 samples are the same"],
    ),
    "a damaged file": Refusal(
        lambda: {"a.npz": npz(bytes=real())[:5000]}, "CalibrationDataInvalid", 30, ["not an .npz file"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS.keys())
def test_calibration_data_that_say_nothing_are_refused_and_recorded(
    bench: Workbench, magika_model: bytes, case: Refusal
) -> None:
    for name, data in case.calibration().items():
        bench.upload(f"calibration/{name}", data)
    bench.upload("evaluation/a.npz", npz(bytes=real_files(200, skip=CALIBRATED)[0]))
    request = bench.prepare_request(
        bench.upload("magika/model.onnx", magika_model), precision=ordered(bench, "INT8", case.samples)
    )

    ended = bench.run(request)

    assert (ended.reason, ended.code) == (case.reason, case.code), ended.log
    assert [word for word in case.words if word not in ended.text] == [], ended.text
    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert outcome.reason == case.reason


def test_nodes_that_would_overflow_are_found_on_the_gates_data_and_listed(bench: Workbench) -> None:
    bench.upload("evaluation/a.npz", npz(x=normal(64, 64, scale=1000)))
    uri = bench.upload("m/model.onnx", rms().SerializeToString())
    order = PrecisionRef(
        type="FP16", calibration=CalibrationRef(uri=f"s3://{bench.bucket.name}/evaluation/", samples=64)
    )
    request = bench.prepare_request(uri, precision=order)

    assert bench.run(request).code == 0

    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert bench.prepared(outcome.prepared_key).kept_nodes == ["pow", "mean", "sqrt"]
    assert any("3 nodes stay in FP32" in note for note in outcome.notes)


def test_generated_inputs_stand_in_where_there_is_no_gate(bench: Workbench) -> None:
    request = bench.prepare_request(bench.upload("m/model.onnx", mlp().SerializeToString()), precision="FP16")

    assert bench.run(request).code == 0

    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert any("generated inputs only" in note for note in outcome.notes)


def test_every_precision_and_every_data_set_has_its_own_prepared_model(bench: Workbench) -> None:
    uri = bench.upload("m/model.onnx", mlp().SerializeToString())
    keys = [bench.prepare(uri), bench.prepare(uri, precision="FP16", n=1), bench.prepare(uri, precision="BF16", n=2)]
    for number, seed in enumerate((1, 2, 1)):
        bench.upload("calibration/a.npz", npz(x=normal(100, 64, seed=seed)))
        order = ordered(bench, "INT8", 100, gate=False)
        keys.append(bench.prepare(uri, precision=order, n=3 + number))

    assert len(set(keys)) == 5
    assert keys[3] == keys[5]


def test_profile_by_which_overflow_was_looked_for_is_part_of_the_key(bench: Workbench) -> None:
    uri = bench.upload("m/model.onnx", mlp().SerializeToString())
    few, other_max, many = ([profile(x=([1, 64], [best, 64], [high, 64]))] for best, high in ((2, 8), (2, 16), (8, 8)))

    keys = [
        bench.prepare(uri, profiles=ranges, precision=kind, n=10 * number + index)
        for number, kind in enumerate(("FP16", "BF16", "FP32"))
        for index, ranges in enumerate((few, other_max, many))
    ]

    half, brain, single = keys[:3], keys[3:6], keys[6:]
    assert half[0] == half[1] != half[2]
    assert len(set(brain)) == len(set(single)) == 1


def test_half_model_is_built_and_compared_with_its_fp32_reference(bench: Workbench) -> None:
    key = bench.prepare(bench.upload("m/model.onnx", mlp().SerializeToString()), precision="FP16")
    request = bench.build_request(key, precision=PrecisionRef(type="FP16"))

    ended = bench.run(request)

    assert ended.code == 0, ended.log
    accuracy = bench.engine(request.key).accuracy
    assert 0 < float(accuracy.degradation) < 0.01


def test_engine_whose_output_died_is_not_published(bench: Workbench) -> None:
    """A scale that calibration on tiny inputs set leaves nothing of real ones; so does one that is far too large."""
    scale = onnx.numpy_helper.from_array(np.float32(1e6), "scale")
    zero = onnx.numpy_helper.from_array(np.int8(0), "zero")
    dead = model(
        [
            node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "q"),
            node("DequantizeLinear", ["q", "scale", "zero"], ["d"], "d"),
            node("MatMul", ["d", "W"], ["y"], "fc"),
        ],
        [value("x", FLOAT, ["N", 64])],
        [value("y", FLOAT, ["N", 10])],
        [weight("W", 64, 10), scale, zero],
    )
    order = PrecisionRef(type="INT8", prequantized=True)
    key = bench.prepare(bench.upload("m/model.onnx", dead.SerializeToString()), precision=order)
    bench.upload("evaluation/a.npz", npz(x=normal(32, 64)))
    gate = evaluation(f"s3://{bench.bucket.name}/evaluation/", "CosineSimilarity", 32)
    request = bench.build_request(key, precision=order, evaluation=gate)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == ("EvaluationFailed", 24), ended.log
    assert "every output" in ended.text
    assert not bench.bucket.keys(bench.engine_key_prefix(request.key))
