"""From nothing to ready: health while loading, and how each failed start ends."""

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from enginery_runtime.oip import grpc_service_pb2 as pb
from enginery_runtime.oip import health_pb2
from enginery_store.layout import MANIFEST_NAME, SIGNATURE_NAME, engine_folder, parse_uri
from enginery_store.manifest import StoredFile, Target, TensorSpec
from enginery_store.requests import ServeRequest, StoreAccess
from support.oip import call, refusal, x_input
from support.published import SigningKey, a_manifest
from support.runtime_process import RuntimeProcess, free_ports
from support.runtime_stage import Stage
from support.s3_proxy import Fault, cut, flip, refuse, s3_proxy
from support.s3_servers import moto_server
from support.tiny_models import double_plus_one, identity


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Stage]]:
    with moto_server() as server:
        yield lambda: Stage(server, tmp_path_factory.mktemp("runtime"))


def grpc_health(runtime: RuntimeProcess) -> int:
    with grpc.insecure_channel(runtime.grpc_address) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )  # fmt: skip
        return check(health_pb2.HealthCheckRequest(), timeout=10).status


def test_ready_turns_true_once_and_live_holds_meanwhile(stages: Callable[[], Stage]) -> None:
    stage = stages()
    order = stage.order(stage.publish(double_plus_one()), warmup_requests=200_000)
    seen: list[tuple[bool, bool, bool]] = []
    with stage.runtime(order) as runtime, httpx.Client(base_url=runtime.url) as client:
        runtime.wait_open()
        early = runtime.infer("tiny", {"inputs": [x_input()]})
        early_grpc = refusal(runtime.grpc_address, pb.ModelInferRequest(model_name="tiny"))
        early_health = grpc_health(runtime)
        early_document = client.get("/v2/models/tiny")
        give_up = time.monotonic() + 60
        while len(seen) < 10 or seen[-10:] != [(True, True, True)] * 10:
            assert time.monotonic() < give_up, runtime.log()
            live = client.get("/v2/health/live").status_code == 200
            ready = client.get("/v2/health/ready").status_code == 200
            seen.append((live, ready, call(runtime.grpc_address, "ServerReady", pb.ServerReadyRequest()).ready))
            time.sleep(0.02)
        late_health = grpc_health(runtime)
    assert early.status_code == 503
    assert early.headers["Retry-After"] == "1"
    assert "loading" in early.json()["error"]
    assert early_grpc[0] == "UNAVAILABLE"
    assert early_document.status_code == 503
    assert (early_health, late_health) == (
        health_pb2.HealthCheckResponse.NOT_SERVING,
        health_pb2.HealthCheckResponse.SERVING,
    )
    assert all(live for live, _, _ in seen)
    for protocol in (1, 2):
        answers = [entry[protocol] for entry in seen]
        assert not answers[0]
        assert answers == sorted(answers), "ready flickered"


def blob(stage: Stage, key: str, name: str) -> str:
    return (engine_folder(parse_uri(stage.prefix), key) / name).key


def tampered_blob(stage: Stage) -> ServeRequest:
    model = double_plus_one()
    manifest = stage.publish(model)
    stage.bucket.put(blob(stage, manifest.key, "model.onnx"), model[:-1] + bytes([model[-1] ^ 1]))
    return stage.order(manifest)


def truncated_blob(stage: Stage) -> ServeRequest:
    model = double_plus_one()
    manifest = stage.publish(model)
    stage.bucket.put(blob(stage, manifest.key, "model.onnx"), model[:-10])
    return stage.order(manifest)


def tampered_manifest(stage: Stage) -> ServeRequest:
    manifest = stage.publish(double_plus_one())
    name = blob(stage, manifest.key, MANIFEST_NAME)
    stage.bucket.put(name, stage.bucket.get(name).replace(b'"FP32"', b'"FP16"'))
    return stage.order(manifest)


def foreign_manifest(stage: Stage) -> ServeRequest:
    manifest = stage.publish(double_plus_one(), under="d" * 64)
    return stage.order(manifest.model_copy(update={"key": "d" * 64}))


def foreign_signature(stage: Stage) -> ServeRequest:
    return stage.order(stage.publish(double_plus_one(), key=SigningKey.fresh()))


def missing_signature(stage: Stage) -> ServeRequest:
    manifest = stage.publish(double_plus_one())
    stage.bucket.admin.delete_object(Bucket=stage.bucket.name, Key=blob(stage, manifest.key, SIGNATURE_NAME))
    return stage.order(manifest)


