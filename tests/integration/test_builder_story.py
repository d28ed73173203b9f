"""The builder end to end: the real program as a subprocess, real models, real S3 servers."""

import numpy as np
import onnx
import onnxruntime
import pytest
from enginery_store.manifest import InputRange, PreparedManifest, ShapeProfile, parse_document
from enginery_store.requests import PrecisionRef
from enginery_store.signing import verify
from onnx import TensorProto
from support.builder_runs import Workbench, evaluation
from support.evaluation_files import npz
from support.onnx_models import FLOAT, constant, mlp, model, node, value, weight, with_external_data
from support.real_files import real_files
from support.s3_proxy import cut, flip, refuse, refuse_checksums, s3_proxy
from support.tensorrt_models import profile


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


def test_real_accuracy_is_measured_on_the_files_of_a_python_installation(bench: Workbench, magika_model: bytes) -> None:
    samples, labels = real_files(60)
    bench.upload("evaluation/a.npz", npz(bytes=samples[:40], labels=labels[:40]))
    bench.upload("evaluation/b.npz", npz(bytes=samples[40:], labels=labels[40:]))
    key = bench.prepare(bench.upload("models/magika/model.onnx", magika_model))
    request = bench.build_request(key, evaluation=evaluation(f"s3://{bench.bucket.name}/evaluation", "Top1", 60))

    ended = bench.run(request)

    assert ended.code == 0, ended.log
    accuracy = bench.engine(request.key).accuracy
    assert accuracy.samples == 60
    assert float(accuracy.reference) > 0.9
    assert accuracy.measured == accuracy.reference
    assert accuracy.degradation == "0.0000"
    assert accuracy.data_digest.startswith("sha256:")


def test_folder_with_external_data_becomes_a_prepared_model_of_the_stores_names(bench: Workbench) -> None:
    model_bytes, data = with_external_data(mlp(), "weights/all.bin")
    bench.upload("m/net.onnx", model_bytes)
    bench.upload("m/weights/all.bin", data)
    bench.upload("m-hf/net.onnx", b"a neighbour")

    key = bench.prepare(f"s3://{bench.bucket.name}/m")
    request = bench.build_request(key)
    ended = bench.run(request)

    assert ended.code == 0, ended.log
    assert [file.name for file in bench.prepared(key).files] == ["model.onnx", "model.onnx.data"]
    folder = f"{bench.prefix_key}/prepared/{key[:2]}/{key}/"
    assert bench.bucket.get(f"{folder}model.onnx.data") == data
    prepared = onnx.load_model_from_string(bench.bucket.get(f"{folder}model.onnx"))
    assert {
        entry.value
        for tensor in prepared.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    } == {"model.onnx.data"}
    verify([bench.public_key], bench.bucket.get(f"{folder}manifest.json"), bench.bucket.get(f"{folder}manifest.sig"))
    assert parse_document(PreparedManifest, bench.bucket.get(f"{folder}source.json")) == bench.prepared(key)


def test_changed_external_data_alone_give_another_key(bench: Workbench) -> None:
    model_bytes, data = with_external_data(mlp(), "w.bin")
    bench.upload("m/net.onnx", model_bytes)
    bench.upload("m/w.bin", data)
    first = bench.prepare(f"s3://{bench.bucket.name}/m/")
    bench.upload("m/w.bin", with_external_data(mlp(seed=5), "w.bin")[1])

    assert bench.prepare(f"s3://{bench.bucket.name}/m/", n=1) != first


def test_pinned_source_is_verified_and_an_unpinned_one_recorded(bench: Workbench) -> None:
    uri = bench.upload("m/model.onnx", mlp().SerializeToString())
    unpinned = bench.prepare_request(uri)
    assert bench.run(unpinned).reason == "DigestRecorded"
    recorded = bench.outcome(unpinned.key)
    assert recorded is not None
    pinned = bench.prepare_request(uri, digest=recorded.source_digest, n=1)

    assert bench.run(pinned).reason == "Verified"

    outcome = bench.outcome(pinned.key)
    assert outcome is not None
    assert (outcome.reason, outcome.prepared_key) == ("Verified", recorded.prepared_key)
    assert outcome.source_size_bytes == len(mlp().SerializeToString())


def test_same_order_again_changes_nothing(bench: Workbench) -> None:
    prepare = bench.prepare_request(bench.upload("m/model.onnx", mlp().SerializeToString()))
    bench.run(prepare)
    outcome = bench.outcome(prepare.key)
    assert outcome is not None
    build = bench.build_request(outcome.prepared_key)
    bench.run(build)
    before = bench.bucket.everything()

    assert bench.run(prepare).code == 0
    assert bench.run(build).reason == "ReusedFromStore"

    assert bench.bucket.everything() == before


