"""Engines for GPUs that nobody here has: TensorRT-RTX compiles them ahead of time, in Jobs on the one CPU node."""

import importlib.resources
from collections.abc import Iterator

import pytest
from enginery_cluster.state import Cluster
from support.kube import Kube, Object
from support.ocr_models import ocr_model
from support.simulated_gpus import simulated_gpus
from support.workspace import Workspace

GPUS = (("NVIDIA-A10", "8.6"), ("NVIDIA-L40S", "8.9"))
TARGETS = ["sm86-nvidia-a10", "sm89-nvidia-l40s"]
BUILD_SECONDS = 300
PICTURES: Object = {
    "name": "pictures",
    "inputs": [{"name": "x", "min": [1, 3, 32, 32], "opt": [1, 3, 320, 320], "max": [1, 3, 640, 640]}],
}
PROFILE: Object = {
    "name": "default",
    "inputs": [{"name": "bytes", "min": [1, 2048], "opt": [4, 2048], "max": [8, 2048]}],
}


@pytest.fixture(scope="module")
def _gpus(kube: Kube) -> Iterator[None]:
    with simulated_gpus(kube.cluster, GPUS):
        yield


@pytest.fixture
def rtx(team: Workspace, _gpus: None) -> Workspace:
    """A tenant with a real model, in a cluster that has an A10 and an L40S by its nodes' word."""
    model = importlib.resources.files("magika") / "models/standard_v3_3/model.onnx"
    team.upload("magika/model.onnx", model.read_bytes())
    return team


def apply(
    team: Workspace, name: str, kind: str = "FP32", source: str = "magika", profile: Object = PROFILE, **spec: object
) -> None:
    team.apply(
        name,
        team.uri(f"{source}/model.onnx"),
        precision={"type": kind},
        shapes__profiles=[profile],
        accelerator={"mode": "GPU"},
        build__backend="TensorRTRTX",
        **spec,
    )


def test_one_model_is_prepared_once_and_compiled_for_two_gpus_on_a_cpu(rtx: Workspace, cluster: Cluster) -> None:
    """PP-OCR's text detection, with its weights: pictures of any height and width."""
    rtx.upload("ocr/model.onnx", ocr_model("det").read_bytes())
    apply(rtx, "ocr", "FP16", source="ocr", profile=PICTURES)
    rtx.wait("ocr", "EnginesReady", "True", timeout=BUILD_SECONDS)
    assert len(rtx.jobs("ocr", "prepare")) == 1
    builds = rtx.jobs("ocr", "build")
    assert len(builds) == 2
    for build in builds:
        (container,) = build["spec"]["template"]["spec"]["containers"]
        assert not any(name.startswith("nvidia.com/") for name in container["resources"]["limits"])
    nodes = {pod["spec"]["nodeName"] for pod in rtx.pods("ocr", "build")}
    assert nodes == {cluster.node_name}
    engines = {engine["target"]: engine for engine in rtx.status("ocr")["engines"]}
    assert sorted(engines) == TARGETS
    assert {engine["state"] for engine in engines.values()} == {"Ready"}
    assert all(engine["backendVersion"].startswith("TensorRTRTX 1.") for engine in engines.values())
    assert len({engine["key"] for engine in engines.values()}) == 2
    assert _manifests(rtx, "engines") == 2
    assert _manifests(rtx, "prepared") == 1


def _manifests(team: Workspace, folder: str) -> int:
    return sum(name.endswith("manifest.json") for name in team.stored(folder))


def test_auto_keeps_fp16_where_no_latency_can_be_measured(rtx: Workspace) -> None:
    apply(rtx, "auto", "Auto", objective={"latencyMilliseconds": {"value": "1"}})
    found = rtx.wait("auto", "EnginesReady", "True", timeout=BUILD_SECONDS)
    assert "Auto keeps FP16" in found["message"]
    (row,) = rtx.status("auto")["precision"]["tried"]
    assert row == {"type": "FP16", "accepted": True, "reason": "NotMeasured"}


def test_a_precision_that_one_of_the_gpus_lacks_leaves_that_one_out(rtx: Workspace) -> None:
    rtx.upload("evaluation/none.txt", b"")
    gate = {"uri": rtx.uri("evaluation/"), "metric": "MaxAbsError", "maxDegradation": "0.01"}
    wanted = {"type": "FP8", "calibration": {"uri": rtx.uri("evaluation/")}, "accuracyGate": gate}
    rtx.kube.apply(
        rtx.manifest(
            "fp8", rtx.uri("magika/model.onnx"), precision=wanted, accelerator={"mode": "GPU"},
            build__backend="TensorRTRTX",
        )
    )  # fmt: skip
    accepted = rtx.wait("fp8", "Accepted")
    assert accepted["message"] == "1 target(s); left out, as TensorRTRTX makes no FP8 engines for them: sm86-nvidia-a10"


def test_a_datacentre_gpu_is_told_which_backend_to_write(rtx: Workspace) -> None:
    rtx.apply(
        "sliced",
        rtx.uri("magika/model.onnx"),
        accelerator={"mode": "MIG", "profile": "1g.10gb"},
        build__backend="TensorRTRTX",
    )
    found = rtx.wait("sliced", "Accepted", "False", "InvalidSpec")
    assert "write TensorRT" in found["message"]
    assert "sm90-nvidia-h100" in found["message"]
