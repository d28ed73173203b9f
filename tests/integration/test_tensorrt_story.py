"""The builder end to end with TensorRT-RTX: prepared once, compiled for two kinds of GPU, without a GPU, real S3."""

import importlib.resources
from typing import Any

import pytest
from enginery_builder import timing_cache
from enginery_builder.stores import Stores
from enginery_store.manifest import ShapeProfile, Target
from enginery_store.requests import BuildRequest
from enginery_store.signing import verify
from support.builder_runs import Workbench
from support.onnx_models import mlp
from support.s3_proxy import refuse, s3_proxy
from support.tensorrt_models import BATCHES, profile

AMPERE = Target(accelerator="GPU", compute_capability="8.6", product="NVIDIA-A10")
ADA = Target(accelerator="GPU", compute_capability="8.9", product="NVIDIA-L4")
SLICE = Target(accelerator="MIG", compute_capability="9.0", product="NVIDIA-H200", mig_profile="1g.18gb")


def for_gpu(bench: Workbench, prepared: str, profiles: list[ShapeProfile], target: Target, n: int) -> BuildRequest:
    fields: dict[str, Any] = {"backend": "TensorRTRTX", "backend_version": "1.7.1", "target": target}
    return bench.build_request(prepared, profiles, n=n, **fields)


def test_one_prepared_model_becomes_an_engine_for_each_of_two_gpus(bench: Workbench) -> None:
    magika = (importlib.resources.files("magika") / "models/standard_v3_3/model.onnx").read_bytes()
    batches = profile(bytes=([1, 2048], [4, 2048], [16, 2048]))
    prepared = bench.prepare(bench.upload("models/magika/model.onnx", magika), [batches])

    for number, target in enumerate((AMPERE, ADA)):
        request = for_gpu(bench, prepared, [batches], target, number)
        ended = bench.run(request)

        assert (ended.code, ended.reason) == (0, "AllTargetsBuilt"), ended.log
        manifest = bench.engine(request.key)
        folder = bench.engine_key_prefix(request.key)
        verify(
            [bench.public_key], bench.bucket.get(f"{folder}manifest.json"), bench.bucket.get(f"{folder}manifest.sig")
        )
        assert bench.bucket.get(f"{folder}{manifest.file.name}")[:4] == b"vtrt"
        assert manifest.file.name.endswith(".plan")
        assert (manifest.target, manifest.backend, manifest.backend_version) == (target, "TensorRTRTX", "1.7.1")
        assert manifest.accuracy.measured_on == "Reference"
        assert float(manifest.accuracy.degradation) == 0
        assert manifest.latency == []
        assert (manifest.layers, manifest.timing_cache) == ({}, "Unused")
        assert manifest.device_memory_bytes == manifest.file.size_bytes
        assert manifest.build_peak_memory_bytes > manifest.file.size_bytes


def test_target_that_rtx_lacks_ends_before_the_model_is_fetched(bench: Workbench) -> None:
    request = for_gpu(bench, "0" * 64, [BATCHES], SLICE, 0)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == ("InvalidSpec", 10), ended.log
    assert "write spec.build.backend TensorRT" in ended.text
    assert not bench.bucket.keys(bench.engine_key_prefix(request.key))


def test_precision_that_the_gpu_lacks_ends_in_words_and_is_recorded(bench: Workbench) -> None:
    prepared = bench.prepare(bench.upload("m/model.onnx", mlp().SerializeToString()), [BATCHES])
    turing = Target(accelerator="GPU", compute_capability="7.5", product="Tesla-T4")
    request = for_gpu(bench, prepared, [BATCHES], turing, 0)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == ("PrecisionNotSupportedByHardware", 35), ended.log
    assert "Traceback" not in ended.text
    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert (outcome.reason, outcome.message) == (ended.reason, ended.text)


def test_builder_without_tensorrt_says_which_image_is_needed(bench: Workbench) -> None:
    request = bench.build_request("0" * 64, backend="TensorRT", backend_version="10.14.1", target=SLICE)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == ("ConfigError", 27), ended.log
    assert "cannot load TensorRT" in ended.text


@pytest.fixture
def slice_request(bench: Workbench) -> BuildRequest:
    return bench.build_request("0" * 64, backend="TensorRT", backend_version="10.14.1", target=SLICE)


@pytest.fixture
def stores(bench: Workbench) -> Stores:
    client = bench.bucket.client()
    return Stores(client, client, bench.bucket.location(bench.prefix_key), b"")


def test_timings_of_one_build_are_those_of_the_next_on_the_same_kind_of_slice(
    stores: Stores, slice_request: BuildRequest
) -> None:
    first = timing_cache.read(stores, slice_request)
    assert first.data is None

    timing_cache.replace(stores, first, b"measured")

    assert timing_cache.read(stores, slice_request).data == b"measured"
    whole_gpu = Target(accelerator="GPU", compute_capability="9.0", product="NVIDIA-H200")
    assert timing_cache.read(stores, slice_request.model_copy(update={"target": whole_gpu})).data is None


@pytest.mark.parametrize("stored", [b"", b"of last week"])
def test_builds_that_end_together_keep_the_timings_of_the_first(
    stores: Stores, slice_request: BuildRequest, stored: bytes
) -> None:
    if stored:
        timing_cache.replace(stores, timing_cache.read(stores, slice_request), stored)
    one, two = timing_cache.read(stores, slice_request), timing_cache.read(stores, slice_request)

    timing_cache.replace(stores, one, b"of the first")
    timing_cache.replace(stores, two, b"of the second")

    assert timing_cache.read(stores, slice_request).data == b"of the first"


def test_builds_that_measured_nothing_new_write_nothing(
    bench: Workbench, stores: Stores, slice_request: BuildRequest
) -> None:
    timing_cache.replace(stores, timing_cache.read(stores, slice_request), None)

    assert bench.bucket.everything() == {}


def test_backend_that_keeps_no_timings_stores_none(
    bench: Workbench, stores: Stores, slice_request: BuildRequest
) -> None:
    stored = timing_cache.read(stores, slice_request.model_copy(update={"backend": "TensorRTRTX"}))

    timing_cache.replace(stores, stored, b"measured")

    assert bench.bucket.everything() == {}


def test_store_in_trouble_ends_no_build(
    bench: Workbench, slice_request: BuildRequest, caplog: pytest.LogCaptureFixture
) -> None:
    with s3_proxy(bench.bucket.server.endpoint) as proxy:
        proxy.add(refuse(403, "AccessDenied", path="timing-caches"))
        access = bench.bucket.server.access.model_copy(update={"endpoint": proxy.endpoint})
        client = type(bench.bucket.client())(access, bench.bucket.server.credentials, attempts=1)
        stores = Stores(client, client, bench.bucket.location(bench.prefix_key), b"")

        assert timing_cache.read(stores, slice_request) == timing_cache.StoredTimings()
        timing_cache.replace(stores, timing_cache.StoredTimings(bench.bucket.location("timing-caches/x")), b"new")

    assert "stored timings cannot be read" in caplog.messages
    assert "timings cannot be stored" in caplog.messages
