"""spec.serving, spec.route and spec.rollout: how requests are answered and how versions change. Used by `v1alpha1`."""

from typing import Annotated, Literal

from pydantic import Field

from enginery_operator.api.schema import ATOMIC_LIST, SET_LIST, APIType, Label, Name, Quantity, map_list, ruled


class ScalingMetric(APIType):
    """What an autoscaler looks at."""

    type: Literal["QueueDepth", "Concurrency", "CPU"] = Field(
        description="QueueDepth: waiting requests per replica. Concurrency: requests in work per replica. CPU: percent"
        " of the CPU request."
    )
    target: Annotated[int, Field(ge=1, le=100_000)] = Field(
        description="Value per replica the autoscaler aims for. Example: 8."
    )


class Scaling(APIType):
    """Bounds and metrics of autoscaling."""

    model_config = ruled(("self.minReplicas <= self.maxReplicas", "minReplicas must be at most maxReplicas"))

    min_replicas: Annotated[int, Field(ge=0, le=1000)] = Field(default=1, description="Least replicas. Example: 1.")
    max_replicas: Annotated[int, Field(ge=1, le=1000)] = Field(description="Most replicas. Example: 4.")
    metrics: Annotated[list[ScalingMetric], Field(min_length=1, max_length=3)] = Field(
        description="Metrics; the one that asks for most replicas wins.", json_schema_extra=map_list("type")
    )


class Batching(APIType):
    """Dynamic batching, with Triton's names."""

    max_batch_size: Annotated[int, Field(ge=1, le=65_536)] = Field(
        default=1, description="Most items in one inference; at most the largest profile's max. Example: 32."
    )
    max_queue_delay_microseconds: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        default=0, description="Longest wait for a batch to fill, in microseconds. Example: 500."
    )
    preferred_batch_sizes: Annotated[list[Annotated[int, Field(ge=1, le=65_536)]], Field(max_length=16)] | None = Field(
        default=None, description="Batch sizes to prefer. Example: [8, 16, 32].", json_schema_extra=SET_LIST
    )
    queue_timeout_milliseconds: Annotated[int, Field(ge=0, le=3_600_000)] = Field(
        default=0, description="A request that waited longer is refused, in milliseconds; 0: never. Example: 1000."
    )
    priority_levels: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1, description="Number of priority levels requests may name. Example: 1."
    )


class CUDAGraphs(APIType):
    """Captured launches for small batches."""

    mode: Literal["Auto", "Off"] = Field(default="Auto", description="Auto: capture where it is faster. Off: never.")
    batch_sizes: Annotated[list[Annotated[int, Field(ge=1, le=65_536)]], Field(max_length=16)] | None = Field(
        default=None, description="Batch sizes to capture. Example: [1, 8, 32].", json_schema_extra=SET_LIST
    )


class Warmup(APIType):
    """Inferences before a replica turns ready."""

    requests: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=16, description="Inferences run before a replica turns ready. Example: 16."
    )


_NO_GPU = (
    "!{0}.exists(k, k.startsWith('nvidia.com/') || k.startsWith('amd.com/') || k.startsWith('gpu.intel.com/'))",
    "accelerators are asked for in spec.accelerator only; remove them from resources",
)


class Resources(APIType):
    """CPU and memory of a replica."""

    model_config = ruled(
        (f"!has(self.requests) || {_NO_GPU[0].format('self.requests')}", _NO_GPU[1]),
        (f"!has(self.limits) || {_NO_GPU[0].format('self.limits')}", _NO_GPU[1]),
        (
            (
                "!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) ||"
                " quantity(self.requests[k]).compareTo(quantity(self.limits[k])) <= 0)"
            ),
            "requests must be at most limits; lower the request or raise the limit",
        ),
    )

    requests: Annotated[dict[str, Quantity], Field(max_length=8)] | None = Field(
        default=None, description="Requests by resource. Example: {cpu: '2', memory: 4Gi}."
    )
    limits: Annotated[dict[str, Quantity], Field(max_length=8)] | None = Field(
        default=None,
        description="Limits by resource. Absent: memory is limited to its request. Example: {memory: 4Gi}.",
    )


class VLLM(APIType):
    """Options of the vLLM server."""

    max_model_length: Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None, description="Longest sequence, in tokens. Example: 4096."
    )
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Most sequences at once. Example: 64."
    )
    gpu_memory_utilization_percent: Annotated[int, Field(ge=10, le=98)] = Field(
        default=90, description="Share of the slice's memory that vLLM takes, in percent. Example: 90."
    )
    dtype: Literal["auto", "half", "bfloat16", "float32"] = Field(
        default="auto", description="Number format vLLM computes in."
    )


