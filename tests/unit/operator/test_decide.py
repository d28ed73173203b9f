"""The composed chain: what a pass saw -> every condition. The table pins the order of checks, not only each of them."""

import re
from pathlib import Path

import pytest
from enginery_operator.decide import CONDITIONS, decide
from enginery_operator.decide.calibration import FAULTS
from enginery_operator.decide.seen import JobStep, Trouble
from enginery_store.manifest import CalibrationRecord
from enginery_store.reasons import FINAL_REASONS, Reason
from support.builders import (
    A10,
    H100,
    L40S,
    AnObserved,
    a_candidate,
    a_job,
    a_model,
    a_node,
    a_tenant,
    ago,
    an_accuracy,
    an_observed,
    an_outcome,
)

SILENT = Trouble(Reason.STORE_UNAVAILABLE, "the store does not answer", passing=True)
TLS = Trouble(Reason.STORE_TLS_FAILED, "the certificate is not trusted", passing=True)
SIGNED = {"policy.signatures": "Require"}
KEEPS = {"Accepted": "True", "SourceVerified": "True", "EnginesReady": "True"}


def policy(**fields: object) -> AnObserved:
    return an_observed().with_tenant(a_tenant().having("spec.policy", fields))


def model(path: str, value: object) -> AnObserved:
    return an_observed(a_model().having(path, value))


FAILED_JOB = a_job("Failed", finished_at=ago(5), trouble=Trouble(Reason.BUILD_FAILED, "exit code 1", passing=True))
PULLING = a_job("Waiting", trouble=Trouble(Reason.IMAGE_PULL_FAILED, "image x: not found", passing=True))
TIGHT = Trouble(Reason.UNSCHEDULABLE, "0/3 nodes are available", passing=True)
NO_SLICE = Trouble(Reason.WAITING_FOR_SLICE, "0/1: Insufficient nvidia.com/mig-1g.10gb", passing=True)
FULL = Trouble(Reason.WAITING_FOR_QUOTA, "exceeded quota: q, requested: pods=1, used: pods=3", passing=True)
FORBIDDEN = a_job("Waiting", trouble=FULL, podless=True)
HELD = a_job("Waiting", trouble=Trouble(Reason.QUEUED, "a queue holds the Job", passing=True))
TWO_KINDS = (a_node(), a_node().label("kubernetes.io/arch", "arm64"))
CRASHING = Trouble(Reason.CRASH_LOOPING, "the runtime ended with exit code 1 (Error)")
REFUSED = Trouble(Reason.QUOTA_EXCEEDED, "exceeded quota: pods", passing=True)
ALL_TRUE = {
    "Accepted": ("True", "Accepted"),
    "SourceVerified": ("True", "DigestRecorded"),
    "QuotaReserved": ("True", "NoQuotaConfigured"),
    "Calibrated": ("True", "NotRequired"),
    "AccuracyVerified": ("True", "NotRequired"),
    "EnginesReady": ("True", "AllTargetsBuilt"),
    "Ready": ("True", "Serving"),
}

INT8 = (
    a_model()
    .with_gate()
    .having("spec.precision.type", "INT8")
    .having("spec.precision.calibration", {"uri": "s3://models/team-a/calibration/"})
)
RECORD = CalibrationRecord(method="MinMax", samples=300, data_digest=f"sha256:{'c' * 64}", distance="0.04")
AUTO = INT8.having("spec.precision.type", "Auto").having(
    "spec.objective", {"latencyMilliseconds": {"value": "0.05"}, "batchSize": 1}
)
SLOW = an_observed(AUTO).built().seen.candidates
"""FP32 with its engine, whose p99 is 0.06 ms."""

