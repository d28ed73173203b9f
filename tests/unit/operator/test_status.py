"""The status that a pass writes: what tenants, printers, autoscalers and `kubectl wait` read."""

import re
from datetime import timedelta
from typing import Any

import pytest
from enginery_operator.conditions import MESSAGE_LIMIT, cut, merged, timestamp, transitions
from enginery_operator.decide import decide
from enginery_operator.decide.seen import Observed, Trouble, Verdict
from enginery_operator.status import model_status, status_object, tenant_status
from enginery_store.manifest import LatencyRecord
from enginery_store.reasons import Reason
from support.api_objects import NOW, a_model, a_tenant, ago, schema_of
from support.installation import H100, a_node
from support.observed import AnObserved, a_job, an_accuracy, an_observed, an_outcome

READY = Verdict("True", Reason.SERVING, "serves")
NOT_READY = Verdict("False", Reason.BUILDING, "builds")


def status(seen: AnObserved | Observed, before: dict[str, Any] | None = None) -> dict[str, Any]:
    found = seen.build() if isinstance(seen, AnObserved) else seen
    return model_status(found, decide(found), before or {})


def one(verdict: Verdict, before: list[dict[str, Any]], seconds: int = 0, generation: int = 1) -> dict[str, Any]:
    return merged(before, {"Ready": verdict}, generation=generation, now=NOW + timedelta(seconds=seconds))[0]


def test_transition_time_moves_only_when_status_changes() -> None:
    first = one(NOT_READY, [])
    reworded = one(Verdict("False", Reason.BUILD_FAILED, "failed"), [first], 60, generation=2)
    changed = one(READY, [reworded], 120, generation=2)
    assert first["lastTransitionTime"] == reworded["lastTransitionTime"] == timestamp(NOW)
    assert (reworded["reason"], reworded["observedGeneration"]) == ("BuildFailed", 2)
    assert changed["lastTransitionTime"] == timestamp(NOW + timedelta(seconds=120))


def test_a_label_edit_changes_no_condition() -> None:
    seen = an_observed().built().serves()
    first = status(seen)
    later = status(seen.having(now=NOW + timedelta(hours=1)), first)
    assert later == first


def test_an_edit_that_rolls_nothing_still_advances_every_observed_generation() -> None:
    first = status(an_observed().built().serves())
    edited = an_observed(a_model().having("metadata.generation", 4)).built().serves()
    later = status(edited, first)
    assert later["observedGeneration"] == 4
    assert {item["observedGeneration"] for item in later["conditions"]} == {4}
    assert [item["lastTransitionTime"] for item in later["conditions"]] == [
        item["lastTransitionTime"] for item in first["conditions"]
    ]


def test_transitions_are_told_once_and_a_beginning_unknown_never() -> None:
    verdicts = {"Ready": NOT_READY, "Accepted": Verdict("Unknown", Reason.PENDING, "waits")}
    told = transitions([], verdicts)
    assert [change.type for change in told] == ["Ready"]
    written = merged([], verdicts, generation=1, now=NOW)
    assert transitions(written, verdicts) == []
    reworded = verdicts | {"Ready": Verdict("False", Reason.BUILDING, "other words")}
    assert transitions(written, reworded) == []


@pytest.mark.parametrize("length", [0, 1, MESSAGE_LIMIT, MESSAGE_LIMIT + 1, 50_000])
def test_messages_are_cut_in_the_middle(length: int) -> None:
    message = "x" * max(length - 20, 0) + "; will be retried"[-length or 17 :]
    found = cut(message)
    assert len(found) <= MESSAGE_LIMIT <= 1024
    assert found.endswith(message[-17:])
    assert (found == message) is (len(message) <= MESSAGE_LIMIT)


def test_a_long_failure_fits_the_schema_everywhere() -> None:
    failure = an_outcome(Reason.BUILD_FAILED, "line " * 5000, exit_code=25)
    found = status(an_observed().prepared().engine(failure=failure))
    assert all(len(item["message"]) <= 1024 for item in found["conditions"])
    assert len(found["engines"][0]["lastFailure"]["message"]) <= 1024


