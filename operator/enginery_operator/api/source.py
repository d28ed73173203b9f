"""spec.source, spec.shapes and spec.objective: what the tenant brings and what it is asked for. Used by `v1alpha1`."""

from typing import Annotated, Literal

from pydantic import Field

from enginery_operator.api.schema import (
    ATOMIC_LIST,
    NO_HOST_RULE,
    S3_SCHEME_RULE,
    SCHEME_RULE,
    URI,
    APIType,
    Decimal,
    Digest,
    Dimension,
    Label,
    Name,
    map_list,
    ruled,
    rules,
)


class SecretReference(APIType):
    """A Secret of the model's own namespace."""

    name: Name = Field(description="Name of a Secret in the namespace of this InferenceModel. Example: s3-team-a.")


class SourceSignature(APIType):
    """A detached signature of the source."""

    uri: URI = Field(
        description="Object that holds the signature (base64 of an Ed25519 signature). Example:"
        " s3://models/team-a/resnet50/model.sig.",
        json_schema_extra=rules(S3_SCHEME_RULE, NO_HOST_RULE),
    )
    key_name: Label = Field(description="Which of the Tenant's policy.trustedKeys signed it. Example: team-a-key.")


class Source(APIType):
    """A trained model in object storage."""

    model_config = ruled(
        (
            "!has(self.task) || self.format == 'HuggingFace'",
            "task is for format HuggingFace only; remove task or set format: HuggingFace",
        ),
    )

    format: Literal["ONNX", "TensorFlowSavedModel", "PyTorchExport", "HuggingFace"] = Field(
        description="What the source holds: ONNX (a .onnx file, with external data beside it), TensorFlowSavedModel (a"
        " directory), PyTorchExport (a .pt2 file), HuggingFace (a directory with config.json and safetensors)."
        " Immutable.",
        json_schema_extra=rules(
            ("self == oldSelf", "format is immutable; create another InferenceModel for another format")
        ),
    )
    uri: URI = Field(
        description="An object, or a prefix that is read by path segments. Example:"
        " s3://models/team-a/resnet50/model.onnx, or pvc://claim/path.",
        json_schema_extra=rules(SCHEME_RULE, NO_HOST_RULE),
    )
    task: (
        Literal[
            "TextClassification",
            "TokenClassification",
            "FeatureExtraction",
            "ImageClassification",
            "ObjectDetection",
            "TextGeneration",
        ]
        | None
    ) = Field(
        default=None,
        description="Task the head of a HuggingFace model is made for. TextGeneration needs serving.server: VLLM."
        " Example: TextClassification.",
    )
    digest: Digest | None = Field(
        default=None,
        description="Digest the content must have; recorded in status.source.digest when absent. For a single file"
        " what sha256sum prints. Example: sha256:9f86d081...",
    )
    credentials_secret_ref: SecretReference | None = Field(
        default=None,
        description="Secret of this namespace that may read the source, with keys as boto3 reads them:"
        " AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, where needed, AWS_SESSION_TOKEN, AWS_REGION,"
        " AWS_ENDPOINT_URL_S3, ca.crt. Absent: the Tenant's builder credentials.",
    )
    signature: SourceSignature | None = Field(
        default=None, description="Signature of the source, verified before anything reads the model."
    )


class InputRange(APIType):
    """Sizes of one input, one number per dimension."""

    model_config = ruled(
        (
            "self.min.size() == self.opt.size() && self.opt.size() == self.max.size()",
            "min, opt and max must have the same number of dimensions",
        ),
        (
            (
                "[0,1,2,3,4,5,6,7].all(i, i >= self.min.size() || i >= self.opt.size() || i >= self.max.size() ||"
                " (self.min[i] <= self.opt[i] && self.opt[i] <= self.max[i]))"
            ),
            "every dimension needs min <= opt <= max",
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="Name of the input in the model. Example: input_ids."
    )
    min: Annotated[list[Dimension], Field(max_length=8)] = Field(
        description="Smallest size of each dimension. Example: [1, 3, 224, 224].", json_schema_extra=ATOMIC_LIST
    )
    opt: Annotated[list[Dimension], Field(max_length=8)] = Field(
        description="Size the engine is tuned for. Example: [8, 3, 224, 224].", json_schema_extra=ATOMIC_LIST
    )
    max: Annotated[list[Dimension], Field(max_length=8)] = Field(
        description="Largest size of each dimension. Example: [32, 3, 224, 224].", json_schema_extra=ATOMIC_LIST
    )


class ShapeProfile(APIType):
    """An optimisation profile: one range for every input that has free dimensions."""

    name: Label = Field(description="Name of the profile in status and logs. Example: default.")
    inputs: Annotated[list[InputRange], Field(min_length=1, max_length=16)] = Field(
        description="One range per input.", json_schema_extra=map_list("name")
    )


class FromTraffic(APIType):
    """Profiles derived from the sizes of real requests."""

    mode: Literal["Off", "Propose", "Apply"] = Field(
        default="Off",
        description="Off; Propose: profiles are proposed in status; Apply: a new revision is made when the"
        " distribution of request sizes moved.",
    )


class Shapes(APIType):
    """The sizes the engine must serve."""

    model_config = ruled(
        (
            (
                "!has(self.profiles) || self.profiles.all(p, p.inputs.size() == self.profiles[0].inputs.size() &&"
                " p.inputs.all(i, self.profiles[0].inputs.exists(j, j.name == i.name)))"
            ),
            "all profiles must name the same inputs",
        ),
    )

    profiles: Annotated[list[ShapeProfile], Field(min_length=1, max_length=8)] | None = Field(
        default=None,
        description="1 to 8 optimisation profiles. Absent: taken from the model where its shapes are fixed.",
        json_schema_extra=map_list("name"),
    )
    from_traffic: FromTraffic = Field(
        default_factory=FromTraffic, description="Derive profiles from the sizes of real requests."
    )


class LatencyObjective(APIType):
    """A bound on a latency percentile, in milliseconds."""

    percentile: Annotated[int, Field(ge=1, le=99)] = Field(default=99, description="Percentile bounded. Example: 99.")
    value: Decimal = Field(description="Milliseconds, as a decimal string. Example: '10'.")


class Objective(APIType):
    """What precision Auto aims for."""

    latency_milliseconds: LatencyObjective = Field(description="Latency that the engine shall hold.")
    batch_size: Annotated[int, Field(ge=1, le=65536)] = Field(
        default=1, description="Batch size at which the latency counts. Example: 8."
    )
