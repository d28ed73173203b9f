"""The builder's ways to end badly: reason, exit code, message, and what the store keeps of it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from enginery_store.identity import ListedObject, fingerprint
from enginery_store.manifest import BuildOptions, Target
from enginery_store.requests import CalibrationRef, PrecisionRef, PrepareRequest
from onnx import TensorProto, helper
from support.builder_runs import Ended, Workbench, evaluation
from support.evaluation_files import npz
from support.onnx_models import FLOAT, constant, mlp, model, node, one, value


def endless() -> bytes:
    """A model whose one run takes hours, all of it in native code."""
    body = helper.make_graph(
        [node("MatMul", ["acc", "W"], ["acc2"]), node("Identity", ["c"], ["c2"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("acc", FLOAT, [64, 64])],
        [value("c2", TensorProto.BOOL, []), value("acc2", FLOAT, [64, 64])],
        [constant("W", np.eye(64), np.float32)],
    )
    made = model(
        [node("Loop", ["n", "t", "a"], ["y"], "loop", body=body)],
        [value("a", FLOAT, [64, 64])],
        [value("y", FLOAT, [64, 64])],
        [constant("n", 1 << 40, np.int64), constant("t", True, np.bool_)],
    )
    return made.SerializeToString()


@dataclass(frozen=True)
class Case:
    order: Callable[[Workbench], PrepareRequest]
    reason: str
    code: int
    words: list[str]


def uploaded(
    data: bytes, key: str = "m/model.onnx", uri: str = "", **changes: Any
) -> Callable[[Workbench], PrepareRequest]:
    def order(bench: Workbench) -> PrepareRequest:
        place = bench.upload(key, data)
        return bench.prepare_request(uri.format(bucket=bench.bucket.name) or place, **changes)

    return order


def missing_bucket(bench: Workbench) -> PrepareRequest:
    return bench.prepare_request("s3://no-such-bucket-anywhere/m")


GOOD = mlp().SerializeToString()
CASES = {
    "nothing under the key": Case(
        uploaded(GOOD, uri="s3://{bucket}/other"), "SourceNotFound", 13, ["/other", "none below it"]
    ),
    "no such bucket": Case(missing_bucket, "SourceNotFound", 13, ["no-such-bucket-anywhere", "does not exist"]),
    "an object of zero bytes": Case(uploaded(b""), "SourceInvalid", 11, ["empty (0 bytes)"]),
    "an error page": Case(uploaded(b"<html>403</html>"), "SourceInvalid", 11, ["HTML"]),
    "another digest than pinned": Case(
        uploaded(GOOD, digest=f"sha256:{'0' * 64}"), "DigestMismatch", 15, ["sha256:0000", "source has digest sha256:"]
    ),
    "a source above the limit": Case(
        uploaded(GOOD, max_source_bytes=1000), "SourceTooLarge", 19, [str(len(GOOD)), "1000"]
    ),
    "eight bits without data": Case(
        uploaded(GOOD, precision="INT8"), "InvalidSpec", 10, ["INT8 needs calibration data", "Prequantized"]
    ),
    "a host in the URI": Case(uploaded(GOOD, uri="s3://host:9000/b/k"), "InvalidSpec", 10, ["AWS_ENDPOINT_URL_S3"]),
    "a URI that is no S3": Case(uploaded(GOOD, uri="http://host/k"), "InvalidSpec", 10, ["s3://BUCKET/PATH"]),
    "an operator nobody has": Case(
        uploaded(one("NotAnOp", (FLOAT, [1]), (FLOAT, [1])).SerializeToString()), "UnsupportedOperator", 17, ["NotAnOp"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_final_failure_says_why_and_is_recorded(bench: Workbench, case: Case) -> None:
    request = case.order(bench)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == (case.reason, case.code), ended.log
    assert [word for word in case.words if word not in ended.text] == [], ended.text
    assert ended.message is not None
    assert not ended.message.retryable
    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert (outcome.reason, outcome.exit_code, outcome.message) == (case.reason, case.code, ended.text)
    assert outcome.failed
    assert not any("prepared/" in key for key in bench.bucket.keys(bench.prefix_key))


@pytest.mark.server("moto")  # which takes such a key
def test_key_that_climbs_writes_nothing_outside_and_is_refused(bench: Workbench) -> None:
    bench.upload("m/model.onnx", GOOD)
    bench.upload("m/a/../../../escaped", b"x")

    ended = bench.run(bench.prepare_request(f"s3://{bench.bucket.name}/m/"))

    assert (ended.reason, ended.code) == ("SourceInvalid", 11), ended.log
    assert "a/../../../escaped" in ended.text
    assert not list(bench.folder.rglob("escaped"))


def prepare_good(bench: Workbench, **changes: Any) -> Ended:
    return bench.run(bench.prepare_request(bench.upload("m/model.onnx", GOOD), **changes))


def test_source_replaced_since_it_was_pinned_is_passing_and_leaves_no_outcome(bench: Workbench) -> None:
    request = bench.prepare_request(
        bench.upload("m/model.onnx", GOOD), fingerprint=fingerprint([ListedObject("a", 1, "b")])
    )

    ended = bench.run(request)

    assert (ended.reason, ended.code) == ("StoreUnavailable", 50), ended.log
    assert ended.message is not None
    assert ended.message.retryable
    assert "replaced" in ended.text
    assert bench.outcome(request.key) is None


def test_same_fingerprint_passes(bench: Workbench) -> None:
    uri = bench.upload("m/model.onnx", GOOD)
    listing = bench.bucket.client().list_objects(bench.bucket.location("m/model.onnx"))

    assert bench.run(bench.prepare_request(uri, fingerprint=fingerprint(listing))).code == 0


@pytest.mark.parametrize(
    ("key", "words"),
    [(None, "missing"), (b"no key", "not a PEM"), (b"", "not a PEM")],
    ids=["no signing key", "junk", "empty"],
)
def test_signing_key_that_cannot_sign_is_the_installations_fault(
    bench: Workbench, key: bytes | None, words: str
) -> None:
    (bench.secret / "signing.key").unlink()
    if key is not None:
        (bench.secret / "signing.key").write_bytes(key)

    ended = prepare_good(bench)

    assert (ended.reason, ended.code) == ("ConfigError", 27), ended.log
    assert words in ended.text
    assert "openssl genpkey -algorithm ed25519" in ended.text
    assert not bench.bucket.keys(bench.prefix_key)


def test_unreachable_store_is_passing(bench: Workbench) -> None:
    bench.endpoint = "http://127.0.0.1:9"

    ended = prepare_good(bench)

    assert (ended.reason, ended.code) == ("StoreUnavailable", 50), ended.log


@pytest.mark.server("other")  # moto checks no signatures of requests
def test_wrong_secret_key_is_denied(bench: Workbench) -> None:
    (bench.secret / "AWS_SECRET_ACCESS_KEY").write_text("wrong")

    ended = prepare_good(bench)

    assert (ended.reason, ended.code) == ("AccessDenied", 14), ended.log


def test_request_that_is_none_is_a_config_error(bench: Workbench) -> None:
    bench.environment["ENGINERY_REQUEST"] = '{"kind": "Prepare"}'

    ended = prepare_good(bench)

    assert (ended.reason, ended.code) == ("ConfigError", 27)
    assert "profiles" in ended.text


def test_time_runs_out_in_native_code(bench: Workbench) -> None:
    request = bench.prepare_request(bench.upload("m/model.onnx", endless()), timeout_seconds=4)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == ("BuildTimeout", 26), ended.log
    assert "4 s" in ended.text
    assert bench.outcome(request.key) is None


def test_sigterm_ends_at_once_with_143_even_in_native_code(bench: Workbench) -> None:
    process = bench.start(bench.prepare_request(bench.upload("m/model.onnx", endless())))
    assert process.stderr is not None
    for line in process.stderr:
        if "model checked" in line:
            break
    process.send_signal(signal.SIGTERM)

    ended = bench.ended(process)

    assert ended.code == 143
    assert ended.message is None


BUILDS: dict[str, tuple[dict[str, Any], str, int, list[str], bool]] = {
    "a backend of another version": ({"backend_version": "0.1"}, "ConfigError", 27, ["0.1", "this builder has"], False),
    "another architecture": (
        {"target": Target(accelerator="CPU", architecture="s390x")},
        "EngineDeviceMismatch", 33, ["cpu-s390x", "this pod runs on cpu-"], False,
    ),
    "a GPU target": (
        {"target": Target(accelerator="GPU", compute_capability="9.0", product="NVIDIA-H200")},
        "EngineDeviceMismatch", 33, ["sm90-nvidia-h200"], False,
    ),
    "a backend this image lacks": (
        {"backend": "TensorRT"}, "ConfigError", 27, ["cannot load TensorRT", "image"], False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BUILDS.values(), ids=BUILDS.keys())
def test_build_for_something_else_is_refused(
    bench: Workbench, case: tuple[dict[str, Any], str, int, list[str], bool]
) -> None:
    changes, reason, code, words, recorded = case
    request = bench.build_request("0" * 64, options=BuildOptions(), **changes)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == (reason, code), ended.log
    assert [word for word in words if word not in ended.text] == [], ended.text
    assert (bench.outcome(request.key) is not None) == recorded


def test_build_without_its_prepared_model_says_so(bench: Workbench) -> None:
    request = bench.build_request("0" * 64)

    ended = bench.run(request)

    assert (ended.reason, ended.code) == ("StoreUnavailable", 50), ended.log
    assert "must be prepared again" in ended.text
    assert bench.outcome(request.key) is None


DATA: dict[str, tuple[dict[str, bytes], str, str]] = {
    "no data": ({}, "EvaluationDataInvalid", "no .npz file"),
    "no npz": ({"a.txt": b"x"}, "EvaluationDataInvalid", "no .npz file"),
    "another input": ({"a.npz": npz(z=np.zeros((4, 64), np.float32))}, "EvaluationDataInvalid", "input x"),
    "too few samples": ({"a.npz": npz(x=np.zeros((3, 64), np.float32))}, "EvaluationDataInvalid", "3 samples"),
    "data that say nothing": (
        {"a.npz": npz(x=np.zeros((4, 64), np.float32))},
        "EvaluationDataInvalid",
        "all 4 samples are",
    ),
}


@pytest.mark.parametrize("case", DATA.values(), ids=DATA.keys())
def test_bad_evaluation_data_fail_the_build_and_are_recorded(
    bench: Workbench, case: tuple[dict[str, bytes], str, str]
) -> None:
    files, reason, words = case
    for name, data in files.items():
        bench.upload(f"evaluation/{name}", data)
    key = bench.prepare(bench.upload("m/model.onnx", GOOD))
    request = bench.build_request(key, evaluation=evaluation(f"s3://{bench.bucket.name}/evaluation/", "Top1", 4))

    ended = bench.run(request)

    assert ended.reason == reason, ended.log
    assert words in ended.text
    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert outcome.reason == reason
    assert not bench.bucket.keys(bench.engine_key_prefix(request.key))
    assert '"optimising"' not in ended.log  # data are judged before anything is compiled


def without_bucket(bench: Workbench) -> str:
    return "s3://no-such-bucket-anywhere/data/"


def climbing(bench: Workbench) -> str:
    bench.upload("data/a.npz/b.npz", b"x")
    return bench.upload("data/a.npz", b"x").removesuffix("a.npz")


@pytest.mark.parametrize(
    ("place", "words"), [(without_bucket, "no .npz file at s3://no-such-bucket"), (climbing, "object and a folder")]
)
@pytest.mark.server("moto")  # which keeps an object and a folder of one name
def test_what_is_wrong_with_data_is_never_blamed_on_the_source(
    bench: Workbench, place: Callable[[Workbench], str], words: str
) -> None:
    order = PrecisionRef(type="INT8", calibration=CalibrationRef(uri=place(bench), samples=4))
    request = bench.prepare_request(bench.upload("m/model.onnx", GOOD), precision=order)

    ended = bench.run(request)

    assert ended.reason in {"CalibrationDataNotFound", "CalibrationDataInvalid"}, ended.log
    assert words in ended.text
    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert outcome.reason == ended.reason


def test_data_that_were_replaced_are_looked_at_again(bench: Workbench) -> None:
    bench.upload("data/a.npz", npz(x=np.zeros((8, 64), np.float32)))
    order = PrecisionRef(type="INT8", calibration=CalibrationRef(uri=f"s3://{bench.bucket.name}/data/", samples=8))
    request = bench.prepare_request(bench.upload("m/model.onnx", GOOD), precision=order)
    failed = bench.run(request)

    bench.upload("data/a.npz", npz(x=np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)))
    ended = bench.run(request)

    assert (failed.reason, ended.code) == ("CalibrationDataInvalid", 0), ended.log
    outcome = bench.outcome(request.key)
    assert outcome is not None
    assert not outcome.failed
