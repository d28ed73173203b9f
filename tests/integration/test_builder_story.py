"""The builder end to end: the real program as a subprocess, a real model, real S3 servers."""

import importlib.resources
from pathlib import Path

import onnxruntime
import pytest
from enginery_store.manifest import InputRange, ShapeProfile
from enginery_store.signing import verify
from support.builder_runs import Workbench
from support.s3_servers import Bucket


@pytest.fixture
def bench(tmp_path: Path, bucket: Bucket) -> Workbench:
    return Workbench(tmp_path, bucket)


@pytest.fixture(scope="session")
def magika_model() -> bytes:
    return (importlib.resources.files("magika") / "models/standard_v3_3/model.onnx").read_bytes()


def magika_profile(largest: int = 16) -> ShapeProfile:
    sizes = {end: [batch, 2048] for end, batch in (("min", 1), ("opt", 4), ("max", largest))}
    return ShapeProfile(name="default", inputs=[InputRange(name="bytes", **sizes)])


def test_real_model_is_prepared_and_built(bench: Workbench, magika_model: bytes) -> None:
    uri = bench.upload("models/magika/model.onnx", magika_model)
    prepared_key = bench.prepare(uri, [magika_profile()])

    request = bench.build_request(prepared_key, [magika_profile()])
    ended = bench.run(request)

    assert ended.code == 0, ended.log
    assert ended.reason == "AllTargetsBuilt"
    manifest = bench.engine(request.key)
    folder = bench.engine_key_prefix(request.key)
    verify([bench.public_key], bench.bucket.get(f"{folder}manifest.json"), bench.bucket.get(f"{folder}manifest.sig"))
    session = onnxruntime.InferenceSession(bench.bucket.get(f"{folder}{manifest.file.name}"))
    assert [item.name for item in session.get_inputs()] == ["bytes"]
    assert {(record.profile, record.batch) for record in manifest.latency} == {("default", 1), ("default", 4)}
    assert manifest.accuracy.data_digest == "synthetic"
    assert float(manifest.accuracy.degradation) < 1e-3
    assert manifest.accuracy.samples == 5
    assert manifest.device_memory_bytes >= manifest.file.size_bytes
    assert not list((bench.folder / "work").iterdir())