def climbing_file(stage: Stage) -> ServeRequest:
    file = StoredFile(name="../../model.onnx", sha256="e" * 64, size_bytes=1)
    return stage.order(stage.publish(double_plus_one(), extra_files=[file]))


def other_architecture(stage: Stage) -> ServeRequest:
    return stage.order(stage.publish(double_plus_one(), target=Target(accelerator="CPU", architecture="s390x")))


def gpu_only(stage: Stage) -> ServeRequest:
    target = Target(accelerator="GPU", compute_capability="9.0", product="NVIDIA-H200")
    return stage.order(stage.publish(double_plus_one(), target=target))


def lying_order(stage: Stage) -> ServeRequest:
    """The order says this CPU, the manifest another."""
    manifest = stage.publish(double_plus_one(), target=Target(accelerator="CPU", architecture="s390x"))
    return stage.order(manifest.model_copy(update={"target": a_manifest(double_plus_one()).target}))


def other_version(stage: Stage) -> ServeRequest:
    return stage.order(stage.publish(double_plus_one(), backend_version="1.2.3"))


def other_backend(stage: Stage) -> ServeRequest:
    return stage.order(stage.publish(double_plus_one(), backend="TensorRT", backend_version="11.0"))


def missing_engine(stage: Stage) -> ServeRequest:
    return stage.order(a_manifest(double_plus_one()))


def missing_bucket(stage: Stage) -> ServeRequest:
    return stage.order(a_manifest(double_plus_one()), prefix="s3://no-such-bucket/tenant")


def corrupt_engine(stage: Stage) -> ServeRequest:
    blob = b"not an ONNX file"
    file = StoredFile(name="model.onnx", sha256=hashlib.sha256(blob).hexdigest(), size_bytes=len(blob))
    return stage.order(stage.publish(double_plus_one(), blob=blob, file=file))


def other_inputs(stage: Stage) -> ServeRequest:
    return stage.order(stage.publish(double_plus_one(), inputs=[TensorSpec(name="z", datatype="FP32", shape=[-1, 4])]))


def failing_warm_up(stage: Stage) -> ServeRequest:
    """The manifest promises a width the model refuses."""
    return stage.order(stage.publish(double_plus_one(), inputs=[TensorSpec(name="x", datatype="FP32", shape=[-1, 5])]))


def store_down(stage: Stage) -> ServeRequest:
    (port,) = free_ports(1)
    return stage.order(a_manifest(double_plus_one()), store=StoreAccess(endpoint=f"http://127.0.0.1:{port}"))


def no_bf16_with_text(stage: Stage) -> ServeRequest:
    return stage.order(stage.publish(identity(["BF16", "BYTES"])))


STARTS: dict[str, tuple[Callable[[Stage], ServeRequest], int, str, list[str]]] = {
    "a flipped bit in the engine": (tampered_blob, 32, "EngineVerificationFailed", ["sha256"]),
    "an engine that was cut": (truncated_blob, 32, "EngineVerificationFailed", ["bytes"]),
    "a manifest changed after signing": (tampered_manifest, 32, "EngineVerificationFailed", ["signed"]),
    "a genuine manifest of another engine": (foreign_manifest, 32, "EngineVerificationFailed", ["d" * 64]),
    "a signature of an unknown key": (foreign_signature, 32, "EngineVerificationFailed", ["trusted"]),
    "no signature": (missing_signature, 32, "EngineVerificationFailed", ["signature"]),
    "a file outside the engine's folder": (climbing_file, 32, "EngineVerificationFailed", ["outside"]),
    "engines of another architecture only": (other_architecture, 33, "EngineDeviceMismatch", ["cpu-s390x", "found"]),
    "engines for GPUs only": (gpu_only, 52, "DeviceUnavailable", ["sm90-nvidia-h200", "no GPU can be used"]),
    "a manifest of another architecture": (lying_order, 33, "EngineDeviceMismatch", ["cpu-s390x"]),
    "another backend version": (other_version, 33, "EngineDeviceMismatch", ["1.2.3", "this image has"]),
    "a backend this image has not": (other_backend, 33, "EngineDeviceMismatch", ["TensorRT"]),
    "no engine in the store": (missing_engine, 34, "EngineLoadFailed", ["no object"]),
    "no bucket": (missing_bucket, 34, "EngineLoadFailed", ["no-such-bucket"]),
    "an engine that is no ONNX file": (corrupt_engine, 34, "EngineLoadFailed", ["ONNX Runtime"]),
    "other inputs than promised": (other_inputs, 34, "EngineLoadFailed", ["'z'"]),
    "a warm-up that fails": (failing_warm_up, 34, "EngineLoadFailed", ["warm-up"]),
    "tensors the backend cannot mix": (no_bf16_with_text, 34, "EngineLoadFailed", ["BF16"]),
    "a store that does not answer": (store_down, 50, "StoreUnavailable", ["does not answer"]),
}


