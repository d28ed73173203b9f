"""Every small ONNX source through the whole of `prepare`: reason, exit code, words, and what is in the store then."""

import onnx
import pytest
from enginery_builder.wording import MESSAGE_LIMIT
from enginery_store.manifest import PreparedManifest
from enginery_store.requests import EXIT_CODES, Outcome, PrepareRequest
from support.builder_runs import Workbench
from support.case_runs import prepare, request_of
from support.onnx_cases import CASES, Case
from support.onnx_cases.case import MODEL_NAME

REFUSED = [case for case in CASES.values() if case.verdict == "reject"]
TAKEN = [case for case in CASES.values() if case.verdict != "reject"]


def outcome_of(bench: Workbench, request: PrepareRequest) -> Outcome:
    outcome = bench.outcome(request.key)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_source_is_refused_with_reason_and_advice_and_nothing_is_published(bench: Workbench, case: Case) -> None:
    request = request_of(bench, case)

    verdict = prepare(bench, request)

    message = verdict.message
    assert case.reason is not None
    assert (message.reason, verdict.exit_code) == (case.reason, EXIT_CODES[case.reason]), message.message
    assert [word for word in case.words if word not in message.message] == [], message.message
    assert not message.retryable
    assert len(message.message) <= MESSAGE_LIMIT
    assert str(bench.folder) not in message.message
    outcome = outcome_of(bench, request)
    assert (outcome.reason, outcome.exit_code, outcome.message) == (case.reason, verdict.exit_code, message.message)
    assert bench.bucket.keys(bench.prefix_key) == [f"{bench.prefix_key}/requests/{request.key}.json"]
    assert not list((bench.folder / "work").iterdir())


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.name)
def test_source_is_published_whole_with_a_note_where_something_is_odd(bench: Workbench, case: Case) -> None:
    request = request_of(bench, case)

    verdict = prepare(bench, request)

    assert (verdict.message.reason, verdict.exit_code) == ("DigestRecorded", 0), verdict.message
    outcome = outcome_of(bench, request)
    manifest = bench.prepared(outcome.prepared_key)
    require_whole(bench, manifest)
    assert (case.verdict == "warn") == bool(outcome.notes), outcome.notes
    assert [word for word in case.words if word not in " ".join(outcome.notes)] == [], outcome.notes


def require_whole(bench: Workbench, manifest: PreparedManifest) -> None:
    """Every file of the manifest is there, and the model has the inputs it names."""
    folder = f"{bench.prefix_key}/prepared/{manifest.key[:2]}/{manifest.key}/"
    sizes = {file.name: file.size_bytes for file in manifest.all_files}
    assert {name: len(bench.bucket.get(folder + name)) for name in sizes} == sizes
    kept = onnx.ModelProto()
    kept.ParseFromString(bench.bucket.get(folder + MODEL_NAME))
    assert [spec.name for spec in manifest.inputs] == [value.name for value in kept.graph.input]
