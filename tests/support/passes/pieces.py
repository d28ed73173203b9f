"""What the cases of several conditions are made of."""

from enginery_operator.decide.seen import Trouble
from enginery_store.manifest import CalibrationRecord
from enginery_store.reasons import Reason
from support.api_objects import a_model, a_tenant, ago
from support.installation import a_node
from support.observed import AnObserved, a_job, an_observed

Case = tuple[AnObserved, str, str, str, str]
"""(what was seen, condition, its status, its reason, Ready as status/reason)"""

SILENT = Trouble(Reason.STORE_UNAVAILABLE, "the store does not answer", passing=True)
TLS = Trouble(Reason.STORE_TLS_FAILED, "the certificate is not trusted", passing=True)


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