@pytest.mark.parametrize("case", STARTS)
def test_failed_start_ends_with_reason_and_code_and_was_never_ready(stages: Callable[[], Stage], case: str) -> None:
    make, want_code, want_reason, words = STARTS[case]
    stage = stages()
    with stage.runtime(make(stage)) as runtime:
        while runtime.process.poll() is None:
            try:
                assert runtime.get("/v2/health/ready").status_code == 503
            except httpx.TransportError:
                time.sleep(0.02)
        assert runtime.wait_end() == want_code, runtime.log()
        said = runtime.termination()
    assert said["reason"] == want_reason
    assert said["retryable"] is (want_code >= 50)
    for word in words:
        assert word in str(said["message"])
    assert "Traceback" not in str(said["message"])
    assert not list(Path(runtime.folder / "work").rglob("*.part"))


def test_wrong_setting_ends_with_its_name(stages: Callable[[], Stage]) -> None:
    stage = stages()
    order = stage.order(a_manifest(double_plus_one()))
    for settings, want in (
        ({"drain_dely": 1}, "ENGINERY_RUNTIME_DRAIN_DELY"),
        ({"max_request_bytes": 1}, "MAX_REQUEST"),
    ):
        with stage.runtime(order, **settings) as runtime:
            assert runtime.wait_end() == 27
            assert want in str(runtime.termination()["message"])


def test_missing_order_ends_with_config_error(stages: Callable[[], Stage]) -> None:
    with stages().runtime(None) as runtime:
        assert runtime.wait_end() == 27
        assert "ENGINERY_REQUEST" in str(runtime.termination()["message"])


def test_terminated_while_loading_ends_well_at_once(stages: Callable[[], Stage]) -> None:
    stage = stages()
    order = replace_store(stage.order(a_manifest(double_plus_one())))
    with stage.runtime(order, store_patience_seconds=60, drain_delay_seconds=30) as runtime:
        runtime.wait_open()
        began = time.monotonic()
        runtime.terminate()
        assert runtime.wait_end() == 0
        assert time.monotonic() - began < 5


FAULTS: dict[str, tuple[Callable[[], Fault], int | None]] = {
    "two cut transfers, then a whole one": (lambda: cut(0.6, method="GET", path="model.onnx", times=2), None),
    "one flipped byte on the way": (lambda: flip(20, method="GET", path="model.onnx", times=1), None),
    "a byte flipped each time": (lambda: flip(20, method="GET", path="model.onnx"), 32),
    "a manifest cut each time": (lambda: cut(0.6, method="GET", path=MANIFEST_NAME), 50),
    "a store that refuses the credentials": (lambda: refuse(403, "AccessDenied", path="engines"), 14),
    "a store that is overloaded": (lambda: refuse(503, "SlowDown", path="engines"), 50),
}


@pytest.mark.parametrize("case", FAULTS)
def test_store_in_trouble_is_survived_or_named(stages: Callable[[], Stage], case: str) -> None:
    make, want_code = FAULTS[case]
    stage = stages()
    order = stage.order(stage.publish(double_plus_one()))
    with s3_proxy(stage.server.endpoint) as proxy:
        proxy.add(make())
        order = order.model_copy(update={"store": StoreAccess(endpoint=proxy.endpoint)})
        with stage.runtime(order, store_patience_seconds=5) as runtime:
            if want_code is None:
                assert runtime.wait_ready().infer("tiny", {"inputs": [x_input()]}).status_code == 200
            else:
                assert runtime.wait_end() == want_code, runtime.log()
            assert not list((runtime.folder / "work").rglob("*.part"))


def replace_store(order: ServeRequest) -> ServeRequest:
    """A store that never answers."""
    (port,) = free_ports(1)
    return order.model_copy(update={"store": StoreAccess(endpoint=f"http://127.0.0.1:{port}")})
