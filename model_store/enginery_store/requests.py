"""The orders the operator gives and the words that come back: requests, outcomes, exit codes, termination messages.

The operator renders a request as JSON into the environment variable `ENGINERY_REQUEST` of a Job or Deployment; the
builder answers with a termination message and, where the answer must outlive its Job, a stored outcome.
"""

from datetime import datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from enginery_store.manifest import BuildOptions, CalibrationRecord, Document, ShapeProfile, StoredFile, Target
from enginery_store.reasons import FINAL_REASONS, Reason

REQUEST_VARIABLE = "ENGINERY_REQUEST"
"""Environment variable that holds the request document as JSON."""

STORE_CREDENTIALS_FOLDER = PurePosixPath("/var/run/secrets/enginery/store")
"""Where the tenant's builder or runtime Secret is mounted: one file per key, named as boto3 reads them, and ca.crt."""

SOURCE_CREDENTIALS_FOLDER = PurePosixPath("/var/run/secrets/enginery/source")
"""Where spec.source.credentialsSecretRef is mounted; absent when the model names none."""

SIGNING_KEY_NAME = "signing.key"
"""Key of the builder Secret with the Ed25519 private key (PEM) that signs manifests."""

OVERFLOW_SAMPLES = 128
"""Samples of the gate's data that show which activations leave the range of FP16."""

TERMINATION_LIMIT_BYTES = 4096
"""The kubelet keeps no more of a termination message."""

SOURCE_FOLDER = "source"
"""Below the work folder: what `fetch` brought, read by `convert`. See enginery_converter for who may write what."""

SOURCE_FILES_NAME = "source.json"
"""Below the work folder, out of the converter's reach: SourceFiles."""

CONVERTED_FOLDER = "converted"
"""Below the work folder: the ONNX model that `convert` made, and its Conversion."""

CONVERSION_NAME = "converted.json"
"""Below CONVERTED_FOLDER: Conversion."""

EXIT_CODES: dict[Reason, int] = {
    Reason.INVALID_SPEC: 10,
    Reason.SOURCE_INVALID: 11,
    Reason.BUILD_OUT_OF_MEMORY: 12,
    Reason.SOURCE_NOT_FOUND: 13,
    Reason.ACCESS_DENIED: 14,
    Reason.DIGEST_MISMATCH: 15,
    Reason.UNSUPPORTED_FORMAT: 16,
    Reason.UNSUPPORTED_OPERATOR: 17,
    Reason.INVALID_SHAPES: 18,
    Reason.SOURCE_TOO_LARGE: 19,
    Reason.CONVERSION_FAILED: 20,
    Reason.SIGNATURE_MISSING: 21,
    Reason.SIGNATURE_INVALID: 22,
    Reason.EVALUATION_DATA_INVALID: 23,
    Reason.EVALUATION_FAILED: 24,
    Reason.BUILD_FAILED: 25,
    Reason.BUILD_TIMEOUT: 26,
    Reason.CONFIG_ERROR: 27,
    Reason.CALIBRATION_DATA_NOT_FOUND: 28,
    Reason.TOO_FEW_SAMPLES: 29,
    Reason.CALIBRATION_DATA_INVALID: 30,
    Reason.CALIBRATION_FAILED: 31,
    Reason.ENGINE_VERIFICATION_FAILED: 32,
    Reason.ENGINE_DEVICE_MISMATCH: 33,
    Reason.ENGINE_LOAD_FAILED: 34,
    Reason.PRECISION_NOT_SUPPORTED_BY_HARDWARE: 35,
    Reason.STORE_UNAVAILABLE: 50,
    Reason.STORE_TLS_FAILED: 51,
    Reason.DEVICE_UNAVAILABLE: 52,
}
"""Exit code of a program that ends with a reason. 10-49: final, the Job fails at once. 50-69: passing, counted."""

FINAL_EXIT_CODES = sorted(code for reason, code in EXIT_CODES.items() if reason in FINAL_REASONS)
"""Codes on which podFailurePolicy fails the Job without another try."""