CHAIN: dict[str, tuple[AnObserved, str, str, str, str]] = {
    # sentence: (seen, condition, its status, its reason, Ready as status/reason)
    "a namespace without a tenant is told whom to ask": (
        an_observed().with_tenant(None), "Accepted", "False", "TenantNotFound", "False/TenantNotFound"),
    "whoever has no tenant learns nothing about policy or devices": (
        an_observed(a_model().with_mig("7g.80gb").having("spec.route", {
            "gateway": {"name": "g", "namespace": "n"}, "hostname": "h"})).with_tenant(None),
        "Accepted", "False", "TenantNotFound", "False/TenantNotFound"),
    "a tenant on hold starts nothing new": (
        an_observed().with_tenant(a_tenant().having("spec.stopPolicy", "Hold")),
        "Accepted", "False", "TenantSuspended", "False/TenantSuspended"),
    "a stopped tenant comes before its own policy": (
        an_observed().with_tenant(a_tenant().having("spec.stopPolicy", "Hold").having(
            "spec.policy.allowedFormats", ["HuggingFace"])),
        "Accepted", "False", "TenantSuspended", "False/TenantSuspended"),
    "a format outside the policy": (
        policy(allowedFormats=["HuggingFace"]), "Accepted", "False", "FormatNotAllowed", "False/FormatNotAllowed"),
    "a precision outside the policy": (
        policy(allowedPrecisions=["FP16"]), "Accepted", "False", "PrecisionNotAllowed", "False/PrecisionNotAllowed"),
    "a source outside the policy": (
        policy(allowedSources=["s3://models/team-b/"]),
        "Accepted", "False", "SourceNotAllowed", "False/SourceNotAllowed"),
    "a policy comes before what this version does": (
        model("spec.source.format", "HuggingFace").with_tenant(a_tenant().having(
            "spec.policy.allowedFormats", ["ONNX"])),
        "Accepted", "False", "FormatNotAllowed", "False/FormatNotAllowed"),
    "calibration data outside the policy": (
        an_observed(INT8).with_tenant(a_tenant().having("spec.policy.allowedSources", [
            "s3://models/team-a/resnet50/", "s3://models/team-a/evaluation/"])),
        "Accepted", "False", "SourceNotAllowed", "False/SourceNotAllowed"),
    "evaluation data in another tenant's part of the store": (
        an_observed(a_model().with_gate()).having(foreign=frozenset({"spec.precision.accuracyGate.uri"})),
        "Accepted", "False", "SourceNotAllowed", "False/SourceNotAllowed"),
    "a format whose converter is installed": (
        model("spec.source.format", "HuggingFace"), "Accepted", "True", "Accepted", "Unknown/Pending"),
    "a format whose converter is not installed": (
        model("spec.source.format", "HuggingFace").having(missing_images=("images.converters.pyTorch",)),
        "Accepted", "False", "InvalidSpec", "False/InvalidSpec"),
    "a backend whose images are not installed": (
        an_observed(a_model().with_mig("1g.10gb"), H100).having(missing_images=("images.builderTensorRT",)),
        "Accepted", "False", "InvalidSpec", "False/InvalidSpec"),
    "what this version does not do comes before devices": (
        an_observed(a_model().with_mig("7g.80gb").having("spec.serving.server", "Triton")),
        "Accepted", "False", "InvalidSpec", "False/InvalidSpec"),
    "a backend for CPUs on GPUs": (
        an_observed(a_model().with_gpu().having("spec.build.backend", "ONNXRuntime"), A10),
        "Accepted", "False", "InvalidSpec", "False/InvalidSpec"),
    "a backend for GPUs on CPUs": (
        an_observed(a_model().having("spec.build.backend", "TensorRT")),
        "Accepted", "False", "InvalidSpec", "False/InvalidSpec"),
    "TensorRT-RTX where only datacentre GPUs are": (
        an_observed(a_model().with_mig("1g.10gb").having("spec.build.backend", "TensorRTRTX"), H100),
        "Accepted", "False", "InvalidSpec", "False/InvalidSpec"),
    "half precision on a CPU": (
        model("spec.precision.type", "FP16"),
        "Accepted", "False", "PrecisionNotSupportedByHardware", "False/PrecisionNotSupportedByHardware"),
    "FP8 on an older GPU": (
        an_observed(a_model().with_gpu().with_gate().having("spec.precision.type", "FP8"), A10),
        "Accepted", "False", "PrecisionNotSupportedByHardware", "False/PrecisionNotSupportedByHardware"),
    "a canary": (
        an_observed(a_model().having("spec.rollout", {"strategy": "Canary", "steps": [{"weight": 10}]})),
        "Accepted", "False", "CanaryNotSupported", "False/CanaryNotSupported"),
    "autoscaling": (
        an_observed(a_model().having("spec.serving.scaling", {
            "maxReplicas": 3, "metrics": [{"type": "CPU", "target": 80}]})),
        "Accepted", "False", "ScalerNotInstalled", "False/ScalerNotInstalled"),
    "a MIG profile nobody offers": (
        an_observed(a_model().with_mig("7g.80gb"), H100),
        "Accepted", "False", "MIGProfileNotFound", "False/MIGProfileNotFound"),
    "a GPU where there is none": (
        an_observed(a_model().with_gpu()), "Accepted", "False", "NoCompatibleNodes", "False/NoCompatibleNodes"),
    "a tenant that wants signatures gets nothing unsigned served": (
        policy(signatures="Require"), "SourceVerified", "False", "SignatureMissing", "False/SignatureMissing"),
    "a source that was not listed yet": (
        an_observed().unpinned(), "SourceVerified", "Unknown", "Pending", "Unknown/Pending"),
    "a source that is not there": (
        an_observed().unpinned(Trouble(Reason.SOURCE_NOT_FOUND, "no object at s3://b/k")),
        "SourceVerified", "False", "SourceNotFound", "False/SourceNotFound"),
    "a store that is silent at the first look is passing": (
        an_observed().unpinned(SILENT), "SourceVerified", "Unknown", "StoreUnavailable", "Unknown/Pending"),
    "a store with a foreign certificate": (
        an_observed().unpinned(TLS), "SourceVerified", "Unknown", "StoreTLSFailed", "Unknown/Pending"),
    "an outcome that cannot be read now": (
        an_observed().having(outcome_trouble=SILENT),
        "SourceVerified", "Unknown", "StoreUnavailable", "Unknown/Pending"),
    "a prepare Job at work": (
        an_observed().having(prepare_job=a_job()), "SourceVerified", "Unknown", "Preparing", "Unknown/Pending"),
    "a prepare Job whose image cannot be pulled": (
        an_observed().having(prepare_job=PULLING), "SourceVerified", "Unknown", "ImagePullFailed", "Unknown/Pending"),
    "a prepare Job that ended with a final word of its own": (
        an_observed().having(prepare_job=a_job(
            "Failed", finished_at=ago(5), trouble=Trouble(Reason.CONFIG_ERROR, "no signing.key"))),
        "SourceVerified", "False", "ConfigError", "False/ConfigError"),
    "a prepare Job that the API server refused": (
        an_observed().having(refusal=REFUSED), "SourceVerified", "Unknown", "Preparing", "False/QuotaExceeded"),
    "a refusal is said while an old revision serves": (
        an_observed().old_serves().having(refusal=REFUSED),
        "SourceVerified", "Unknown", "Preparing", "Unknown/Pending"),
    "a source that is no model": (
        an_observed().refused(Reason.SOURCE_INVALID),
        "SourceVerified", "False", "SourceInvalid", "False/SourceInvalid"),
    "a source that was verified against its pin": (
        an_observed().prepared(Reason.VERIFIED), "SourceVerified", "True", "Verified", "False/Building"),
    "no build Job yet": (an_observed().prepared(), "EnginesReady", "False", "Building", "False/Building"),
    "a gate that is not measured yet": (
        an_observed(a_model().with_gate()).prepared(), "AccuracyVerified", "Unknown", "Running", "False/Building"),
    "a build that failed for a passing reason": (
        an_observed().prepared().engine(job=FAILED_JOB),
        "EnginesReady", "False", "BuildFailed", "False/BuildFailed"),
    "a build that can never succeed": (
        an_observed().prepared().engine(failure=an_outcome(Reason.UNSUPPORTED_OPERATOR, "operator Foo")),
        "EnginesReady", "False", "UnsupportedOperator", "False/UnsupportedOperator"),
    "a build out of memory": (
        an_observed().prepared().engine(failure=an_outcome(Reason.BUILD_OUT_OF_MEMORY, "8 GiB")),
        "EnginesReady", "False", "BuildOutOfMemory", "False/BuildOutOfMemory"),
    "a build that took too long": (
        an_observed().prepared().engine(job=a_job(
            "Failed", finished_at=ago(1), trouble=Trouble(Reason.BUILD_TIMEOUT, "3600 s"))),
        "EnginesReady", "False", "BuildTimeout", "False/BuildTimeout"),
    "a build whose image cannot be pulled": (
        an_observed().prepared().engine(job=PULLING),
        "EnginesReady", "False", "ImagePullFailed", "False/ImagePullFailed"),
    "a build without a node": (
        an_observed().prepared().engine(job=a_job("Waiting", trouble=TIGHT)),
        "EnginesReady", "False", "Unschedulable", "False/Unschedulable"),
    "a build without a slice": (
        an_observed().prepared().engine(job=a_job("Waiting", trouble=NO_SLICE)),
        "EnginesReady", "False", "WaitingForSlice", "False/WaitingForSlice"),
    "a prepare Job whose pod a quota forbids": (
        an_observed().having(prepare_job=FORBIDDEN), "QuotaReserved", "False", "WaitingForQuota",
        "False/WaitingForQuota"),
    "a build whose pod a quota forbids": (
        an_observed().prepared().engine(job=FORBIDDEN), "QuotaReserved", "False", "WaitingForQuota",
        "False/WaitingForQuota"),
    "a build that a queue holds": (
        an_observed().prepared().engine(job=HELD), "EnginesReady", "False", "Queued", "False/Queued"),
    "a build whose device is taken": (
        an_observed().prepared().engine(job=a_job("Failed", finished_at=ago(1), trouble=Trouble(
            Reason.DEVICE_UNAVAILABLE, "busy", passing=True))),
        "EnginesReady", "False", "DeviceUnavailable", "False/DeviceUnavailable"),
    "a build that the API server refused": (
        an_observed().prepared().old_serves().having(refusal=REFUSED),
        "EnginesReady", "False", "ConfigError", "False/ConfigError"),
    "a manifest that cannot be asked for is passing": (
        an_observed().prepared().engine(trouble=SILENT),
        "EnginesReady", "Unknown", "StoreUnavailable", "Unknown/Pending"),
    "a manifest that does not verify": (
        an_observed().prepared().engine(trouble=Trouble(Reason.ENGINE_VERIFICATION_FAILED, "no signature")),
        "EnginesReady", "False", "EngineVerificationFailed", "False/EngineVerificationFailed"),
    "one target built, one failed for good": (
        an_observed(None, *TWO_KINDS).built().engine(
            1, manifest=None, failure=an_outcome(Reason.UNSUPPORTED_OPERATOR, "Foo")),
        "EnginesReady", "False", "PartiallyBuilt", "False/PartiallyBuilt"),
    "one target built, one at work": (
        an_observed(None, *TWO_KINDS).built().engine(1, manifest=None, job=a_job()),
        "EnginesReady", "False", "Building", "False/Building"),
    "engines that were there already": (
        an_observed().built(), "EnginesReady", "True", "ReusedFromStore", "False/NoReplicas"),
    "engines that were built for it": (
        an_observed().built().engine(job=a_job("Succeeded", finished_at=ago(5))),
        "EnginesReady", "True", "AllTargetsBuilt", "False/NoReplicas"),
    "engines stay ours when their Jobs are gone": (
        an_observed().built().remembering(EnginesReady=("True", "AllTargetsBuilt")),
        "EnginesReady", "True", "AllTargetsBuilt", "False/NoReplicas"),
    "an engine that holds the gate": (
        an_observed(a_model().with_gate()).built(accuracy=an_accuracy("0.0100")),
        "AccuracyVerified", "True", "Passed", "False/NoReplicas"),
    "an engine that misses the gate": (
        an_observed(a_model().with_gate()).built(accuracy=an_accuracy("0.0101")),
        "AccuracyVerified", "False", "BelowThreshold", "False/BelowThreshold"),
    "the worst engine decides": (
        an_observed(a_model().with_gate(), *TWO_KINDS).built().engine(
            1, manifest=an_observed().built(accuracy=an_accuracy("0.5")).seen.engines[0].manifest),
        "AccuracyVerified", "False", "BelowThreshold", "False/BelowThreshold"),
    "an inexact engine tells more than a missing one": (
        an_observed(a_model().with_gate(), *TWO_KINDS).built(accuracy=an_accuracy("0.5")).engine(1, manifest=None),
        "EnginesReady", "False", "Building", "False/BelowThreshold"),
    "evaluation data that do not fit": (
        an_observed(a_model().with_gate()).prepared().engine(
            failure=an_outcome(Reason.EVALUATION_DATA_INVALID, "no array x")),
        "AccuracyVerified", "False", "EvaluationDataInvalid", "False/EvaluationDataInvalid"),
    "an evaluation that failed": (
        an_observed(a_model().with_gate()).prepared().engine(
            failure=an_outcome(Reason.EVALUATION_FAILED, "NaN")),
        "AccuracyVerified", "False", "EvaluationFailed", "False/EvaluationFailed"),
    "a first revision comes up": (
        an_observed().built().deployed(ready=0),
        "Progressing", "True", "RolloutInProgress", "False/NoReplicas"),
    "a first revision that crashes": (
        an_observed().built().deployed(ready=0, trouble=CRASHING),
        "Available", "False", "CrashLooping", "False/CrashLooping"),
    "a first revision that a quota refuses": (
        an_observed().built().deployed(ready=0, trouble=REFUSED),
        "Available", "False", "QuotaExceeded", "False/QuotaExceeded"),
    "a first revision whose Deployment was refused": (
        an_observed().built().having(refusal=REFUSED), "Available", "False", "QuotaExceeded", "False/QuotaExceeded"),
    "a runtime on the wrong device": (
        an_observed().built().deployed(ready=0, trouble=Trouble(Reason.ENGINE_DEVICE_MISMATCH, "sm80")),
        "Available", "False", "EngineDeviceMismatch", "False/EngineDeviceMismatch"),
    "a runtime that cannot load": (
        an_observed().built().deployed(ready=0, trouble=Trouble(Reason.ENGINE_LOAD_FAILED, "x")),
        "Available", "False", "EngineLoadFailed", "False/EngineLoadFailed"),
    "a rollout beyond its deadline": (
        an_observed().built().old_serves().deployed(ready=0, deadline_exceeded=True),
        "Progressing", "False", "ProgressDeadlineExceeded", "False/ProgressDeadlineExceeded"),
    "a revision that serves": (an_observed().built().serves(), "Ready", "True", "Serving", "True/Serving"),
    "a serving revision is available": (
        an_observed().built().serves(), "Available", "True", "MinimumReplicasAvailable", "True/Serving"),
    "a serving revision is complete": (
        an_observed().built().serves(), "Progressing", "False", "Complete", "True/Serving"),
    "one of two replicas is down": (
        an_observed(a_model().with_replicas(2)).built().serves(ready=1),
        "Available", "True", "MinimumReplicasAvailable", "False/RolloutInProgress"),
    "a Deployment whose controller has not looked is not whole": (
        an_observed().built().serves(current=False),
        "Progressing", "True", "RolloutInProgress", "False/RolloutInProgress"),
    "a bad update: the old revision is available": (
        an_observed().refused(Reason.SOURCE_INVALID).old_serves(),
        "Available", "True", "MinimumReplicasAvailable", "False/SourceInvalid"),
    "a bad update: nothing progresses": (
        an_observed(a_model().with_gate()).built(accuracy=an_accuracy("0.5")).old_serves(),
        "Progressing", "False", "BelowThreshold", "False/BelowThreshold"),
    "a good update on its way": (
        an_observed().prepared().old_serves(), "Progressing", "True", "NewRevision", "False/Building"),
    "a model that is stopped": (
        an_observed(a_model().stopped()).built().serves(), "Available", "False", "Stopped", "False/Stopped"),
    "a tenant that drains ends serving": (
        an_observed().with_tenant(a_tenant().having("spec.stopPolicy", "HoldAndDrain")).built().serves(),
        "Available", "False", "Stopped", "False/TenantSuspended"),
    "a tenant on hold serves on": (
        an_observed().with_tenant(a_tenant().having("spec.stopPolicy", "Hold")).built().serves(),
        "Available", "True", "MinimumReplicasAvailable", "False/TenantSuspended"),
    "no quota in this version": (
        an_observed().prepared(), "QuotaReserved", "True", "NoQuotaConfigured", "False/Building"),
    "FP32 needs no calibration": (an_observed().prepared(), "Calibrated", "True", "NotRequired", "False/Building"),
    "calibration at work": (
        an_observed(INT8).having(prepare_job=a_job()), "Calibrated", "Unknown", "Running", "Unknown/Pending"),
    "calibration at work says nothing of the source yet": (
        an_observed(INT8).having(prepare_job=a_job()), "SourceVerified", "Unknown", "Preparing", "Unknown/Pending"),
    "a calibrated model": (
        an_observed(INT8).prepared(calibration=RECORD), "Calibrated", "True", "Calibrated", "False/Building"),
    "a prequantized model": (
        an_observed(INT8.having("spec.precision.calibration", None).having(
            "spec.precision.quantization", "Prequantized")).prepared(),
        "Calibrated", "True", "Prequantized", "False/Building"),
    "no calibration data": (
        an_observed(INT8).refused(Reason.CALIBRATION_DATA_NOT_FOUND, "no .npz at s3://b/c/"),
        "Calibrated", "False", "CalibrationDataNotFound", "False/CalibrationDataNotFound"),
    "bad calibration data say nothing against the source": (
        an_observed(INT8).refused(Reason.CALIBRATION_DATA_INVALID, "noise"),
        "SourceVerified", "True", "DigestRecorded", "False/CalibrationDataInvalid"),
    "nor against one that is pinned": (
        an_observed(INT8.having("spec.source.digest", f"sha256:{'d' * 64}")).refused(Reason.TOO_FEW_SAMPLES, "7"),
        "SourceVerified", "True", "Verified", "False/TooFewSamples"),
    "a gate's data that do not fit are found before anything is built": (
        an_observed(INT8).refused(Reason.EVALUATION_DATA_INVALID, "no array x"),
        "AccuracyVerified", "False", "EvaluationDataInvalid", "False/EvaluationDataInvalid"),
    "and say nothing of calibration": (
        an_observed(INT8).refused(Reason.EVALUATION_DATA_INVALID, "no array x"),
        "Calibrated", "Unknown", "Pending", "False/EvaluationDataInvalid"),
    "nor against the source": (
        an_observed(INT8).refused(Reason.EVALUATION_DATA_INVALID, "no array x"),
        "SourceVerified", "True", "DigestRecorded", "False/EvaluationDataInvalid"),
    "a calibration whose Job alone tells": (
        an_observed(INT8).having(prepare_job=a_job("Failed", finished_at=ago(5), trouble=Trouble(
            Reason.CALIBRATION_FAILED, "all activations are 0"))),
        "Calibrated", "False", "CalibrationFailed", "False/CalibrationFailed"),
    "a second precision whose outcome cannot be read now": (
        an_observed(AUTO).tried(*SLOW, a_candidate(AUTO.build(), "INT8", outcome_trouble=SILENT)),
        "Calibrated", "Unknown", "StoreUnavailable", "Unknown/Pending"),
    "replicas are fixed": (an_observed(), "ScalingReady", "True", "FixedReplicas", "Unknown/Pending"),
    "an outage keeps what was verified": (
        an_observed().built().serves().having(outcome=None, outcome_trouble=SILENT, engines=()).remembering(**ALL_TRUE),
        "EnginesReady", "True", "AllTargetsBuilt", "True/Serving"),
    "an outage of manifests keeps what was verified": (
        an_observed().built().serves().engine(manifest=None, trouble=SILENT).remembering(**ALL_TRUE),
        "EnginesReady", "True", "AllTargetsBuilt", "True/Serving"),
    "an outage does not hide that no replica is left": (
        an_observed().built().serves(ready=0).having(outcome=None, outcome_trouble=SILENT, engines=())
        .remembering(**ALL_TRUE),
        "Available", "False", "NoReplicas", "False/NoReplicas"),
    "an outage does not hide that a replica is missing": (
        an_observed(a_model().with_replicas(2)).built().serves(ready=1)
        .having(outcome=None, outcome_trouble=SILENT, engines=()).remembering(**ALL_TRUE),
        "Progressing", "True", "RolloutInProgress", "Unknown/Pending"),
    "an outage in the middle of a rollout is undecided": (
        an_observed().old_serves().having(outcome_trouble=SILENT).remembering(
            **{name: value for name, value in ALL_TRUE.items() if name != "Ready"}),
        "Progressing", "True", "NewRevision", "Unknown/Pending"),
    "an outage makes nothing true that was not": (
        an_observed().having(outcome_trouble=SILENT).remembering(SourceVerified=("Unknown", "Preparing")),
        "SourceVerified", "Unknown", "StoreUnavailable", "Unknown/Pending"),
    "an engine that is gone while the store answers is not remembered": (
        an_observed().prepared().serves().remembering(**ALL_TRUE),
        "EnginesReady", "False", "Building", "False/Building"),
}  # fmt: skip


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


