"""What Accepted tells: the field, what is wrong with it, what to write instead, and what happens next."""

import pytest
from enginery_operator.decide import decide
from enginery_store.reasons import Reason
from support.api_objects import a_model, a_tenant
from support.installation import A10, H100, L40S, a_node
from support.observed import AnObserved, an_observed
from support.passes.pieces import AUTO, INT8, model

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
    "Auto without leave for INT8": (
        an_observed(AUTO).with_tenant(a_tenant().having("spec.policy.allowedPrecisions", ["Auto", "FP32"])),
        ("spec.precision.type Auto is not allowed, as it may come to INT8; write one of FP32; continues by itself when"
         " the spec or the tenant's policy changes")),
    "nothing but Auto": (
        an_observed(AUTO).with_tenant(a_tenant().having("spec.policy.allowedPrecisions", ["Auto"])),
        ("spec.precision.type Auto is not allowed, as it may come to FP32, INT8; ask the platform team to allow that"
         " too; continues by itself when the spec or the tenant's policy changes")),
    "Auto by no leave": (
        an_observed(AUTO).with_tenant(a_tenant().having("spec.policy.allowedPrecisions", ["FP32", "INT8"])),
        ("spec.precision.type Auto is not allowed; write one of FP32, INT8; continues by itself when the spec or the"
         " tenant's policy changes")),
    "compatible RTX engines": (
        an_observed(a_model().with_gpu().having("spec.build", {
            "backend": "TensorRTRTX", "hardwareCompatibility": "SameComputeCapability"}), A10),
        ("spec.build.hardwareCompatibility SameComputeCapability is for TensorRT, while engines of TensorRTRTX run on"
         " every GPU of their compute capability; write None; will not be retried until the spec changes")),
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
        ("spec.precision.calibration.uri s3://models/team-a/calibration/ lies in or around another tenant's part of the"
        " store; copy the data to a place of your own and write its address; continues by itself when the spec or the"
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


def test_an_unknown_profile_is_answered_with_those_that_exist() -> None:
    seen = an_observed(a_model().with_mig("7g.80gb"), H100, a_node().with_mig("NVIDIA-H200", {"1g.18gb": 1}))
    assert "profiles that exist: 1g.10gb, 1g.18gb" in decide(seen.build()).conditions["Accepted"].message
