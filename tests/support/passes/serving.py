"""Which revision serves, and what stays true while the store is silent? Cases of Progressing, Available and memory."""

from enginery_operator.decide.seen import Trouble
from enginery_store.reasons import Reason
from support.api_objects import a_model, a_tenant
from support.observed import (
    a_candidate,
    an_accuracy,
    an_observed,
)
from support.passes.pieces import ALL_TRUE, AUTO, CRASHING, REFUSED, SILENT, SLOW, Case

SERVING: dict[str, Case] = {
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
    "an outage takes back nothing of a model that has two precisions": (
        an_observed(AUTO).tried(*SLOW, a_candidate(AUTO.build(), "INT8", outcome_trouble=SILENT)).serves().having(
            candidates=SLOW).remembering(**ALL_TRUE | {"AccuracyVerified": ("True", "Passed")}),
        "AccuracyVerified", "True", "Passed", "True/Serving"),
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