class StoreAccess(Document):
    """How to reach an S3 endpoint; credentials are never part of it."""

    endpoint: str = ""
    """URL of an S3-compatible endpoint; empty for the SDK's own choice (AWS)."""
    region: str = "us-east-1"
    addressing: Literal["Auto", "Path", "Virtual"] = "Auto"
    """Auto: path style for a custom endpoint, the SDK's choice otherwise."""
    checksums: Literal["WhenRequired", "WhenSupported"] = "WhenRequired"
    """Whether the SDK adds checksum headers by itself; many S3-compatible stores refuse them."""
    ca_bundle: str = ""
    """PEM certificates (the text itself) of the CAs that sign the endpoint's certificate; empty for the system's."""


class ModelRef(Document):
    """Whom the work is for: in logs and metrics only, never in a key."""

    namespace: str
    name: str
    revision: str


class SourceRef(Document):
    """The part of spec.source the builder needs, and the listing the operator pinned."""

    uri: str
    format: Literal["ONNX", "TensorFlowSavedModel", "PyTorchExport", "HuggingFace"]
    task: str = ""
    digest: str = ""
    """`sha256:<hex>` the content must have; empty when the model pins none."""
    fingerprint: str = ""
    """What the operator saw of the listing; empty when it may not list the source. Differs: the source was replaced
    in between, and the request is asked again."""


class CalibrationRef(Document):
    """Real inputs that activations are measured on: for scales (INT8, FP8) and for overflow (FP16)."""

    uri: str
    samples: int
    evaluation_uri: str = ""
    """The accuracy gate's data: calibration data that look nothing like them are refused. Empty without a gate."""


class PrecisionRef(Document):
    """What precision the prepared model shall hold. Auto never gets here: the operator asks for one step at a time."""

    type: Literal["FP32", "FP16", "BF16", "INT8", "FP8"] = "FP32"
    prequantized: bool = False
    """The source carries its own Q/DQ nodes (INT8, FP8): they are checked, and nothing is calibrated."""
    rest: Literal["FP32", "FP16"] = "FP32"
    """Precision of what is not quantized (INT8, FP8): FP16 on GPUs, FP32 on CPUs."""
    calibration: CalibrationRef | None = None
    """INT8 and FP8: the calibration data. FP16: the gate's data; absent, generated inputs stand in. BF16 has FP32's
    range, so nothing is measured."""


class EvaluationRef(Document):
    """The data of spec.precision.accuracyGate."""

    uri: str
    metric: Literal["Top1", "Top5", "CosineSimilarity", "MaxAbsError", "MeanAbsError"]
    samples: int
    max_degradation: Decimal
    """For the log only: the operator decides."""


class PrepareRequest(Document):
    """Order for `enginery_builder prepare`: fetch, verify, convert, validate and publish a prepared model."""

    kind: Literal["Prepare"] = "Prepare"
    version: Literal["v1"] = "v1"
    key: str
    """Request key; the outcome is stored under it."""
    model: ModelRef
    store: StoreAccess
    source_store: StoreAccess
    """How to reach the source: a Secret with AWS_ENDPOINT_URL_S3, AWS_REGION or ca.crt overrides it."""
    prefix: str
    source: SourceRef
    precision: PrecisionRef
    profiles: list[ShapeProfile]
    backends: list[Literal["TensorRT", "TensorRTRTX", "ONNXRuntime"]] = Field(default_factory=list)
    """What will compile the model: what these are known to refuse is refused here already, before a GPU is taken. Part
    of the request key, as profiles are. Empty: only what no backend takes is refused."""
    max_source_bytes: int
    """A larger source is refused before it is fetched (SourceTooLarge)."""
    timeout_seconds: int


