"""ONNX Runtime as a backend for CPU targets, and as the FP32 reference of every backend. Reached through `backend`.

An engine is the model after ONNX Runtime's extended graph optimisations. The level above it (layout) ties the file to
the CPU's vector units, so it is left to the moment of loading.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort
from enginery_store.errors import EngineryError
from enginery_store.manifest import DeviceFacts, Target
from enginery_store.reasons import Reason

from enginery_builder.backend import Compiled, CompileOrder, OpenModel, Tensors, wrong_device
from enginery_builder.device import cpu_facts, usable_cpus
from enginery_builder.onnxruntime_errors import converted

# Whose model runs where is nobody else's business.
ort.disable_telemetry_events()

LOG = logging.getLogger(__name__)

INLINE_LIMIT_BYTES = 1_500_000_000
"""Above it weights stay in a file of their own: one protobuf message holds at most 2 GiB."""

_EXTERNAL_MINIMUM_BYTES = 1024
"""Of a large model only smaller tensors stay in its file. Of any other all do: without a setting ONNX Runtime would
keep pointing to the prepared model's external data, which do not lie beside the engine."""


class OnnxRuntimeModel:
    """One session on the CPU."""

    def __init__(self, session: "ort.InferenceSession", otherwise: Reason) -> None:
        """`otherwise` is the reason of failures that have no better one."""
        self._session = session
        self._otherwise = otherwise
        self._names = [output.name for output in session.get_outputs()]

    def run(self, feeds: Tensors) -> Tensors:
        """All outputs, by name."""
        try:
            return dict(zip(self._names, self._session.run(self._names, dict(feeds)), strict=True))
        except Exception as error:  # noqa: BLE001 - the library raises many types with no common base
            raise converted(error, self._otherwise) from None

    def device_memory_bytes(self) -> int:
        """It lives in the memory of the process."""
        return 0

    def output_shapes(self) -> Mapping[str, list[int]]:
        """As inferred when the session was made."""
        return {
            output.name: [dim if isinstance(dim, int) and dim > 0 else -1 for dim in output.shape]
            for output in self._session.get_outputs()
        }


class OnnxRuntimeBackend:
    """Compiles for the CPU architecture this process runs on."""

    def version(self) -> str:
        """Of the installed library."""
        return str(ort.__version__)

    def device(self) -> DeviceFacts:
        """The CPU."""
        return cpu_facts()

    def require_target(self, target: Target) -> None:
        """The target is the CPU architecture of this pod."""
        facts = cpu_facts()
        here = Target(accelerator="CPU", architecture=facts.architecture).name
        if target.name != here:
            raise wrong_device(target, here, facts)

    def compile(self, order: CompileOrder) -> Compiled:
        """Optimise offline. Profiles and options change nothing here: shapes stay free, the level is fixed."""
        LOG.info("optimising", extra={"profiles": len(order.profiles)})
        engine = order.folder / f"{order.name}.onnx"
        weights = order.folder / f"{engine.name}.data"
        session_options = _session_options(ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
        session_options.optimized_model_filepath = str(engine)
        size = sum(file.stat().st_size for file in order.model.parent.iterdir())
        for name_of_entry, setting in (
            ("file_name", weights.name),
            ("min_size_in_bytes", str(_EXTERNAL_MINIMUM_BYTES if size > INLINE_LIMIT_BYTES else INLINE_LIMIT_BYTES)),
        ):
            entry = f"session.optimized_model_external_initializers_{name_of_entry}"
            session_options.add_session_config_entry(entry, setting)
        _session(order.model, session_options, Reason.BUILD_FAILED)
        if not engine.is_file() or not engine.stat().st_size:
            raise converted(RuntimeError("the optimiser wrote nothing"), Reason.BUILD_FAILED)
        return Compiled((engine, weights) if weights.is_file() else (engine,), layers={})

    def open(self, engine: Path) -> OpenModel:
        """As the runtime does: every optimisation, for this CPU."""
        options = _session_options(ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
        return OnnxRuntimeModel(_session(engine, options, Reason.BUILD_FAILED), Reason.BUILD_FAILED)


def open_unoptimised(model: Path, otherwise: Reason) -> OpenModel:
    """The model exactly as its nodes say."""
    options = _session_options(ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    return OnnxRuntimeModel(_session(model, options, otherwise), otherwise)


def _session_options(level: "ort.GraphOptimizationLevel") -> "ort.SessionOptions":
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = usable_cpus()
    options.log_severity_level = 4  # errors come as exceptions; its own lines would break our log format
    return options


def _session(model: Path, options: "ort.SessionOptions", otherwise: Reason) -> "ort.InferenceSession":
    try:
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except EngineryError:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises many types with no common base
        raise converted(error, otherwise) from None