def test_two_builders_of_one_key_leave_one_whole_engine(bench: Workbench) -> None:
    request = bench.build_request(bench.prepare(bench.upload("m/model.onnx", mlp().SerializeToString())))
    second = Workbench(bench.folder / "second", bench.bucket, key=bench.key)

    running = [bench.start(request), second.start(request)]
    ended = [bench.ended(running[0]), second.ended(running[1])]

    assert [run.code for run in ended] == [0, 0], [run.log for run in ended]
    folder = bench.engine_key_prefix(request.key)
    manifest = bench.engine(request.key)
    assert bench.bucket.keys(folder) == sorted(
        f"{folder}{name}" for name in ("manifest.json", "manifest.sig", manifest.file.name)
    )
    verify([bench.public_key], bench.bucket.get(f"{folder}manifest.json"), bench.bucket.get(f"{folder}manifest.sig"))
    assert len(bench.bucket.get(f"{folder}{manifest.file.name}")) == manifest.file.size_bytes


def test_signature_of_a_builder_that_died_is_replaced(bench: Workbench) -> None:
    request = bench.build_request(bench.prepare(bench.upload("m/model.onnx", mlp().SerializeToString())))
    folder = bench.engine_key_prefix(request.key)
    bench.bucket.put(f"{folder}manifest.sig", b"left behind")

    assert bench.run(request).code == 0

    verify([bench.public_key], bench.bucket.get(f"{folder}manifest.json"), bench.bucket.get(f"{folder}manifest.sig"))


def test_engine_whose_file_was_removed_is_built_again(bench: Workbench) -> None:
    request = bench.build_request(bench.prepare(bench.upload("m/model.onnx", mlp().SerializeToString())))
    assert bench.run(request).code == 0
    folder = bench.engine_key_prefix(request.key)
    bench.bucket.delete(f"{folder}{bench.engine(request.key).file.name}")

    assert bench.run(request).reason == "AllTargetsBuilt"

    manifest = bench.engine(request.key)
    assert len(bench.bucket.get(f"{folder}{manifest.file.name}")) == manifest.file.size_bytes
    verify([bench.public_key], bench.bucket.get(f"{folder}manifest.json"), bench.bucket.get(f"{folder}manifest.sig"))


def test_prepared_model_whose_file_was_removed_is_prepared_again(bench: Workbench) -> None:
    prepare = bench.prepare_request(bench.upload("m/model.onnx", mlp().SerializeToString()))
    bench.run(prepare)
    outcome = bench.outcome(prepare.key)
    assert outcome is not None
    model = f"{bench.prefix_key}/prepared/{outcome.prepared_key[:2]}/{outcome.prepared_key}/model.onnx"
    bench.bucket.delete(model)

    assert bench.run(prepare).code == 0
    assert bench.run(bench.build_request(outcome.prepared_key)).code == 0


def test_model_that_takes_no_generated_input_is_built_with_zero_samples(bench: Workbench) -> None:
    picky = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        [value("x", FLOAT, [2, 8]), value("shape", onnx.TensorProto.INT64, [1])],
        [value("y", FLOAT, ["A"])],
    )
    request = bench.build_request(bench.prepare(bench.upload("m/model.onnx", picky.SerializeToString())))

    ended = bench.run(request)

    assert ended.code == 0, ended.log
    manifest = bench.engine(request.key)
    assert (manifest.accuracy.samples, manifest.latency) == (0, [])


def test_input_whose_values_are_sizes_is_measured_with_those_of_its_profile(bench: Workbench) -> None:
    made = model(
        [node("Expand", ["x", "size"], ["y"])],
        [value("x", FLOAT, [1, 4]), value("size", TensorProto.INT64, [2])],
        [value("y", FLOAT, ["a", "b"])],
    )
    profiles = [profile(size=([3, 4], [5, 4], [9, 4]))]
    key = bench.prepare(bench.upload("m/model.onnx", made.SerializeToString()), profiles, precision="FP16")
    request = bench.build_request(key, profiles, precision=PrecisionRef(type="FP16"))

    ended = bench.run(request)

    assert ended.code == 0, ended.log
    engine = bench.engine(request.key)
    assert bench.prepared(key).shape_inputs == engine.shape_inputs == ["size"]
    assert [record.profile for record in engine.latency] == [profiles[0].name]
    assert engine.accuracy.samples > 0


def test_token_ids_stay_within_the_vocabulary(bench: Workbench) -> None:
    embedding = model(
        [node("Gather", ["E", "i"], ["h"]), node("ReduceMean", ["h"], ["y"], axes=[1], keepdims=0)],
        [value("i", onnx.TensorProto.INT64, ["N", "T"])],
        [value("y", FLOAT, ["N", 16])],
        [weight("E", 2, 16)],
    )
    request = bench.build_request(bench.prepare(bench.upload("m/model.onnx", embedding.SerializeToString())))

    assert bench.run(request).code == 0
    manifest = bench.engine(request.key)
    assert manifest.accuracy.samples == 9
    assert [record.batch for record in manifest.latency] == [1, 8]


