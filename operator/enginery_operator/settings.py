"""Settings of the operator: frozen, built once in `__main__`, passed down. Unknown keys are an error at start.

The chart's `config:` block is the file; `ENGINERY_CONFIG` names its path. Secrets never stand in it: the operator's
store credentials are a mounted folder.
"""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from enginery_store.requests import StoreAccess
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

CONFIG_VARIABLE = "ENGINERY_CONFIG"
"""Environment variable with the path of the settings file."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Converters(_Section):
    """Framework images that turn sources into ONNX; empty: the installation converts none of that framework."""

    tensorflow: str = Field(default="", alias="tensorFlow")
    """TensorFlowSavedModel."""
    pytorch: str = Field(default="", alias="pyTorch")
    """PyTorchExport and HuggingFace."""


class Images(_Section):
    """Images of the programs the operator starts; an empty one is not installed."""

    builder: str
    """Runs on CPUs: `prepare`, and `build` with ONNX Runtime and TensorRT-RTX."""
    builder_tensorrt: str = Field(default="", alias="builderTensorRT")
    runtime: str
    """Serves with ONNX Runtime."""
    runtime_tensorrt: str = Field(default="", alias="runtimeTensorRT")
    runtime_tensorrt_rtx: str = Field(default="", alias="runtimeTensorRTRTX")
    converters: Converters = Field(default_factory=Converters)
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    """Names of Secrets of the tenant's namespace."""


class Lease(_Section):
    """Leader election; a standby takes over within `duration_seconds` plus one retry after the active one vanished."""

    name: str = "enginery-operator"
    """Name of the Lease object, in the operator's namespace."""
    duration_seconds: int = 15
    """A holder that was silent for so long may be replaced."""
    renew_deadline_seconds: int = 10
    """A holder that could not renew for so long stops acting; below durationSeconds."""
    retry_seconds: int = 2
    """Pause between two tries to renew or to take it."""

    @model_validator(mode="after")
    def _leaves_time(self) -> Self:
        """Who cannot renew must have stopped before another may act."""
        if not self.renew_deadline_seconds < self.duration_seconds:
            raise ValueError("renewDeadlineSeconds must be below durationSeconds")
        if not self.retry_seconds < self.renew_deadline_seconds:
            raise ValueError("retrySeconds must be below renewDeadlineSeconds")
        return self


class Tenancy(_Section):
    """What holds for namespaces that no Tenant names."""

    required: bool = True
    """False: their models are served too, with the prefix below and the default Secret names."""
    default_prefix: str = ""
    """Such as s3://enginery/untenanted/; each namespace gets a folder of its own below it."""

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        """Models that are served need somewhere to keep their engines."""
        if not self.required and not self.default_prefix.startswith("s3://"):
            raise ValueError("defaultPrefix must be an s3:// prefix when required is false")
        return self


class Jobs(_Section):
    """How builder Jobs run."""

    ttl_seconds: Annotated[int, Field(ge=60)] = 7200
    """A finished Job is removed after this time; what it led to is in the store. Until then a failed one is what pauses
    between attempts are counted from, so it stays longer than the longest of them, an hour."""
    start_deadline_seconds: int = 600
    """A container that cannot start (image, configuration) for this long gives its pod's place back."""
    retry_base_seconds: int = 20
    """First pause before a Job that failed for a passing reason is asked again; doubles up to an hour."""
    recheck_seconds: int = 600
    """A final failure whose end nobody can notice (credentials, an unlistable source, calibration and evaluation data)
    is asked again so often."""
    source_poll_seconds: int = 60
    """A source that failed is listed again so often, to notice that it was replaced."""
    prepare_timeout_seconds: int = 1800
    """Each container of a prepare Job (fetch, convert, the builder) ends itself after this time."""
    max_source_bytes: int = 64 * 1024**3
    """A larger source is refused before it is fetched (SourceTooLarge)."""
    cpu_request: str = "500m"
    """CPU that each container of a builder Job requests."""
    cpu_limit: str = "2"
    """CPU that it may use; ONNX Runtime calibrates and measures with as many threads."""
    memory_request: str = "512Mi"
    """Memory that it requests."""
    memory_limit: str = "2Gi"
    """Memory that it may use: preparing, converting and compiling take a few times the model's size."""
    work_limit: str = "20Gi"
    """Size of the work folder (an emptyDir)."""


class Settings(_Section):
    """All settings."""

    namespace: str = Field(default_factory=lambda: os.environ.get("POD_NAMESPACE", "enginery-system"))
    watch_namespaces: tuple[str, ...] = ()
    """Empty: the whole cluster."""
    images: Images
    store: StoreAccess = Field(default_factory=StoreAccess)
    store_credentials_folder: Path = Path("/var/run/secrets/enginery/operator")
    """The operator's own read access to manifests and listings, mounted as files."""
    tenancy: Tenancy = Field(default_factory=Tenancy)
    jobs: Jobs = Field(default_factory=Jobs)
    lease: Lease = Field(default_factory=Lease)
    onnxruntime_version: str = "1.32.0"
    """Exact version inside the builder and runtime images; part of engine keys."""
    tensorrt_version: str = "10.14.1"
    """Exact version inside the TensorRT images; part of engine keys."""
    tensorrt_rtx_version: str = "1.7.1"
    """Exact version inside the builder and the TensorRT-RTX runtime image; part of engine keys."""
    resync_seconds: Annotated[int, Field(ge=5)] = 300
    """Every object is looked at again this often, whatever was watched."""
    workers: Annotated[int, Field(ge=1, le=64)] = 8
    """Models reconciled at once."""
    http_port: int = 8080
    """Metrics and health."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least level that is logged."""


def load() -> Settings:
    """Read the file that ENGINERY_CONFIG names; a missing file, unknown key or wrong value ends the start."""
    path = Path(os.environ.get(CONFIG_VARIABLE, "/etc/enginery/config.yaml"))
    return Settings.model_validate(yaml.safe_load(path.read_text()))
