"""The composed chain: what a pass saw -> every condition. The table pins the order of checks, not only each of them."""

import re
from pathlib import Path

import pytest
from enginery_operator.decide import CONDITIONS, decide
from enginery_operator.decide.calibration import FAULTS
from enginery_operator.decide.seen import JobStep
from enginery_store.reasons import FINAL_REASONS, Reason
from support.api_objects import a_model, ago
from support.observed import a_job, an_accuracy, an_observed
from support.passes import CHAIN
from support.passes.pieces import (
    ALL_TRUE,
    FAILED_JOB,
    INT8,
    RECORD,
    SILENT,
    TWO_KINDS,
)


@pytest.mark.parametrize("sentence", CHAIN)
def test_conditions_say_what_is_true_and_why(sentence: str) -> None:
    seen, name, status, reason, ready = CHAIN[sentence]
    found = decide(seen.build()).conditions
    assert list(found) == list(CONDITIONS)
    assert (found[name].status, found[name].reason.value) == (status, reason)
    assert f"{found['Ready'].status}/{found['Ready'].reason.value}" == ready


@pytest.mark.parametrize("sentence", CHAIN)
def test_messages_are_sentences_for_tenants(sentence: str) -> None:
    for verdict in decide(CHAIN[sentence][0].build()).conditions.values():
        assert verdict.message
        assert "Traceback" not in verdict.message
        assert not re.search(r"(will be retried.*){2}|\.\.?;|;;", verdict.message), verdict.message


@pytest.mark.parametrize("sentence", CHAIN)
def test_passing_trouble_is_never_final_and_final_says_so(sentence: str) -> None:
    for name, verdict in decide(CHAIN[sentence][0].build()).conditions.items():
        if name in {"Ready", "Progressing", "Available"} or verdict.holds:
            continue
        if verdict.reason in {Reason.STORE_UNAVAILABLE, Reason.STORE_TLS_FAILED}:
            assert verdict.status == "Unknown"
        if verdict.failed and verdict.reason in FINAL_REASONS:
            ends = "will not be retried|continues by itself|asked again|will retry in|will be retried"
            assert re.search(ends, verdict.message), (name, verdict)


def test_an_earlier_generation_is_not_remembered() -> None:
    seen = an_observed().built().serves().having(outcome=None, outcome_trouble=SILENT, engines=())
    before = seen.remembering(**ALL_TRUE).build()
    body = before.model.model_dump(mode="json", by_alias=True, exclude_none=True)
    body["metadata"]["generation"] = 4
    found = decide(seen.having(model=type(before.model).model_validate(body)).build()).conditions
    assert (found["SourceVerified"].status, found["Ready"].status) == ("Unknown", "Unknown")


def test_calibration_tells_its_figures_and_what_was_done_to_the_model() -> None:
    seen = an_observed(INT8).prepared(calibration=RECORD, notes=["2 nodes stay in FP32: a, b."])
    assert decide(seen.build()).conditions["Calibrated"].message == (
        "MinMax on 300 samples, distance 0.04 from the evaluation data; 2 nodes stay in FP32: a, b"
    )


@pytest.mark.parametrize("reason", sorted(FAULTS))
def test_calibration_data_are_asked_about_again_as_nobody_lists_them(reason: Reason) -> None:
    seen = an_observed(INT8).refused(reason, "bad data", finished_at=ago(601))
    found = decide(seen.build())
    assert found.prepare.create_attempt == 1
    assert found.conditions["Calibrated"].message == "bad data; asked again every 600 s"
    early = decide(an_observed(INT8).refused(reason, "bad data", finished_at=ago(1)).build())
    assert (early.prepare.create_attempt, early.prepare.wait_seconds) == (None, 599)


def test_an_engine_measured_by_its_reference_says_so() -> None:
    ahead = an_accuracy("0.0009", "0.9791").model_copy(update={"measured_on": "Reference"})
    found = decide(an_observed(a_model().with_gate()).built(accuracy=ahead).build()).conditions["AccuracyVerified"]
    assert found.message.endswith(", with ONNX Runtime in the engine's place, as it was compiled ahead of time")


def test_a_build_tells_since_when_and_where_its_progress_is() -> None:
    found = decide(an_observed().prepared().engine(job=a_job(attempt=2)).build()).conditions["EnginesReady"]
    assert found.message == (
        "0/1 engines ready; cpu-amd64 is compiled since 2026-03-01T11:59:30Z (attempt 2; its progress: kubectl logs -n"
        " team-a job/resnet50-build-eeeeeeeeee)"
    )


def test_a_bad_update_says_what_serves_on() -> None:
    seen = an_observed(a_model().with_gate()).built(accuracy=an_accuracy("0.0150", "0.9650")).old_serves()
    found = decide(seen.build()).conditions["Ready"]
    assert "Top1 0.9650 against 0.9800" in found.message
    assert "0.0150 is worse than the tolerated 0.010" in found.message
    assert found.message.endswith("resnet50-01d01d01 still serves")


def test_nothing_is_done_for_what_is_not_accepted() -> None:
    found = decide(an_observed().with_tenant(None).old_serves().build())
    assert (found.prepare, found.builds, found.rollout.deploy) == (JobStep(), (), False)
    assert (found.rollout.select, found.rollout.remove) == ("resnet50-01d01d01", ())


def test_no_build_starts_before_the_source_is_verified() -> None:
    found = decide(an_observed().build())
    assert (found.prepare.create_attempt, found.builds) == (1, ())


