"""The documents beside stored artifacts: what a prepared model and an engine are. Written by the builder, read by all.

They are versioned; a reader refuses a version it does not know. Numbers that are not whole are decimal strings, so
that the bytes that were signed read the same everywhere.
"""

from datetime import datetime
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from enginery_store.errors import DocumentError


class Document(BaseModel):
    """Base of every stored or passed document: frozen, camelCase on the wire, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    def to_json(self) -> bytes:
        """The document as indented UTF-8 JSON, the bytes that are stored and signed."""
        return self.model_dump_json(by_alias=True, indent=2).encode()


D = TypeVar("D", bound=Document)


def parse_document(kind: type[D], data: bytes | str) -> D:
    """Read a document; raises DocumentError that names the fields at fault."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'document'}: {item['msg']}" for item in error.errors())
        raise DocumentError(f"not a valid {kind.__name__}: {faults}") from None


class Target(Document):
    """What an engine is compiled for. CPU targets have only an architecture, GPU targets everything else."""

    accelerator: Literal["CPU", "GPU", "MIG"]
    architecture: str = ""
    """CPU architecture as Kubernetes writes it (amd64, arm64); empty for a GPU."""
    compute_capability: str = ""
    """For example 9.0."""
    product: str = ""
    """GPU product as GPU Feature Discovery labels it, for example NVIDIA-H100-80GB-HBM3."""
    mig_profile: str = ""
    """For example 1g.10gb; empty for a whole GPU."""

    @property
    def name(self) -> str:
        """Lower-case name for status and logs: cpu-amd64, sm90-nvidia-h200, sm90-nvidia-h200-1g.18gb."""
        if self.accelerator == "CPU":
            return f"cpu-{self.architecture}"
        parts = [f"sm{self.compute_capability.replace('.', '')}", self.product.lower(), self.mig_profile]
        return "-".join(part for part in parts if part)


class TensorSpec(Document):
    """One input or output of a model."""

    name: str
    datatype: str
    """As the Open Inference Protocol writes it: BOOL, INT8 ... UINT64, FP16, FP32, FP64, BF16, BYTES."""
    shape: list[int]
    """-1 where the size is free."""


class InputRange(Document):
    """Sizes of one input within a profile, one number per dimension; the values of an input that holds sizes."""

    name: str
    min: list[int]
    opt: list[int]
    max: list[int]


class ShapeProfile(Document):
    """One optimisation profile: a range of shapes for every input that has free dimensions."""

    name: str
    inputs: list[InputRange]


class StoredFile(Document):
    """One blob beside a manifest; `name` is relative to the manifest's folder."""

    name: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int


class CalibrationRecord(Document):
    """What the scales of a quantized model were measured on."""

    method: Literal["MinMax", "Entropy", "Percentile"]
    samples: int
    data_digest: str
    distance: str = ""
    """How far calibration data lie from evaluation data: 0 for the same distribution, 1 for nothing in common, as a
    decimal string; empty where no evaluation data were given."""


class PreparedManifest(Document):
    """`source.json` and `manifest.json` of a prepared model: what compilation starts from."""

    kind: Literal["PreparedModel"] = "PreparedModel"
    version: Literal["v1"] = "v1"
    key: str
    source_digest: str
    source_size_bytes: int
    source_format: str
    precision: str
    """What the graph holds now: FP32, FP16, BF16, INT8 (Q/DQ), FP8 (Q/DQ)."""
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    shape_inputs: list[str] = Field(default_factory=list)
    """Inputs whose values are sizes: profiles hold ranges of their values."""
    files: list[StoredFile]
    """The model first, then external data, named as the model refers to it."""
    reference_files: list[StoredFile] = Field(default_factory=list)
    """The FP32 model that engines are compared with, then its external data; empty where `files` are it."""
    opset: int
    calibration: CalibrationRecord | None = None
    kept_nodes: list[str] = Field(default_factory=list)
    """Nodes that stay in FP32 because their activations leave the range of the precision asked for."""
    tool_versions: dict[str, str]
    created_at: datetime

    @property
    def all_files(self) -> list[StoredFile]:
        """Every blob that must be there."""
        return [*self.files, *self.reference_files]


class BuildOptions(Document):
    """Builder options that change the engine, hence part of its key."""

    optimization_level: int = 3
    workspace_mib: int | None = None
    hardware_compatibility: str = "None"


class LatencyRecord(Document):
    """Measured on the device the engine was built on, without network and queue."""

    profile: str
    batch: int
    p50_microseconds: int
    p99_microseconds: int
    items_per_second: str


class AccuracyRecord(Document):
    """The engine's outputs against the FP32 reference, measured in the same Job on the same data."""

    metric: Literal["Top1", "Top5", "CosineSimilarity", "MaxAbsError", "MeanAbsError"]
    reference: str
    measured: str
    degradation: str
    """How much worse than the reference, 0 or more; compared with accuracyGate.maxDegradation."""
    samples: int
    data_digest: str
    """Digest of the evaluation data; `synthetic` where generated inputs stood in for it."""
    measured_on: Literal["Device", "Reference"] = "Device"
    """Device: the engine itself ran. Reference: it was compiled ahead of time where it cannot run, so the prepared
    model ran in ONNX Runtime in its place."""


class DeviceFacts(Document):
    """The device an engine was built on, and the one a runtime finds itself on."""

    name: str
    architecture: str
    compute_capability: str = ""
    """For example 9.0; empty for a CPU."""
    driver_version: str = ""
    multiprocessors: int = 0
    memory_bytes: int = 0


class EngineManifest(Document):
    """`manifest.json` of an engine. Written after its blobs; the signature beside it covers these bytes."""

    kind: Literal["Engine"] = "Engine"
    version: Literal["v1"] = "v1"
    key: str
    prepared_key: str
    source_digest: str
    target: Target
    backend: Literal["TensorRT", "TensorRTRTX", "ONNXRuntime"]
    backend_version: str
    file: StoredFile
    """The engine itself. Its name differs between builds of one key, so that they never overwrite each other."""
    extra_files: list[StoredFile] = Field(default_factory=list)
    """Files that the engine refers to by name (weights above one protobuf's limit); they belong beside it."""
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    shape_inputs: list[str] = Field(default_factory=list)
    """Inputs whose values are sizes: profiles hold ranges of their values."""
    profiles: list[ShapeProfile]
    options: BuildOptions
    precision_requested: str
    precision_effective: str
    layers: dict[str, int] = Field(default_factory=dict)
    """Layers of the engine by the precision they compute in, as its inspector tells; empty where none tells."""
    accuracy: AccuracyRecord
    latency: list[LatencyRecord]
    """Empty for an engine that was compiled ahead of time."""
    device: DeviceFacts
    device_memory_bytes: int
    """Memory the engine takes when loaded: device memory for a GPU, growth of the process for a CPU."""
    build_seconds: int
    build_peak_memory_bytes: int = 0
    """Most resident memory of the builder process."""
    timing_cache: Literal["Unused", "Cold", "Warm"] = "Unused"
    """Whether the compiler found timings of earlier builds for this kind of slice."""
    builder_version: str
    created_at: datetime

    @property
    def all_files(self) -> list[StoredFile]:
        """Every blob that must be there."""
        return [self.file, *self.extra_files]
