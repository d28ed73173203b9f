"""status of an InferenceModel and of a Tenant. Written by `status.py` of the operator and by nobody else."""

from typing import Annotated, Literal

from pydantic import Field

from enginery_operator.api.schema import APIType, Message, Text, map_list

Optional = Text | None


class Condition(APIType):
    """A standard Kubernetes condition."""

    type: Annotated[str, Field(max_length=64)] = Field(description="Name of the condition. Example: Ready.")
    status: Literal["True", "False", "Unknown"] = Field(
        description="True, False, or Unknown while it is not decided or trouble passes by itself."
    )
    observed_generation: Annotated[int, Field(ge=0)] = Field(
        default=0, description="metadata.generation this condition was computed for."
    )
    last_transition_time: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})] = Field(
        description="When status last changed (RFC 3339)."
    )
    reason: Annotated[str, Field(max_length=64, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")] = Field(
        description="One CamelCase word for programs. Example: SourceNotFound."
    )
    message: Message = Field(description="A sentence for people; ends with what happens next.")


Conditions = Annotated[list[Condition], Field(max_length=16, json_schema_extra=map_list("type"))]


class Address(APIType):
    """One way to reach the model."""

    name: Annotated[str, Field(max_length=32)] = Field(description="REST, GRPC or Route.")
    url: Annotated[str, Field(max_length=512)] = Field(description="Where requests go.")


class SourceStatus(APIType):
    """The source the target revision is pinned to."""

    uri: Annotated[str, Field(max_length=1024)] | None = Field(default=None, description="spec.source.uri as pinned.")
    digest: Optional = Field(default=None, description="Digest of the content.")
    size_bytes: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Size of the content, in bytes.")
    fingerprint: Optional = Field(
        default=None, description="Digest over names, sizes and ETags of the listing, noticed when the source changes."
    )
    pinned_at: Optional = Field(default=None, description="When the listing was pinned (RFC 3339).")


class Traffic(APIType):
    """Share of requests of one revision."""

    revision: Text = Field(description="Name of the revision.")
    percent: Annotated[int, Field(ge=0, le=100)] = Field(description="Percent of requests.")


class PrecisionTry(APIType):
    """One precision that was tried."""

    type: Text = Field(description="Precision tried.")
    p99_milliseconds: Optional = Field(
        default=None,
        description="Latency of the slowest target at objective.batchSize, in milliseconds: p99, or the median where"
        " the objective bounds a percentile up to 50. Example: '14.2'.",
    )
    accepted: bool = Field(description="Whether it serves.")
    reason: Optional = Field(
        default=None,
        description="Chosen, ObjectiveMissed, NotMeasured (compiled ahead of time), or the reason of the failure that"
        " rules it out, such as BelowThreshold.",
    )


class PrecisionStatus(APIType):
    """The precision engines really have."""

    effective: Optional = Field(default=None, description="Precision found in the engine.")
    tried: Annotated[list[PrecisionTry], Field(max_length=8)] | None = Field(
        default=None,
        description="What precision Auto tried.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class AccuracyStatus(APIType):
    """Accuracy of the target revision's engines; the worst target's."""

    metric: Text = Field(description="What was measured.")
    reference: Text = Field(description="Value of the FP32 reference, as a decimal string.")
    measured: Text = Field(description="Value of the engine, as a decimal string.")
    degradation: Text = Field(description="Loss against the reference, as a decimal string.")
    samples: Annotated[int, Field(ge=0)] = Field(description="Samples evaluated.")
    data_digest: Text = Field(description="Digest of the evaluation data; synthetic where inputs were generated.")


class LatencyStatus(APIType):
    """Latency measured on the device when the engine was built."""

    batch: Annotated[int, Field(ge=1)] = Field(description="Items per inference.")
    p50_microseconds: Annotated[int, Field(ge=0)] = Field(description="Median, in microseconds.")
    p99_microseconds: Annotated[int, Field(ge=0)] = Field(description="99th percentile, in microseconds.")
    items_per_second: Text = Field(description="Throughput, as a decimal string.")


class LastFailure(APIType):
    """Why the last build of a target failed."""

    reason: Text = Field(description="One word. Example: BuildOutOfMemory.")
    message: Message = Field(description="A sentence.")
    exit_code: Annotated[int, Field(ge=0, le=255)] | None = Field(default=None, description="Exit code of the builder.")
    time: Optional = Field(default=None, description="When (RFC 3339).")
    attempts: Annotated[int, Field(ge=0)] = Field(default=1, description="Jobs tried so far.")


class EngineStatus(APIType):
    """One target and its engine."""

    target: Annotated[str, Field(max_length=128)] = Field(description="Name of the target. Example: cpu-amd64.")
    state: Literal["Pending", "Building", "Ready", "Failed", "Stale"] = Field(description="Where the engine is.")
    key: Optional = Field(default=None, description="Engine key.")
    digest: Optional = Field(default=None, description="sha256 of the engine file.")
    signature: Literal["Verified", "Unsigned"] | None = Field(
        default=None, description="Whether the manifest carries a trusted signature."
    )
    backend_version: Optional = Field(default=None, description="Compiler and version.")
    driver_version: Optional = Field(default=None, description="GPU driver it was built with.")
    multiprocessors: Annotated[int, Field(ge=0)] | None = Field(default=None, description="SMs of the device.")
    size_bytes: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Size of the engine file.")
    device_memory_bytes: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Memory when loaded.")
    build_seconds: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Time the build took.")
    latency: Annotated[list[LatencyStatus], Field(max_length=16)] | None = Field(
        default=None,
        description="Measured when built.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    last_failure: LastFailure | None = Field(default=None, description="Why the last build failed.")


class InferenceModelStatus(APIType):
    """What is true now, and why."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="metadata.generation that every condition was written for."
    )
    replicas: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Replicas that exist.")
    ready_replicas: Annotated[int, Field(ge=0)] | None = Field(default=None, description="Replicas that answer.")
    selector: Optional = Field(default=None, description="Label selector of the replicas, for autoscalers.")
    url: Annotated[str, Field(max_length=512)] | None = Field(default=None, description="Where to send requests.")
    addresses: Annotated[list[Address], Field(max_length=8, json_schema_extra=map_list("name"))] | None = Field(
        default=None, description="Every way to reach the model."
    )
    source: SourceStatus | None = Field(default=None, description="The source that is pinned.")
    current_revision: Optional = Field(default=None, description="Revision that serves.")
    target_revision: Optional = Field(default=None, description="Revision that the spec asks for.")
    traffic: Annotated[list[Traffic], Field(max_length=4, json_schema_extra=map_list("revision"))] | None = Field(
        default=None, description="Share of requests by revision."
    )
    precision: PrecisionStatus | None = Field(default=None, description="Precision of the engines.")
    accuracy: AccuracyStatus | None = Field(default=None, description="Measured accuracy.")
    engine_summary: Optional = Field(default=None, description="Engines ready of engines needed. Example: 2/3.")
    accelerator_summary: Optional = Field(default=None, description="Example: mig-1g.18gb.")
    engines: Annotated[list[EngineStatus], Field(max_length=32, json_schema_extra=map_list("target"))] | None = Field(
        default=None, description="One entry per target."
    )
    conditions: Conditions | None = Field(default=None, description="Conditions; Ready sums them up.")


class TenantModels(APIType):
    """Models of a tenant."""

    total: Annotated[int, Field(ge=0)] = Field(default=0, description="Models that exist.")
    ready: Annotated[int, Field(ge=0)] = Field(default=0, description="Models that are Ready.")


class TenantBuilds(APIType):
    """Builds of a tenant."""

    running: Annotated[int, Field(ge=0)] = Field(default=0, description="Builder Jobs at work.")
    queued: Annotated[int, Field(ge=0)] = Field(default=0, description="Builder Jobs that wait.")


class TenantUsage(APIType):
    """Use of one resource."""

    resource: Text = Field(description="Resource name. Example: nvidia.com/mig-1g.18gb.")
    max: Annotated[int, Field(ge=0)] = Field(description="Slices granted.")
    serving: Annotated[int, Field(ge=0)] = Field(default=0, description="Slices that serve.")
    building: Annotated[int, Field(ge=0)] = Field(default=0, description="Slices that build.")
    waiting: Annotated[int, Field(ge=0)] = Field(default=0, description="Slices that models wait for.")


class TenantDenial(APIType):
    """The last refusal."""

    model: Text = Field(description="namespace/name of the model.")
    resource: Text = Field(description="Resource that was asked for.")
    requested: Annotated[int, Field(ge=0)] = Field(description="How much was asked for.")
    free: Annotated[int, Field(ge=0)] = Field(description="How much was free.")
    time: Text = Field(description="When (RFC 3339).")


class TenantStatus(APIType):
    """What is true of a tenant."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="metadata.generation that every condition was written for."
    )
    namespaces: Annotated[list[Text], Field(max_length=64)] | None = Field(
        default=None,
        description="Namespaces bound to this tenant.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    models: TenantModels | None = Field(default=None, description="Models of the tenant.")
    builds: TenantBuilds | None = Field(default=None, description="Builds of the tenant.")
    usage: Annotated[list[TenantUsage], Field(max_length=32, json_schema_extra=map_list("resource"))] | None = Field(
        default=None, description="Use of each resource."
    )
    store_bytes: Optional = Field(default=None, description="Size of the tenant's prefix. Example: 61Gi.")
    last_denial: TenantDenial | None = Field(default=None, description="The last refusal.")
    conditions: Conditions | None = Field(default=None, description="Conditions; Ready sums them up.")