UNDONE: dict[str, tuple[str, object, str]] = {
    # field of the message: (path, value, what the message tells to do)
    "spec.source.uri": ("spec.source.uri", "pvc://claim/m", "copy the model to s3://"),
    "spec.source.signature": ("spec.source.signature", {"uri": "s3://b/s.sig", "keyName": "k"}, "digest instead"),
    "spec.precision.calibration.capture": (
        "spec.precision.calibration",
        {"capture": {"samples": 300}},
        "write calibration.uri",
    ),
    "spec.serving.server": ("spec.serving.server", "Triton", "write Native"),
    "spec.serving.placement": ("spec.serving.placement", "Pooled", "write Dedicated"),
    "spec.serving.fallback": ("spec.serving.fallback", "ONNXRuntime", "write None"),
    "spec.shapes.fromTraffic.mode": ("spec.shapes.fromTraffic.mode", "Propose", "write Off"),
    "spec.accelerator.profile": ("spec.accelerator", {"mode": "MIG", "profile": "Auto"}, "1g.10gb"),
    "spec.build.retention": ("spec.build.retention", "Delete", "write Retain"),
    "spec.serving.cudaGraphs.batchSizes": ("spec.serving.cudaGraphs.batchSizes", [1, 8], "remove it"),
    "spec.serving.batching.priorityLevels": ("spec.serving.batching.priorityLevels", 2, "write 1"),
    "spec.rollout.surge": ("spec.rollout.surge", "Never", "Recreate"),
    "spec.route": ("spec.route", {"gateway": {"name": "g", "namespace": "n"}, "hostname": "h"}, "use status.url"),
}