def test_every_missing_engine_gets_its_own_job() -> None:
    found = decide(an_observed(None, *TWO_KINDS).prepared().build())
    assert [(engine.offer.target.name, step.create_attempt) for engine, step in found.builds] == [
        ("cpu-amd64", 1),
        ("cpu-arm64", 1),
    ]


def test_a_pass_comes_again_when_the_first_pause_ends() -> None:
    jobs = [a_job("Failed", finished_at=ago(5), trouble=FAILED_JOB.trouble, attempt=attempt) for attempt in (1, 3)]
    seen = an_observed(None, *TWO_KINDS).prepared().engine(0, job=jobs[0]).engine(1, job=jobs[1])
    assert decide(seen.build()).requeue_seconds == 15


TABLE = {
    # api.md's table: condition -> status -> reasons. Progressing False may also carry the reason of the gate that
    # keeps the new revision from rolling out, and SourceVerified what keeps its Job from running.
    "Accepted": {
        "True": "Accepted",
        "False": "InvalidSpec TenantNotFound TenantSuspended FormatNotAllowed SourceNotAllowed PrecisionNotAllowed"
        " PrecisionNotSupportedByHardware MIGProfileNotFound NoCompatibleNodes CanaryNotSupported ScalerNotInstalled",
        "Unknown": "Pending",
    },
    "SourceVerified": {
        "True": "Verified DigestRecorded",
        "False": "SourceNotFound AccessDenied DigestMismatch SignatureMissing SignatureInvalid SourceInvalid"
        " UnsupportedFormat UnsupportedOperator InvalidShapes SourceTooLarge ConversionFailed ConfigError"
        " BuildOutOfMemory BuildTimeout",
        "Unknown": "StoreUnavailable StoreTLSFailed Preparing Pending ImagePullFailed ConfigError Unschedulable Queued"
        " ConversionFailed",
    },
    "QuotaReserved": {
        "True": "QuotaReserved NoQuotaConfigured",
        "False": "WaitingForQuota ExceedsMaxQuota TenantSuspended",
        "Unknown": "PendingEvaluation Pending",
    },
    "Calibrated": {
        "True": "Calibrated NotRequired Prequantized",
        "False": "CalibrationDataNotFound TooFewSamples CalibrationDataInvalid CalibrationFailed",
        "Unknown": "Capturing Running Pending StoreUnavailable StoreTLSFailed",
    },
    "AccuracyVerified": {
        "True": "Passed NotRequired",
        "False": "BelowThreshold EvaluationDataInvalid EvaluationFailed",
        "Unknown": "Running Pending StoreUnavailable StoreTLSFailed",
    },
    "EnginesReady": {
        "True": "AllTargetsBuilt ReusedFromStore",
        "False": "Building PartiallyBuilt BuildFailed BuildOutOfMemory BuildTimeout ImagePullFailed ConfigError"
        " Unschedulable WaitingForSlice DeviceUnavailable Queued UnsupportedOperator InvalidShapes StoreUnavailable"
        " EngineVerificationFailed EvaluationDataInvalid EvaluationFailed",
        "Unknown": "Pending StoreUnavailable StoreTLSFailed",
    },
    "Progressing": {
        "True": "NewRevision RolloutInProgress CanaryPaused Rebuilding",
        "False": "Complete ProgressDeadlineExceeded InsufficientGPU RolledBack Stopped",
    },
    "Available": {
        "True": "MinimumReplicasAvailable ServingFallback",
        "False": "NoReplicas Unschedulable WaitingForSlice ConfigError EngineLoadFailed EngineDeviceMismatch"
        " EngineVerificationFailed CrashLooping ImagePullFailed QuotaExceeded Stopped",
    },
    "ScalingReady": {"True": "ScalingActive FixedReplicas"},
    "Ready": {"True": "Serving", "Unknown": "Pending"},
}  # fmt: skip


@pytest.mark.parametrize("sentence", CHAIN)
def test_reasons_are_those_of_the_api(sentence: str) -> None:
    found = decide(CHAIN[sentence][0].build()).conditions
    gates = {verdict.reason.value for name, verdict in found.items() if name not in {"Ready", "Progressing"}}
    for name, verdict in found.items():
        allowed = set(TABLE[name].get(verdict.status, "").split())
        if name == "Progressing" and verdict.failed:
            allowed |= gates
        if name == "Ready" and verdict.failed:
            allowed |= gates | {"RolloutInProgress", "ProgressDeadlineExceeded", "NewRevision"}
        assert verdict.reason.value in allowed, (name, verdict)


def test_the_table_above_produces_every_reason_of_this_version() -> None:
    """A reason that the decision modules name, and no case here leads to, is one nobody has thought through."""
    folder = Path(__file__).parents[3] / "operator/enginery_operator/decide"
    named = {
        Reason[name] for file in folder.glob("*.py") for name in re.findall(r"Reason\.([A-Z_]+)", file.read_text())
    }
    produced = {verdict.reason for case in CHAIN.values() for verdict in decide(case[0].build()).conditions.values()}
    assert not named - produced


def test_a_stopped_model_starts_no_job_and_says_that_it_waits() -> None:
    for seen, condition in (
        (an_observed(a_model().stopped()), "SourceVerified"),
        (an_observed(a_model().stopped()).prepared(), "EnginesReady"),
    ):
        decision = decide(seen.seen)
        assert decision.prepare.create_attempt is None
        assert all(step.create_attempt is None for _, step in decision.builds)
        verdict = decision.conditions[condition]
        assert (verdict.status, verdict.reason) == ("Unknown", Reason.PENDING)
        assert "stopped" in verdict.message
