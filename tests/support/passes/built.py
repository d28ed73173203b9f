"""Has every target an engine that is exact enough? Cases of QuotaReserved, EnginesReady and AccuracyVerified."""

from enginery_operator.decide.seen import Trouble
from enginery_store.reasons import Reason
from support.api_objects import a_model, ago
from support.observed import (
    a_job,
    an_accuracy,
    an_observed,
    an_outcome,
)
from support.passes.pieces import (
    FAILED_JOB,
    FORBIDDEN,
    HELD,
    NO_SLICE,
    PULLING,
    REFUSED,
    SILENT,
    TIGHT,
    TWO_KINDS,
    Case,
)

BUILT: dict[str, Case] = {
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
}  # fmt: skip
