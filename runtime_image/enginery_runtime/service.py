"""What is served, apart from any protocol: the model's name, its state, its documents, and the way to its queue.

Both front ends hold one and only translate; documents are plain dicts in the protocol's field names, so REST sends
them as they are and gRPC parses them into its messages.
"""

from importlib.metadata import version

from enginery_store.manifest import EngineManifest, TensorSpec
from enginery_store.requests import Batching, ModelRef

from enginery_runtime.errors import NotFoundError, UnavailableError
from enginery_runtime.infer import InferRequest, ModelShape
from enginery_runtime.lifecycle import Lifecycle, Phase
from enginery_runtime.limits import Budget
from enginery_runtime.scheduler import Scheduler
from enginery_runtime.statistics import Statistics

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")
"""Extensions of the protocol that work here, by the names clients look for."""

_PLATFORMS = {"ONNXRuntime": "onnxruntime_onnx", "TensorRT": "tensorrt_plan", "TensorRTRTX": "tensorrt_plan"}
"""Backends in the words clients know from Triton."""

_CONFIG_TYPES = {"BYTES": "STRING"}
"""Where the configuration's enumeration has another word than the protocol."""


class InferenceService:
    """One model, from before it is loaded until the process ends."""

    def __init__(self, model: ModelRef, batching: Batching, budget: Budget) -> None:
        """The model is served under its own name; its version is the revision."""
        self.name = model.name
        self.version = model.revision
        self.batching = batching
        self.budget = budget
        self.lifecycle = Lifecycle()
        self.statistics = Statistics()
        self.manifest: EngineManifest | None = None
        self._scheduler: Scheduler | None = None

    def serve(self, manifest: EngineManifest, scheduler: Scheduler) -> None:
        """The engine is warm: turn ready."""
        self.manifest = manifest
        self._scheduler = scheduler
        self.lifecycle.enter(Phase.READY)

    def require(self, name: str, model_version: str = "") -> None:
        """Raise NotFoundError unless this is the model, and its version when one is named."""
        if name != self.name:
            raise NotFoundError(f"model {name!r} is unknown; this server has {self.name!r}")
        if model_version not in ("", self.version):
            raise NotFoundError(f"version {model_version!r} of {name!r} is unknown; this server has {self.version!r}")

    @property
    def scheduler(self) -> Scheduler:
        """The queue; raises UnavailableError unless requests are served now."""
        if self._scheduler is None or not self.lifecycle.serves:
            raise UnavailableError(f"not ready: {self.lifecycle.phase.value}")
        return self._scheduler

    @property
    def shape(self) -> ModelShape:
        """What requests must look like; raises UnavailableError unless requests are served now."""
        return self.scheduler.shape

    def cancel(self, request: InferRequest) -> None:
        """Drop a request whose client is gone, in whichever phase."""
        if self._scheduler is not None:
            self._scheduler.cancel(request)

    @property
    def pending(self) -> tuple[int, int]:
        """Requests and rows that wait or run."""
        scheduler = self._scheduler
        return (scheduler.pending_requests, scheduler.pending_rows) if scheduler else (0, 0)

    def server_document(self) -> dict[str, object]:
        """Server metadata."""
        return {"name": "enginery", "version": version("enginery"), "extensions": list(EXTENSIONS)}

    def model_document(self) -> dict[str, object]:
        """Model metadata; shapes are those infer accepts, -1 where a size is free."""
        manifest = self._loaded()
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": _PLATFORMS[manifest.backend],
            "inputs": [_tensor(spec) for spec in manifest.inputs],
            "outputs": [_tensor(spec) for spec in manifest.outputs],
        }

    def config_document(self) -> dict[str, object]:
        """Model configuration as Triton has it: with a batch size, dims leave the leading dimension out."""
        manifest, shape = self._loaded(), self.shape
        skip = 1 if shape.batches else 0
        config: dict[str, object] = {
            "name": self.name,
            "platform": _PLATFORMS[manifest.backend],
            "backend": manifest.backend.lower(),
            "max_batch_size": shape.max_rows if shape.batches else 0,
            "input": [_config_tensor(spec, skip) for spec in manifest.inputs],
            "output": [_config_tensor(spec, skip) for spec in manifest.outputs],
        }
        if shape.batches:
            config["dynamic_batching"] = {
                "preferred_batch_size": self.batching.preferred_batch_sizes,
                "max_queue_delay_microseconds": self.batching.max_queue_delay_microseconds,
            }
        return config

    def statistics_document(self) -> dict[str, object]:
        """Statistics of the one model."""
        return {"model_stats": [self.statistics.document(self.name, self.version)]}

    def index_document(self, *, ready_only: bool) -> list[dict[str, str]]:
        """The repository's index: one model, and why it is not ready if it is not."""
        ready = self.lifecycle.ready
        if ready_only and not ready:
            return []
        state = "READY" if ready else "LOADING" if self.lifecycle.phase is Phase.LOADING else "UNAVAILABLE"
        reason = "" if ready else self.lifecycle.phase.value
        return [{"name": self.name, "version": self.version, "state": state, "reason": reason}]

    def _loaded(self) -> EngineManifest:
        if self.manifest is None:
            raise UnavailableError(f"not ready: {self.lifecycle.phase.value}")
        return self.manifest


def _tensor(spec: TensorSpec) -> dict[str, object]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}


def _config_tensor(spec: TensorSpec, skip: int) -> dict[str, object]:
    datatype = _CONFIG_TYPES.get(spec.datatype, spec.datatype)
    return {"name": spec.name, "data_type": f"TYPE_{datatype}", "dims": spec.shape[skip:]}
