"""Precisions beside FP32 in the cluster, on a model with real weights and real inputs: calibrated, proven, chosen.

The model is the classifier that the PyPI package `magika` carries; its inputs are the files of this Python
installation, which it never saw.
"""

import importlib.resources
import random
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from support.evaluation_files import npz
from support.kube import Kube, Object
from support.magika_inputs import magika_samples
from support.workspace import Workspace, workspace

CALIBRATION, EVALUATION = 300, 1000
BUILD_SECONDS = 300
"""A machine with two busy cores takes so long at most for a quantized model: one prepare Job and one build."""

PROFILE: Object = {
    "name": "default",
    "inputs": [{"name": "bytes", "min": [1, 2048], "opt": [4, 2048], "max": [8, 2048]}],
}


@pytest.fixture(scope="module")
def files(kube: Kube) -> Iterator[Workspace]:
    """A tenant that has uploaded the model, 300 files to calibrate on, 1000 others to evaluate on, and noise."""
    inputs, labels = magika_samples(Path(sys.prefix), CALIBRATION + EVALUATION)
    order = list(range(len(inputs)))
    random.Random(4).shuffle(order)  # noqa: S311 - a seed, so that both halves are the same files every time
    calibration, evaluation = order[:CALIBRATION], order[CALIBRATION:]
    noise = np.random.default_rng(4).integers(0, 257, (CALIBRATION, 2048)).astype(np.int32)
    with workspace(kube) as team:
        model = importlib.resources.files("magika") / "models/standard_v3_3/model.onnx"
        team.upload("magika/model.onnx", model.read_bytes())
        team.upload("calibration/files.npz", npz(bytes=inputs[calibration]))
        team.upload("evaluation/files.npz", npz(bytes=inputs[evaluation], labels=labels[evaluation]))
        team.upload("noise/files.npz", npz(bytes=noise))
        yield team


def precision(team: Workspace, kind: str, calibration: str = "calibration/") -> Object:
    gate = {"uri": team.uri("evaluation/"), "metric": "Top1", "maxDegradation": "0.010", "samples": EVALUATION}
    scales = {"uri": team.uri(calibration), "samples": CALIBRATION}
    return {"type": kind, "quantization": "Calibrate", "calibration": scales, "accuracyGate": gate}


def apply(team: Workspace, name: str, wanted: Object, **spec: object) -> None:
    team.apply(name, team.uri("magika/model.onnx"), precision=wanted, shapes__profiles=[PROFILE], **spec)


def test_int8_is_calibrated_on_real_files_and_loses_less_than_a_hundredth_on_others(files: Workspace) -> None:
    apply(files, "int8", precision(files, "INT8"))
    files.wait("int8", timeout=BUILD_SECONDS)
    calibrated = files.condition("int8", "Calibrated")
    assert (calibrated["status"], calibrated["reason"]) == ("True", "Calibrated")
    assert f"on {CALIBRATION} samples, distance " in calibrated["message"]
    status = files.status("int8")
    assert status["precision"]["effective"] == "INT8"
    accuracy = status["accuracy"]
    assert (accuracy["metric"], accuracy["samples"]) == ("Top1", EVALUATION)
    assert Decimal(accuracy["reference"]) > Decimal("0.9")
    assert Decimal(accuracy["degradation"]) < Decimal("0.01")


def test_noise_is_refused_as_calibration_data_and_says_nothing_against_the_source(files: Workspace) -> None:
    apply(files, "noise", precision(files, "INT8", "noise/"))
    found = files.wait("noise", "Calibrated", "False", "CalibrationDataInvalid", timeout=BUILD_SECONDS)
    assert "asked again every" in found["message"]
    assert files.condition("noise", "SourceVerified")["status"] == "True"
    ready = files.condition("noise")
    assert (ready["status"], ready["reason"]) == ("False", "CalibrationDataInvalid")
    assert files.jobs("noise", "build") == []
    assert files.deployments("noise") == []


def test_noise_that_is_replaced_by_real_files_is_noticed(files: Workspace) -> None:
    inputs, _ = magika_samples(Path(sys.prefix), CALIBRATION)
    files.upload("mended/files.npz", npz(bytes=np.zeros_like(inputs)))
    apply(files, "mended", precision(files, "INT8", "mended/"))
    files.wait("mended", "Calibrated", "False", timeout=BUILD_SECONDS)
    files.upload("mended/files.npz", npz(bytes=inputs))
    files.wait("mended", "Calibrated", "True", timeout=BUILD_SECONDS)
    files.delete("mended")  # nobody waits for its build


def objective(milliseconds: str) -> Object:
    return {"latencyMilliseconds": {"percentile": 99, "value": milliseconds}, "batchSize": 1}


def test_auto_keeps_fp32_where_that_is_fast_enough(files: Workspace) -> None:
    apply(files, "generous", precision(files, "Auto"), objective=objective("60000"))
    files.wait("generous", timeout=BUILD_SECONDS)
    found = files.status("generous")["precision"]
    assert found["effective"] == "FP32"
    (row,) = found["tried"]
    assert (row["type"], row["accepted"], row["reason"]) == ("FP32", True, "Chosen")
    assert 0 < Decimal(row["p99Milliseconds"]) < 60000
    assert [job["metadata"]["labels"]["app.kubernetes.io/component"] for job in files.jobs("generous")].count(
        "build"
    ) <= 1


def test_auto_tries_int8_where_fp32_is_too_slow_and_serves_the_faster_one(files: Workspace) -> None:
    apply(files, "impossible", precision(files, "Auto"), objective=objective("0.001"))
    files.wait("impossible", timeout=2 * BUILD_SECONDS)
    status = files.status("impossible")
    rows = {row["type"]: row for row in status["precision"]["tried"]}
    assert set(rows) == {"FP32", "INT8"}
    latency = {name: Decimal(row["p99Milliseconds"]) for name, row in rows.items()}
    assert {row["reason"] for row in rows.values()} == {"ObjectiveMissed"}
    quicker = min(latency, key=lambda name: (latency[name], name))
    assert [name for name, row in rows.items() if row["accepted"]] == [quicker]
    assert status["precision"]["effective"] == quicker
    ready = files.condition("impossible", "EnginesReady")
    assert ready["status"] == "True"
    assert "no precision meets the objective of 0.001 ms at batch 1" in ready["message"]
    (deployment,) = files.deployments("impossible")
    assert deployment["metadata"]["name"] == status["targetRevision"]
    assert deployment["metadata"]["generation"] == 1, "the Deployment was made before the ladder was decided"
