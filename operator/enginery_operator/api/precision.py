"""spec.precision and spec.build: how exact, and compiled for what. Used by `v1alpha1`."""

from typing import Annotated, Literal

from pydantic import Field

from enginery_operator.api.schema import (
    NO_HOST_RULE,
    S3_SCHEME_RULE,
    SET_LIST,
    URI,
    APIType,
    Decimal,
    ruled,
    rules,
)

_QUANTIZED = "self.type in ['INT8', 'FP8']"


class Capture(APIType):
    """Calibration samples taken from live traffic."""

    samples: Annotated[int, Field(ge=100, le=5000)] = Field(
        default=300, description="How many requests to sample, 100 to 5000. Example: 300."
    )
    percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="Percentage of requests that is sampled, 1 to 100. Example: 1."
    )


class Calibration(APIType):
    """Where calibration samples come from."""

    model_config = ruled(
        ("has(self.uri) != has(self.capture)", "give exactly one of calibration.uri and calibration.capture"),
    )

    uri: URI | None = Field(
        default=None,
        description="Prefix with .npz files, one array per input. Example: s3://models/team-a/resnet50/calibration/.",
        json_schema_extra=rules(S3_SCHEME_RULE, NO_HOST_RULE),
    )
    capture: Capture | None = Field(
        default=None, description="Sample live traffic; the Tenant's policy.capture must be Allow."
    )
    samples: Annotated[int, Field(ge=100, le=5000)] = Field(
        default=300, description="How many samples calibration uses, 100 to 5000. Example: 300."
    )


class AccuracyGate(APIType):
    """What an engine must hold before it is rolled out."""

    uri: URI = Field(
        description="Prefix with .npz files, one array per input and, where there are labels, an array `labels`."
        " Without labels the engine is compared with the FP32 outputs. Example:"
        " s3://models/team-a/resnet50/evaluation/.",
        json_schema_extra=rules(S3_SCHEME_RULE, NO_HOST_RULE),
    )
    metric: Literal["Top1", "Top5", "CosineSimilarity", "MaxAbsError", "MeanAbsError"] = Field(
        description="What is measured. Top1 and Top5: share of samples whose label (or FP32 answer) is among the first"
        " 1 or 5."
    )
    max_degradation: Decimal = Field(
        description="Largest loss against the FP32 reference measured in the same Job, as a decimal string. Example:"
        " '0.010'."
    )
    samples: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1000, description="So many samples are evaluated; the data must hold them. Example: 1000."
    )


class Precision(APIType):
    """Number format of the engine, and what proves it."""

    model_config = ruled(
        (
            "!has(self.calibration) || self.type in ['INT8', 'FP8', 'Auto']",
            "calibration is for type INT8, FP8 or Auto; remove calibration or change type",
        ),
        (
            (
                f"!({_QUANTIZED}) || (has(self.calibration) != (has(self.quantization) && self.quantization =="
                " 'Prequantized'))"
            ),
            "INT8 and FP8 need exactly one of calibration and quantization: Prequantized",
        ),
        (
            f"!({_QUANTIZED}) || has(self.accuracyGate)",
            "INT8 and FP8 need accuracyGate, so that a bad model never replaces a good one",
        ),
        (
            f"!has(self.quantization) || {_QUANTIZED} || (self.type == 'Auto' && self.quantization == 'Calibrate')",
            "quantization is for type INT8 and FP8, and Calibrate for Auto too; remove quantization or change type",
        ),
    )

    type: Literal["Auto", "FP32", "FP16", "BF16", "INT8", "FP8"] = Field(
        default="FP32",
        description="Number format. Auto: FP16 first, INT8 only if the measured latency misses spec.objective, kept"
        " only if the accuracy gate holds.",
    )
    quantization: Literal["Calibrate", "Prequantized"] | None = Field(
        default=None,
        description="Calibrate: scales are measured on the calibration data. Prequantized: the model carries Q/DQ"
        " nodes already, which leaves Auto no choice: write INT8 or FP8.",
    )
    calibration: Calibration | None = Field(default=None, description="Calibration data for INT8, FP8 and Auto.")
    accuracy_gate: AccuracyGate | None = Field(
        default=None, description="Evaluation that an engine must pass before it is rolled out."
    )


class Targets(APIType):
    """Which devices engines are built for."""

    mode: Literal["Auto"] = Field(
        default="Auto", description="Auto: every matching kind of slice that the tenant may use."
    )
    products: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=16)] | None = Field(
        default=None,
        description="Restrict targets to these GPU products, as nodes are labelled. Example: NVIDIA-H200.",
        json_schema_extra=SET_LIST,
    )


class Build(APIType):
    """How engines are compiled."""

    backend: Literal["Auto", "TensorRT", "TensorRTRTX", "ONNXRuntime"] = Field(
        default="Auto",
        description="Compiler. Auto: TensorRT for GPU and MIG, ONNXRuntime for CPU. TensorRTRTX compiles ahead of time,"
        " without a GPU, for compute capabilities 7.5, 8.0, 8.6, 8.9, 12.0 and 12.1.",
    )
    targets: Targets = Field(default_factory=Targets, description="Devices to build for.")
    hardware_compatibility: Literal["None", "SameComputeCapability", "AmperePlus"] = Field(
        default="None",
        description="Let an engine run on more devices than its own, at some cost in speed. None: exactly the target.",
    )
    optimization_level: Annotated[int, Field(ge=0, le=5)] = Field(
        default=3, description="TensorRT builder optimization level, 0 (fastest build) to 5. Example: 3."
    )
    workspace_mi_b: Annotated[int, Field(ge=1, le=1_048_576)] | None = Field(
        default=None,
        alias="workspaceMiB",
        description="Upper bound of the compiler's workspace, in MiB. Absent: bounded by the slice. Example: 2048.",
    )
    timeout_seconds: Annotated[int, Field(ge=10, le=86_400)] = Field(
        default=3600, description="A build that runs longer fails with BuildTimeout, in seconds. Example: 3600."
    )
    backoff_limit: Annotated[int, Field(ge=0, le=10)] = Field(
        default=2, description="Further tries of a build that failed for a passing reason. Example: 2."
    )
    retain_revisions: Annotated[int, Field(ge=1, le=20)] = Field(
        default=3,
        description="Engines of this many revisions are kept in the store; this version removes none. Example: 3.",
    )
    retention: Literal["Retain", "Delete"] = Field(
        default="Retain", description="What happens to stored engines when the model is deleted."
    )


class Accelerator(APIType):
    """The kind of device every replica serves on."""

    model_config = ruled(
        (
            "(self.mode == 'MIG') == has(self.profile)",
            "mode MIG needs profile (for example 1g.10gb, or Auto), and only mode MIG has one",
        ),
        (
            "!has(self.profile) || self.profile.matches('^([1-7]g[.][1-9][0-9]*gb([+-]me([.]all)?|[+]gfx)?|Auto)$')",
            "profile is a MIG profile such as 1g.10gb or 1g.10gb+me, or Auto for the smallest that fits",
        ),
    )

    mode: Literal["GPU", "MIG", "CPU"] = Field(
        description="GPU: one whole GPU per replica. MIG: one MIG instance per replica. CPU: no accelerator."
    )
    profile: Annotated[str, Field(max_length=32)] | None = Field(
        default=None,
        description="MIG profile, or Auto for the smallest that fits. Only with mode MIG. Example: 1g.18gb.",
    )
