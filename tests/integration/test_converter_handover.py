"""The three containers of a Job whose source is converted, at both ends: `fetch` and `prepare` are the real builder, on
a real S3 server; in the place of the converter between them the tests write what one would leave, good and hostile.
"""

import hashlib
import json
import os
from pathlib import Path

import onnx
import pytest
from enginery_store.identity import content_digest
from enginery_store.manifest import parse_document
from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES, Conversion, PrepareRequest, SourceFiles, TerminationMessage
from support.builder_runs import Workbench
from support.onnx_models import mlp, with_external_data

SAVED_MODEL = {"saved_model.pb": b"graph", "variables/variables.index": b"index", "variables/variables.data": b"data"}
TOOLS = {"tensorflow-cpu": "2.21.0", "tf2onnx": "1.17.0"}


@pytest.fixture
def order(bench: Workbench) -> PrepareRequest:
    for name, data in SAVED_MODEL.items():
        bench.upload(f"models/net/{name}", data)
    return bench.prepare_request(f"s3://{bench.bucket.name}/models/net/", format="TensorFlowSavedModel")


def work(bench: Workbench) -> Path:
    return bench.folder / "work"


def convert(bench: Workbench, model: bytes, conversion: Conversion | None = None, **files: bytes) -> None:
    """What a converter leaves."""
    folder = work(bench) / "converted"
    for name, data in {"model.onnx": model, **files}.items():
        (folder / name).write_bytes(data)
    (folder / "converted.json").write_bytes((conversion or Conversion(tool_versions=TOOLS)).to_json())


def test_fetch_leaves_the_source_and_what_it_is(bench: Workbench, order: PrepareRequest) -> None:
    ended = bench.run(order, "fetch")

    assert (ended.code, ended.reason) == (0, Reason.PREPARING), ended.log
    for name, data in SAVED_MODEL.items():
        assert (work(bench) / "source" / name).read_bytes() == data
    noted = parse_document(SourceFiles, (work(bench) / "source.json").read_bytes())
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in SAVED_MODEL.items()}
    assert {file.name: file.sha256 for file in noted.files} == digests
    assert noted.digest == content_digest(digests)
    assert list((work(bench) / "converted").iterdir()) == []
    assert bench.outcome(order.key) is None


def test_converted_model_is_prepared_under_the_sources_digest(bench: Workbench, order: PrepareRequest) -> None:
    fetched = bench.run(order, "fetch")
    model, data = with_external_data(mlp(), "model.onnx.data")
    convert(bench, model, **{"model.onnx.data": data})

    ended = bench.run(order)

    assert (fetched.code, ended.code) == (0, 0), ended.log
    outcome = bench.outcome(order.key)
    assert outcome is not None
    noted = parse_document(SourceFiles, (work(bench) / "source.json").read_bytes())
    manifest = bench.prepared(outcome.prepared_key)
    assert outcome.source_digest == manifest.source_digest == noted.digest
    assert manifest.source_size_bytes == sum(map(len, SAVED_MODEL.values()))
    assert manifest.source_format == "TensorFlowSavedModel"
    assert manifest.tool_versions.items() >= TOOLS.items()
    assert {"enginery", "onnx", "onnxruntime"} <= manifest.tool_versions.keys()
    folder = f"{bench.prefix_key}/prepared/{outcome.prepared_key[:2]}/{outcome.prepared_key}/"
    assert bench.bucket.get(f"{folder}model.onnx.data") == data


def test_pinned_digest_is_judged_before_anything_is_converted(bench: Workbench, order: PrepareRequest) -> None:
    pinned = order.model_copy(update={"source": order.source.model_copy(update={"digest": "sha256:" + "0" * 64})})

    ended = bench.run(pinned, "fetch")

    assert (ended.code, ended.reason) == (EXIT_CODES[Reason.DIGEST_MISMATCH], Reason.DIGEST_MISMATCH)
    outcome = bench.outcome(order.key)
    assert outcome is not None
    assert outcome.reason == Reason.DIGEST_MISMATCH