class Serving(APIType):
    """How requests are answered."""

    model_config = ruled(
        ("!(has(self.replicas) && has(self.scaling))", "give replicas or scaling, not both"),
        ("!has(self.vllm) || self.server == 'VLLM'", "vllm options need server: VLLM"),
        ("self.placement != 'Pooled' || self.server == 'Native'", "placement Pooled needs server: Native"),
    )

    server: Literal["Native", "Triton", "VLLM"] = Field(
        default="Native",
        description="Native: Enginery's Open Inference Protocol server. Triton: the same engines in a Triton"
        " repository. VLLM: text generation.",
    )
    placement: Literal["Dedicated", "Pooled"] = Field(
        default="Dedicated",
        description="Dedicated: one slice per replica. Pooled: several models of the tenant share one slice.",
    )
    replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None, description="Replicas to keep; absent without scaling means 1. Example: 2."
    )
    scaling: Scaling | None = Field(default=None, description="Autoscaling, in place of replicas.")
    fallback: Literal["None", "ONNXRuntime"] = Field(
        default="None", description="ONNXRuntime: answer from ONNX Runtime on CPU while the engine is compiled."
    )
    batching: Batching | None = Field(default=None, description="Dynamic batching. Absent: one request at a time.")
    cuda_graphs: CUDAGraphs = Field(
        default_factory=CUDAGraphs, description="CUDA graphs: inferences recorded once and replayed."
    )
    protocols: Annotated[list[Literal["REST", "GRPC"]], Field(min_length=1, max_length=2)] = Field(
        default=["REST", "GRPC"], description="Protocols that are served.", json_schema_extra=SET_LIST
    )
    warmup: Warmup = Field(default_factory=Warmup, description="Warm-up before a replica turns ready.")
    resources: Resources | None = Field(
        default=None, description="CPU and memory of a replica. Absent: 1 CPU and 1Gi are requested."
    )
    vllm: VLLM | None = Field(default=None, description="Options of server VLLM.")


class Gateway(APIType):
    """A Gateway API Gateway."""

    name: Name = Field(description="Name of the Gateway. Example: public.")
    namespace: Label = Field(description="Its namespace. Example: gateways.")


class Route(APIType):
    """A public address through a Gateway."""

    gateway: Gateway = Field(description="Gateway the routes attach to.")
    hostname: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="Host name that requests carry. Example: resnet50.example.com."
    )


class CanaryStep(APIType):
    """One step of a canary."""

    weight: Annotated[int, Field(ge=1, le=99)] = Field(
        description="Percent of requests that the new revision gets. Example: 10."
    )
    pause_seconds: Annotated[int, Field(ge=0, le=86_400)] = Field(
        default=600, description="Time at this weight before the next step, in seconds. Example: 600."
    )


class Rollout(APIType):
    """How a new revision replaces the old one."""

    model_config = ruled(
        (
            "has(self.steps) == (self.strategy == 'Canary')",
            "strategy Canary needs steps, and only strategy Canary has them",
        ),
        (
            (
                "!has(self.steps) || [0,1,2,3,4,5,6,7,8].all(i, i + 1 >= self.steps.size() || self.steps[i].weight <"
                " self.steps[i + 1].weight)"
            ),
            "the weights of steps must rise",
        ),
    )

    strategy: Literal["RollingUpdate", "Recreate", "Canary"] = Field(
        default="RollingUpdate",
        description="RollingUpdate: the old revision serves until the new one does. Recreate: stop first. Canary: by"
        " weights.",
    )
    surge: Literal["Auto", "Never"] = Field(
        default="Auto", description="Auto: start new replicas beside the old ones where slices and quota allow."
    )
    steps: Annotated[list[CanaryStep], Field(min_length=1, max_length=10)] | None = Field(
        default=None, description="Steps of a canary, with rising weights.", json_schema_extra=ATOMIC_LIST
    )
    max_error_rate_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=1, description="A canary above this share of failed requests is rolled back, in percent. Example: 1."
    )
    progress_deadline_seconds: Annotated[int, Field(ge=30, le=86_400)] = Field(
        default=1800,
        description="A rollout that makes no progress for this long is reported, in seconds. Example: 1800.",
    )