class BuildRequest(Document):
    """Order for `enginery_builder build`: compile a prepared model for the device in hand, measure it and publish."""

    kind: Literal["Build"] = "Build"
    version: Literal["v1"] = "v1"
    key: str
    """Engine key to publish under."""
    model: ModelRef
    store: StoreAccess
    source_store: StoreAccess
    """How to reach evaluation data; the same rules as for the source."""
    prefix: str
    prepared_key: str
    backend: Literal["TensorRT", "TensorRTRTX", "ONNXRuntime"]
    backend_version: str
    """The exact version the engine key was computed with; a builder of another version refuses (ConfigError)."""
    target: Target
    precision: PrecisionRef
    profiles: list[ShapeProfile]
    options: BuildOptions
    evaluation: EvaluationRef | None = None
    timeout_seconds: int


class EngineRef(Document):
    """One engine a revision may serve with."""

    target: Target
    key: str


class Batching(Document):
    """spec.serving.batching, with Triton's meaning of each field."""

    max_batch_size: int = Field(default=1, ge=1)
    max_queue_delay_microseconds: int = 0
    preferred_batch_sizes: list[int] = Field(default_factory=list)
    queue_timeout_milliseconds: int = 0
    """0: a request waits until the server stops."""
    priority_levels: int = 1


class ServeRequest(Document):
    """Order for `enginery_runtime`: pick the engine for the device in hand, verify, load, warm up and serve."""

    kind: Literal["Serve"] = "Serve"
    version: Literal["v1"] = "v1"
    model: ModelRef
    store: StoreAccess
    prefix: str
    engines: list[EngineRef]
    public_keys: list[str]
    """PEM; a manifest must carry the signature of one of them. Empty: signatures are not required."""
    batching: Batching
    warmup_requests: int = 16
    protocols: tuple[Literal["REST", "GRPC"], ...] = ("REST", "GRPC")
    threads: int = 1
    """CPU threads of one inference; the pod's CPU request, rounded up."""


class Outcome(Document):
    """`requests/<key>.json`: what a prepare request led to, or why a build can never succeed. Outlives its Job."""

    kind: Literal["Outcome"] = "Outcome"
    version: Literal["v1"] = "v1"
    key: str
    reason: Reason
    message: str = ""
    """For a failure: what is wrong and what to write instead."""
    exit_code: int = 0
    prepared_key: str = ""
    source_digest: str = ""
    source_size_bytes: int = 0
    calibration: CalibrationRecord | None = None
    """What scales were measured on; absent where nothing was calibrated."""
    notes: list[str] = Field(default_factory=list)
    """Sentences for people about what was done to the model, such as the nodes that stay in FP32; at most eight."""
    builder_version: str = ""
    """Version of the builder that decided; a later one may do what this one refused."""
    finished_at: datetime

    @property
    def failed(self) -> bool:
        """Whether this outcome is a final failure."""
        return self.reason in FINAL_REASONS


class TerminationMessage(Document):
    """What a container leaves in its termination log; the operator reads it from the pod's status."""

    reason: Reason
    message: str
    retryable: bool

    def to_log(self) -> bytes:
        """The message as JSON, its text cut so that the whole fits the kubelet's limit."""
        text = self.message
        while len(encoded := self.model_copy(update={"message": text}).model_dump_json().encode()) > (
            TERMINATION_LIMIT_BYTES
        ):
            text = text[: len(text) * 3 // 4]
        return encoded


class SourceFiles(Document):
    """What `fetch` left for the containers after it."""

    kind: Literal["SourceFiles"] = "SourceFiles"
    version: Literal["v1"] = "v1"
    digest: str
    """`sha256:<hex>` over all of it, as identity.content_digest counts."""
    files: list[StoredFile]
    """Names below SOURCE_FOLDER."""


class Conversion(Document):
    """What `convert` left: how it made the ONNX model, or why the source cannot become one."""

    kind: Literal["Conversion"] = "Conversion"
    version: Literal["v1"] = "v1"
    tool_versions: dict[str, str] = Field(default_factory=dict)
    """Framework and exporter by distribution name."""
    warnings: list[str] = Field(default_factory=list)
    """Sentences for people about what the conversion did; at most eight."""
    refusal: TerminationMessage | None = None
    """Final, and about the source itself; there is no model then."""
