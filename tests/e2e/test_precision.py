"""Precisions beside FP32 in the cluster, on a model with real weights and real inputs: calibrated, proven, chosen.

It is example 02 as it lies in the repository, and what differs from it: noise for calibration data, precision Auto.
"""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest
import yaml
from support.evaluation_files import npz
from support.examples import QUANTIZED, manifest
from support.kube import Kube, Object
from support.real_files import CALIBRATION, EVALUATION, MODEL, real_files
from support.workspace import Workspace, workspace

BUILD_SECONDS = 300
"""A machine with two busy cores takes so long at most for a quantized model: one prepare Job and one build."""


@pytest.fixture(scope="module")
def files(kube: Kube) -> Iterator[Workspace]:
    """A tenant that has uploaded the model, 300 files to calibrate on, 1000 others to evaluate on, and noise."""
    inputs, _ = real_files(CALIBRATION)
    others, labels = real_files(EVALUATION, skip=CALIBRATION)
    noise = np.random.default_rng(4).integers(0, 257, (CALIBRATION, 2048)).astype(np.int32)
    with workspace(kube) as team:
        team.upload("magika/model.onnx", MODEL.read_bytes())
        team.upload("magika-int8/calibration/files.npz", npz(bytes=inputs))
        team.upload("magika-int8/evaluation/files.npz", npz(bytes=others, labels=labels))
        team.upload("noise/files.npz", npz(bytes=noise))
        yield team


def apply(team: Workspace, name: str = "magika-int8", kind: str = "INT8", **spec: Object) -> None:
    """Example 02; under another name with another precision, calibration or objective, which share its engines."""
    wanted: Object = yaml.safe_load(manifest(QUANTIZED, team.name))
    wanted["metadata"]["name"] = name
    wanted["spec"]["precision"] |= {"type": kind} | spec.pop("precision", {})
    wanted["spec"] |= spec
    team.kube.apply(wanted)


def test_int8_is_calibrated_on_real_files_and_loses_less_than_a_hundredth_on_others(files: Workspace) -> None:
    apply(files)
    files.wait("magika-int8", timeout=BUILD_SECONDS)
    calibrated = files.condition("magika-int8", "Calibrated")
    assert (calibrated["status"], calibrated["reason"]) == ("True", "Calibrated")
    assert f"on {CALIBRATION} samples, distance " in calibrated["message"]
    status = files.status("magika-int8")
    assert status["precision"]["effective"] == "INT8"
    accuracy = status["accuracy"]
    assert (accuracy["metric"], accuracy["samples"]) == ("Top1", EVALUATION)
    assert Decimal(accuracy["reference"]) > Decimal("0.9")
    assert Decimal(accuracy["degradation"]) < Decimal("0.01")


def test_noise_is_refused_as_calibration_data_until_real_files_are_in_its_place(files: Workspace) -> None:
    apply(files, "noise", precision={"calibration": {"uri": files.uri("noise/"), "samples": CALIBRATION}})
    found = files.wait("noise", "Calibrated", "False", "CalibrationDataInvalid", timeout=BUILD_SECONDS)
    assert "asked again every" in found["message"]
    assert files.condition("noise", "SourceVerified")["status"] == "True"
    ready = files.condition("noise")
    assert (ready["status"], ready["reason"]) == ("False", "CalibrationDataInvalid")
    assert files.jobs("noise", "build") == []
    assert files.deployments("noise") == []
    files.upload("noise/files.npz", npz(bytes=real_files(CALIBRATION)[0]))
    files.wait("noise", "Calibrated", "True", timeout=BUILD_SECONDS)
    files.delete("noise")  # nobody waits for its build


def objective(milliseconds: str) -> Object:
    return {"latencyMilliseconds": {"percentile": 99, "value": milliseconds}, "batchSize": 1}


def test_auto_keeps_fp32_where_that_is_fast_enough(files: Workspace) -> None:
    apply(files, "generous", "Auto", objective=objective("60000"))
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
    apply(files, "impossible", "Auto", objective=objective("0.001"))
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