def test_refusal_of_the_converter_is_recorded_and_ends_the_job(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    text = "operator MyOp\n(node m) is a custom operator; build the model from TensorFlow's own operators"
    message = TerminationMessage(reason=Reason.UNSUPPORTED_OPERATOR, message=text, retryable=False)
    convert(bench, b"", Conversion(refusal=message))

    ended = bench.run(order)

    assert (ended.code, ended.reason) == (EXIT_CODES[Reason.UNSUPPORTED_OPERATOR], Reason.UNSUPPORTED_OPERATOR)
    assert ended.text == text.replace("\n", " ")
    outcome = bench.outcome(order.key)
    assert outcome is not None
    assert (outcome.reason, outcome.message) == (Reason.UNSUPPORTED_OPERATOR, ended.text)


def test_refusal_with_a_reason_that_is_no_failure_fails_all_the_same(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    convert(bench, b"", Conversion(refusal=TerminationMessage(reason=Reason.VERIFIED, message="x", retryable=True)))

    ended = bench.run(order)

    assert (ended.code, ended.reason) == (EXIT_CODES[Reason.CONVERSION_FAILED], Reason.CONVERSION_FAILED)


def test_converted_model_passes_the_checks_of_any_upload(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    convert(bench, b"<html>not a model</html>")

    ended = bench.run(order)

    assert (ended.code, ended.reason) == (EXIT_CODES[Reason.SOURCE_INVALID], Reason.SOURCE_INVALID)
    assert "HTML" in ended.text


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "converted.json", "extra"])
def test_link_to_the_credentials_is_no_file(bench: Workbench, order: PrepareRequest, name: str) -> None:
    """`prepare` has credentials that the converter has not: a link would publish them as weights."""
    bench.run(order, "fetch")
    model, data = with_external_data(mlp(), "model.onnx.data")
    convert(bench, model, **{"model.onnx.data": data})
    path = work(bench) / "converted" / name
    path.unlink(missing_ok=True)
    path.symlink_to(bench.secret / "AWS_SECRET_ACCESS_KEY")

    ended = bench.run(order)

    assert (ended.code, ended.reason) == (EXIT_CODES[Reason.CONVERSION_FAILED], Reason.CONVERSION_FAILED)
    assert f"{name}, which is no plain file" in ended.text
    secret = (bench.secret / "AWS_SECRET_ACCESS_KEY").read_bytes()
    assert not any(secret in bench.bucket.get(key) for key in bench.bucket.keys(bench.prefix_key))


def test_file_with_holes_is_not_hashed(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    convert(bench, mlp().SerializeToString())
    os.truncate(work(bench) / "converted" / "model.onnx", 1 << 40)  # a few bytes on the disk, hours to read

    ended = bench.run(order)

    assert (ended.code, ended.reason) == (EXIT_CODES[Reason.SOURCE_TOO_LARGE], Reason.SOURCE_TOO_LARGE), ended.log
    assert str(order.max_source_bytes) in ended.text


def test_warnings_of_a_converter_are_one_line_each(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    convert(bench, mlp().SerializeToString(), Conversion(tool_versions=TOOLS, warnings=["two\n\x1b[31mlines"]))

    assert bench.run(order).code == 0

    outcome = bench.outcome(order.key)
    assert outcome is not None
    assert outcome.notes[0] == "two  [31mlines"


def test_other_converters_make_another_prepared_model(bench: Workbench, order: PrepareRequest) -> None:
    keys = []
    for number, version in enumerate(("1.17.0", "1.17.0", "1.18.0")):
        request = order.model_copy(update={"key": f"{number}" * 64})
        bench.run(request, "fetch")
        convert(bench, mlp().SerializeToString(), Conversion(tool_versions=TOOLS | {"tf2onnx": version}))
        assert bench.run(request).code == 0
        outcome = bench.outcome(request.key)
        assert outcome is not None
        keys.append(outcome.prepared_key)

    assert keys[0] == keys[1] != keys[2]


def test_pipe_does_not_hold_the_builder_up(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    convert(bench, onnx.ModelProto().SerializeToString())
    os.mkfifo(work(bench) / "converted" / "pipe")

    assert bench.run(order).reason == Reason.CONVERSION_FAILED


@pytest.mark.parametrize("missing", ["source.json", "converted/converted.json"])
def test_job_without_its_containers_says_so(bench: Workbench, order: PrepareRequest, missing: str) -> None:
    bench.run(order, "fetch")
    convert(bench, b"")
    (work(bench) / missing).unlink()

    ended = bench.run(order)

    assert (ended.code, ended.reason) == (EXIT_CODES[Reason.CONFIG_ERROR], Reason.CONFIG_ERROR)
    assert "`fetch` and `convert`" in ended.text
    assert bench.outcome(order.key) is None


def test_document_of_another_version_is_a_fault_of_the_installation(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    convert(bench, b"")
    (work(bench) / "converted" / "converted.json").write_text(json.dumps({"kind": "Conversion", "version": "v9"}))

    assert bench.run(order).reason == Reason.CONFIG_ERROR


def test_second_fetch_starts_from_nothing(bench: Workbench, order: PrepareRequest) -> None:
    bench.run(order, "fetch")
    convert(bench, b"of an earlier run")
    (work(bench) / "source" / "stray").touch()

    ended = bench.run(order, "fetch")

    assert ended.code == 0, ended.log
    assert not (work(bench) / "source" / "stray").exists()
    assert list((work(bench) / "converted").iterdir()) == []
