"""The main job: apply one file, get answered requests. The example that `make demo` runs, checked number by number."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest
import yaml
from support.client_env import run_client, save_case
from support.eventually import eventually
from support.examples import CLASSIFICATION, manifest, program
from support.kube import Kube
from support.workspace import Workspace, workspace

FILES, RIGHT_AT_LEAST = 50, 48


classify: Any = program(CLASSIFICATION / "classify.py")


@pytest.fixture(scope="module")
def magika(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """The example, applied as it lies in the repository, in a tenant of this module's own."""
    with workspace(kube) as team:
        data = tmp_path_factory.mktemp("evaluation") / "files.npz"
        classify.evaluation_file(data, classify.samples(200, skip=20))
        team.upload("magika/model.onnx", classify.MODEL.read_bytes())
        team.upload("magika/evaluation/files.npz", data.read_bytes())
        kube.kubectl("apply", "-f", "-", given=manifest(CLASSIFICATION, team.name))
        team.kubectl("wait", "--for=condition=Ready", "imodel/magika", "--timeout=120s")
        yield team


def _infer(client: httpx.Client, row: Any) -> Any:
    tensor = {"name": classify.INPUT, "shape": [1, 2048], "datatype": "INT32", "data": row.ravel().tolist()}
    answer = client.post("/v2/models/magika/infer", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    output = answer.json()["outputs"][0]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def test_fifty_real_files_are_answered_as_onnxruntime_answers_and_48_get_their_label(magika: Workspace) -> None:
    session = onnxruntime.InferenceSession(str(classify.MODEL), providers=["CPUExecutionProvider"])
    names, right = classify.labels(), 0
    with httpx.Client(base_url=f"http://{magika.address('magika')}:8000", timeout=30) as client:
        for sample in classify.samples(FILES):
            row = classify.features(sample.path)[None, :]
            answer = _infer(client, row)
            np.testing.assert_allclose(answer, session.run([classify.OUTPUT], {classify.INPUT: row})[0], atol=1e-4)
            right += names[int(answer[0].argmax())] == sample.label
    assert right >= RIGHT_AT_LEAST


def test_status_tells_accuracy_engine_source_and_address(magika: Workspace) -> None:
    status = magika.status("magika")
    accuracy = status["accuracy"]
    assert accuracy["metric"] == "Top1"
    assert accuracy["samples"] == 200
    assert float(accuracy["reference"]) > 0.95
    assert float(accuracy["degradation"]) <= 0.01
    (engine,) = status["engines"]
    assert engine["state"] == "Ready"
    assert engine["signature"] == "Verified"
    assert engine["latency"][0]["p50Microseconds"] > 0
    assert status["source"]["sizeBytes"] == classify.MODEL.stat().st_size
    assert status["url"] == f"http://magika.{magika.name}.svc:8000"
    assert status["currentRevision"] == status["targetRevision"]
    assert {item["observedGeneration"] for item in status["conditions"]} == {status["observedGeneration"]}


def test_kubectl_get_shows_the_columns(magika: Workspace) -> None:
    head, row = magika.kubectl("get", "imodel", "-o", "wide").splitlines()
    assert head.split() == [
        "NAME", "READY", "REASON", "ENGINES", "PRECISION", "ACCELERATOR", "REPLICAS", "AGE", "URL", "REVISION",
        "MESSAGE",
    ]  # fmt: skip
    assert row.split()[:7] == ["magika", "True", "Serving", "1/1", "FP32", "cpu-amd64", "1"]
    assert f"http://magika.{magika.name}.svc:8000" in row


def test_kubectl_explain_reads_like_documentation(kube: Kube) -> None:
    text = kube.kubectl("explain", "inferencemodel.spec.precision")
    fields = [line.split()[0] for line in text.splitlines() if "\t<" in line]
    assert {"type", "accuracyGate", "calibration", "quantization"} <= set(fields)
    for field in fields:
        after = text.partition(f"  {field}\t")[2].partition("\t<")[0]
        sentences = [line for line in after.splitlines()[1:] if line.startswith("    ") and len(line.split()) > 3]
        assert sentences, f"{field} has no sentence"
    assert "Example" in kube.kubectl("explain", "inferencemodel.spec.source.uri")


def test_every_field_of_the_api_has_a_sentence(kube: Kube) -> None:
    crd = yaml.safe_load(kube.kubectl("get", "crd", "inferencemodels.enginery.io", "-o", "yaml"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    silent = [path for path, field in _fields(schema, "spec") if len(field.get("description", "").split()) < 3]
    assert silent == []


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from _fields(field, f"{path}.{name}")
        yield from _fields(field.get("items", {}), f"{path}.{name}[]")


def test_real_clients_get_the_same_answers_from_the_served_model(magika: Workspace, tmp_path: Path) -> None:
    rows = np.stack([classify.features(sample.path) for sample in classify.samples(4)])
    session = onnxruntime.InferenceSession(str(classify.MODEL), providers=["CPUExecutionProvider"])
    want = session.run([classify.OUTPUT], {classify.INPUT: rows})[0]
    case = save_case(tmp_path / "case.npz", {classify.INPUT: rows}, {classify.OUTPUT: want})
    address = magika.address("magika")
    for client, inferences in (
        ("tritonclient", ("http infer binary", "http infer json", "grpc infer raw")),
        ("kserve", ("http infer binary", "http infer json", "grpc infer raw", "grpc infer typed")),
    ):
        results = run_client(client, f"{address}:8000", f"{address}:8001", "magika", case)["results"]
        assert {name: results[name] for name in inferences} == dict.fromkeys(inferences, "ok"), client


def test_kubectl_scale_changes_the_replicas_and_rolls_nothing(magika: Workspace) -> None:
    before = {pod["metadata"]["uid"] for pod in magika.pods("magika")}
    revision = magika.status("magika")["currentRevision"]
    magika.kubectl("scale", "imodel", "magika", "--replicas=2")
    eventually(lambda: magika.status("magika").get("readyReplicas") == 2, 60)
    magika.wait("magika")
    assert before < {pod["metadata"]["uid"] for pod in magika.pods("magika")}
    assert magika.status("magika")["currentRevision"] == revision
    magika.kubectl("scale", "imodel", "magika", "--replicas=1")
    eventually(lambda: len(magika.pods("magika")) == 1, 60)
    magika.wait("magika")
