"""Is the source good, and are the scales measured? Cases of SourceVerified and Calibrated, and of the gate's data."""

from enginery_operator.decide.seen import Trouble
from enginery_store.reasons import Reason
from support.api_objects import ago
from support.observed import (
    a_candidate,
    a_job,
    an_observed,
)
from support.passes.pieces import AUTO, INT8, PULLING, RECORD, REFUSED, SILENT, SLOW, TLS, Case, policy

PREPARED: dict[str, Case] = {
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
    "a prepare Job that ran out of memory": (
        an_observed().having(prepare_job=a_job(
            "Failed", finished_at=ago(5), trouble=Trouble(Reason.BUILD_OUT_OF_MEMORY, "8 GiB"))),
        "SourceVerified", "False", "BuildOutOfMemory", "False/BuildOutOfMemory"),
    "a prepare Job that crashed": (
        an_observed().having(prepare_job=a_job(
            "Failed", finished_at=ago(5), trouble=Trouble(Reason.CONVERSION_FAILED, "exit code 139", passing=True))),
        "SourceVerified", "Unknown", "ConversionFailed", "Unknown/Pending"),
    "a prepare Job that may not read the source": (
        an_observed().having(prepare_job=a_job(
            "Failed", finished_at=ago(5), trouble=Trouble(Reason.ACCESS_DENIED, "s3://b/k may not be read"))),
        "SourceVerified", "False", "AccessDenied", "False/AccessDenied"),
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
    "and its engines' accuracy is as unknown": (
        an_observed(AUTO).tried(*SLOW, a_candidate(AUTO.build(), "INT8", outcome_trouble=SILENT)),
        "AccuracyVerified", "Unknown", "StoreUnavailable", "Unknown/Pending"),
}  # fmt: skip