def test_status_of_a_serving_model_is_whole() -> None:
    found = status(an_observed(a_model().with_gate()).built(accuracy=an_accuracy("0.0009", "0.9791")).serves())
    revision = found["currentRevision"]
    conditions = found.pop("conditions")
    assert [item["type"] for item in conditions][-1] == "Ready"
    assert found == {
        "observedGeneration": 3,
        "replicas": 1,
        "readyReplicas": 1,
        "selector": "enginery.io/model=resnet50,app.kubernetes.io/component=runtime",
        "url": "http://resnet50.team-a.svc:8000",
        "addresses": [
            {"name": "REST", "url": "http://resnet50.team-a.svc:8000"},
            {"name": "GRPC", "url": "grpc://resnet50.team-a.svc:8001"},
        ],
        "source": {
            "uri": "s3://models/team-a/resnet50/model.onnx",
            "fingerprint": f"sha256:{'f' * 64}",
            "digest": f"sha256:{'d' * 64}",
            "sizeBytes": 1000,
            "pinnedAt": "2026-03-01T11:55:00Z",
        },
        "currentRevision": revision,
        "targetRevision": revision,
        "traffic": [{"revision": revision, "percent": 100}],
        "precision": {"effective": "FP32"},
        "accuracy": {
            "metric": "Top1",
            "reference": "0.9800",
            "measured": "0.9791",
            "degradation": "0.0009",
            "samples": 1000,
            "dataDigest": f"sha256:{'a' * 64}",
        },
        "engineSummary": "1/1",
        "acceleratorSummary": "cpu-amd64",
        "engines": [
            {
                "target": "cpu-amd64",
                "state": "Ready",
                "key": f"sha256:{'e' * 64}",
                "digest": f"sha256:{'a' * 64}",
                "signature": "Verified",
                "backendVersion": "ONNXRuntime 1.32.0",
                "sizeBytes": 1000,
                "deviceMemoryBytes": 5000,
                "buildSeconds": 7,
                "latency": [{"batch": 1, "p50Microseconds": 40, "p99Microseconds": 60, "itemsPerSecond": "25000"}],
            }
        ],
    }


def test_equal_worlds_give_equal_status_so_that_nothing_is_written() -> None:
    seen = an_observed(None, a_node(), a_node().label("kubernetes.io/arch", "arm64")).built().serves()
    first = status(seen)
    assert status(seen.having(engines=tuple(reversed(seen.seen.engines)), now=NOW + timedelta(days=1)), first) == first


@pytest.mark.parametrize("state", ["Failed", "Suspended"])
def test_a_pause_before_the_next_attempt_is_told_once(state: str) -> None:
    """A countdown would be a write per pass."""
    job = a_job(
        state, attempt=5, finished_at=NOW, trouble=Trouble(Reason.IMAGE_PULL_FAILED, "image b: no", passing=True)
    )
    for seen in (an_observed().prepared().engine(job=job), an_observed().having(prepare_job=job)):
        first = status(seen)
        assert any("will retry in" in item["message"] for item in first["conditions"])
        assert status(seen.having(now=NOW + timedelta(seconds=200)), first) == first


def test_the_worst_targets_accuracy_is_shown() -> None:
    seen = an_observed(None, a_node(), a_node().label("kubernetes.io/arch", "arm64")).built()
    worse = an_observed().built(accuracy=an_accuracy("0.0100", "0.9700")).seen.engines[0].manifest
    assert status(seen.engine(0, manifest=worse))["accuracy"]["measured"] == "0.9700"
    assert status(seen.engine(1, manifest=worse))["accuracy"]["measured"] == "0.9700"


def test_where_accuracy_was_measured_is_said_in_words_and_never_in_a_field_that_the_schema_would_drop() -> None:
    """A field that the API server drops would differ from what is there for ever: a write per pass."""
    ahead = an_accuracy("0.0100", "0.9700").model_copy(update={"measured_on": "Reference"})
    found = status(an_observed(a_model().with_gate()).built(accuracy=ahead))
    known = schema_of("inferencemodels")["properties"]["status"]["properties"]
    assert set(found["accuracy"]) <= set(known["accuracy"]["properties"])
    assert set(found["engines"][0]) <= set(known["engines"]["items"]["properties"])