@pytest.mark.parametrize("field", UNDONE)
def test_a_field_that_would_change_nothing_is_refused_with_advice(field: str) -> None:
    path, value, advice = UNDONE[field]
    verdict = decide(an_observed(a_model().having(path, value), H100).build()).conditions["Accepted"]
    assert verdict.reason is Reason.INVALID_SPEC
    assert verdict.message.startswith(f"{field}: this version does not do ")
    assert advice in verdict.message
    assert verdict.message.endswith("will not be retried until the spec changes")


REFUSALS: dict[str, tuple[AnObserved, str]] = {
    # sentence: (seen, the whole message)
    "no converter": (
        model("spec.source.format", "HuggingFace").having(missing_images=("images.converters.pyTorch",)),
        ("spec.source.format HuggingFace: this installation has no converter image for it; ask the platform team to set"
        " images.converters.pyTorch, or export the model to ONNX; continues by itself when it is set")),
    "no GPU images": (
        an_observed(a_model().with_mig("1g.10gb"), H100).having(
            missing_images=("images.runtimeTensorRT", "images.builderTensorRT")),
        ("spec.build.backend TensorRT: this installation has no image for it; ask the platform team to set"
        " images.runtimeTensorRT and images.builderTensorRT; continues by itself when it is set")),
    "RTX on an H100": (
        an_observed(a_model().with_mig("1g.10gb").having("spec.build.backend", "TensorRTRTX"), H100),
        ("spec.build.backend TensorRTRTX compiles for compute capabilities 7.5, 8.0, 8.6, 8.9, 12.0, 12.1 and these"
         " are none: sm90-nvidia-h100-80gb-hbm3-1g.10gb; write TensorRT, or wait for such a node; continues by itself"
         " then")),
    "FP8 on an A10": (
        an_observed(a_model().with_gpu().having("spec.precision.type", "FP8"), A10),
        ("spec.precision.type FP8: none of the targets computes it (sm86-nvidia-a10); write one of FP32, FP16, BF16,"
        " INT8; continues by itself when a device that does turns up")),
    "BF16 on a CPU": (
        model("spec.precision.type", "BF16"),
        ("spec.precision.type BF16: none of the targets computes it (cpu-amd64); write one of FP32, INT8; continues by"
        " itself when a device that does turns up")),
    "foreign calibration data": (
        an_observed(INT8).having(foreign=frozenset({"spec.precision.calibration.uri"})),
        ("spec.precision.calibration.uri s3://models/team-a/calibration/ lies in another tenant's part of the store;"
        " copy the data to a place of your own and write its address; continues by itself when the spec or the"
        " tenant's policy changes")),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSALS)
def test_a_refusal_names_what_is_wrong_and_what_to_write(sentence: str) -> None:
    seen, want = REFUSALS[sentence]
    assert decide(seen.build()).conditions["Accepted"].message == want


def test_targets_that_cannot_are_left_out_and_said() -> None:
    seen = an_observed(a_model().with_gpu().having("spec.precision.type", "FP8"), A10, L40S)
    verdict = decide(seen.build()).conditions["Accepted"]
    assert verdict.message == "1 target(s); left out, as TensorRT makes no FP8 engines for them: sm86-nvidia-a10"


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


def test_an_unknown_profile_is_answered_with_those_that_exist() -> None:
    seen = an_observed(a_model().with_mig("7g.80gb"), H100, a_node().with_mig("NVIDIA-H200", {"1g.18gb": 1}))
    assert "profiles that exist: 1g.10gb, 1g.18gb" in decide(seen.build()).conditions["Accepted"].message


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
        " UnsupportedFormat UnsupportedOperator InvalidShapes SourceTooLarge ConversionFailed ConfigError",
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
        "Unknown": "Running Pending",
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
