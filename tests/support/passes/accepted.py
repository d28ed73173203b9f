"""May the model be worked on at all? Cases of the condition Accepted."""

from support.api_objects import a_model, a_tenant
from support.installation import A10, H100
from support.observed import an_observed
from support.passes.pieces import AUTO, INT8, Case, model, policy

ACCEPTED: dict[str, Case] = {
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
    "Auto that is allowed, and a precision it may come to that is not": (
        an_observed(AUTO).with_tenant(a_tenant().having("spec.policy.allowedPrecisions", ["Auto", "FP32"])),
        "Accepted", "False", "PrecisionNotAllowed", "False/PrecisionNotAllowed"),
    "Auto where all that it may come to is allowed": (
        an_observed(AUTO).with_tenant(a_tenant().having("spec.policy.allowedPrecisions", ["Auto", "FP32", "INT8"])),
        "Accepted", "True", "Accepted", "Unknown/Pending"),
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
    "compatible engines of TensorRT-RTX": (
        an_observed(a_model().with_gpu().having("spec.build", {
            "backend": "TensorRTRTX", "hardwareCompatibility": "AmperePlus"}), A10),
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
}  # fmt: skip