STATES: dict[str, tuple[AnObserved, str]] = {
    "nobody works on it": (an_observed().prepared(), "Pending"),
    "a Job is at work": (an_observed().prepared().engine(job=a_job()), "Building"),
    "a Job waits": (an_observed().prepared().engine(job=a_job("Waiting")), "Building"),
    "a Job has succeeded and its result is on the way": (
        an_observed().prepared().engine(job=a_job("Succeeded", finished_at=NOW)), "Building"),
    "a Job failed": (an_observed().prepared().engine(job=a_job("Failed", finished_at=NOW)), "Failed"),
    "it failed for good": (
        an_observed().prepared().engine(failure=an_outcome(Reason.BUILD_FAILED, "x")), "Failed"),
    "what is stored does not verify": (
        an_observed().prepared().engine(trouble=Trouble(Reason.ENGINE_VERIFICATION_FAILED, "x")), "Failed"),
    "the store is silent": (
        an_observed().prepared().engine(trouble=Trouble(Reason.STORE_UNAVAILABLE, "x", passing=True)), "Pending"),
    "it is stored": (an_observed().built(), "Ready"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", STATES)
def test_engine_state_says_where_it_is(sentence: str) -> None:
    seen, want = STATES[sentence]
    assert status(seen)["engines"][0]["state"] == want


def test_last_failure_of_a_job_counts_attempts_and_keeps_the_code() -> None:
    job = a_job(
        "Failed", attempt=3, exit_code=12, finished_at=ago(5), trouble=Trouble(Reason.BUILD_OUT_OF_MEMORY, "8 GiB")
    )
    assert status(an_observed().prepared().engine(job=job))["engines"][0]["lastFailure"] == {
        "reason": "BuildOutOfMemory",
        "message": "8 GiB",
        "exitCode": 12,
        "time": "2026-03-01T11:59:55Z",
        "attempts": 3,
    }


def test_a_ready_engine_has_no_last_failure() -> None:
    job = a_job("Failed", finished_at=ago(5), trouble=Trouble(Reason.BUILD_FAILED, "x", passing=True))
    assert "lastFailure" not in status(an_observed().built().engine(job=job))["engines"][0]


def test_a_store_outage_keeps_what_is_known_of_engines() -> None:
    before = status(an_observed().built().serves())
    silent = an_observed().serves().having(outcome_trouble=Trouble(Reason.STORE_UNAVAILABLE, "x", passing=True))
    found = status(silent, before)
    for name in ("engines", "engineSummary", "precision", "accuracy", "targetRevision", "currentRevision"):
        assert found[name] == before[name]


def test_nothing_serves_before_a_deployment_is_there() -> None:
    found = status(an_observed().prepared())
    assert (found["replicas"], found["readyReplicas"]) == (0, 0)
    assert not {"currentRevision", "traffic", "url", "addresses"} & set(found)


def test_latencies_stay_within_the_schemas_bound() -> None:
    records = [
        LatencyRecord(profile="p", batch=n, p50_microseconds=1, p99_microseconds=2, items_per_second="3")
        for n in range(1, 40)
    ]
    assert len(status(an_observed().built(latency=records))["engines"][0]["latency"]) == 16


@pytest.mark.parametrize(
    ("model", "want"),
    [(a_model(), "cpu-amd64"), (a_model().with_gpu(), "gpu"), (a_model().with_mig("1g.10gb"), "mig-1g.10gb")],
)
def test_accelerator_summary_is_one_word(model: Any, want: str) -> None:
    assert status(an_observed(model, H100))["acceleratorSummary"] == want


def test_an_unlisted_source_is_pinned_as_such() -> None:
    assert status(an_observed().unlisted())["source"]["fingerprint"] == "unlisted"


def test_status_object_is_the_status_and_no_more() -> None:
    body = a_model().body()
    found = status_object(body, "InferenceModel", {"replicas": 1})
    assert found["metadata"] == {"name": "resnet50", "namespace": "team-a"}
    assert set(found) == {"apiVersion", "kind", "metadata", "status"}


def test_tenant_status_counts_models() -> None:
    found = tenant_status(a_tenant().build(), {"Ready": READY}, ["team-a"], (3, 2), {}, now=NOW)
    assert found["namespaces"] == ["team-a"]
    assert found["models"] == {"total": 3, "ready": 2}
    assert found["conditions"][0]["observedGeneration"] == 1


def test_reasons_are_words_for_programs() -> None:
    for reason in Reason:
        assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", reason.value)
        assert len(reason.value) <= 64