def test_store_that_refuses_checksum_headers_serves_the_whole_story(bench: Workbench) -> None:
    uri = bench.upload("m/model.onnx", mlp().SerializeToString())
    with s3_proxy(bench.bucket.server.endpoint) as proxy:
        proxy.add(refuse_checksums())
        bench.endpoint = proxy.endpoint
        request = bench.build_request(bench.prepare(uri))
        ended = bench.run(request)

    assert ended.code == 0, ended.log


def test_source_is_fetched_in_spite_of_two_cuts(bench: Workbench) -> None:
    uri = bench.upload("m/model.onnx", mlp().SerializeToString())
    with s3_proxy(bench.bucket.server.endpoint) as proxy:
        proxy.add(cut(0.6, method="GET", path="model.onnx", times=2))
        bench.endpoint = proxy.endpoint
        ended = bench.run(bench.prepare_request(uri))

    assert ended.code == 0, ended.log


def test_flipped_byte_of_a_pinned_source_is_a_digest_mismatch(bench: Workbench) -> None:
    uri = bench.upload("m/model.onnx", mlp().SerializeToString())
    request = bench.prepare_request(uri)
    bench.run(request)
    outcome = bench.outcome(request.key)
    assert outcome is not None
    with s3_proxy(bench.bucket.server.endpoint) as proxy:
        proxy.add(flip(5000, method="GET", path="model.onnx"))
        bench.endpoint = proxy.endpoint
        ended = bench.run(bench.prepare_request(uri, digest=outcome.source_digest, n=1))

    assert (ended.reason, ended.code) == ("DigestMismatch", 15), ended.log
    assert outcome.source_digest in ended.text


def test_flipped_byte_of_a_prepared_model_ends_in_verification_failed(bench: Workbench) -> None:
    key = bench.prepare(bench.upload("m/model.onnx", mlp().SerializeToString()))
    with s3_proxy(bench.bucket.server.endpoint) as proxy:
        proxy.add(flip(5000, method="GET", path="model.onnx"))
        bench.endpoint = proxy.endpoint
        request = bench.build_request(key)
        ended = bench.run(request)

    assert (ended.reason, ended.code) == ("EngineVerificationFailed", 32), ended.log
    assert bench.outcome(request.key) is None
    assert not bench.bucket.keys(bench.engine_key_prefix(request.key))


def test_one_flipped_byte_on_the_way_is_fetched_again(bench: Workbench) -> None:
    key = bench.prepare(bench.upload("m/model.onnx", mlp().SerializeToString()))
    with s3_proxy(bench.bucket.server.endpoint) as proxy:
        proxy.add(flip(5000, method="GET", path="model.onnx", times=1))
        bench.endpoint = proxy.endpoint
        ended = bench.run(bench.build_request(key))

    assert ended.code == 0, ended.log


@pytest.mark.parametrize(
    ("status", "code", "reason", "exit_code"),
    [(503, "SlowDown", "StoreUnavailable", 50), (403, "AccessDenied", "AccessDenied", 14)],
)
def test_store_that_takes_no_writes_ends_with_its_own_reason(
    bench: Workbench, status: int, code: str, reason: str, exit_code: int
) -> None:
    uri = bench.upload("m/model.onnx", mlp().SerializeToString())
    with s3_proxy(bench.bucket.server.endpoint) as proxy:
        proxy.add(refuse(status, code, method="PUT"))
        bench.endpoint = proxy.endpoint
        ended = bench.run(bench.prepare_request(uri))

    assert (ended.reason, ended.code) == (reason, exit_code), ended.log
    assert not any(key.endswith("manifest.json") for key in bench.bucket.everything())


def test_no_credential_reaches_log_or_message(bench: Workbench) -> None:
    ended = bench.run(bench.prepare_request(bench.upload("m/model.onnx", b"<html>")))

    assert ended.message is not None
    for secret in (bench.bucket.server.secret_key, (bench.secret / "signing.key").read_text().splitlines()[1]):
        assert secret not in ended.log
        assert secret not in ended.text
    assert "Traceback" not in ended.text


def test_scalar_input_and_constant_fold_to_a_working_engine(bench: Workbench) -> None:
    scaled = model(
        [node("Mul", ["x", "s"], ["h"]), node("Add", ["h", "c"], ["y"])],
        [value("x", FLOAT, ["N", 4]), value("s", FLOAT, [])],
        [value("y", FLOAT, ["N", 4])],
        [constant("c", [1, 2, 3, 4], np.float32)],
    )
    request = bench.build_request(bench.prepare(bench.upload("m/model.onnx", scaled.SerializeToString())))

    assert bench.run(request).code == 0
    assert bench.engine(request.key).accuracy.samples == 9
