"""TensorRT 8.6, 10 and 11 as a backend: compiles for the device in hand and runs there. Reached through `backend`."""

from collections.abc import Mapping
from pathlib import Path

from enginery_store.manifest import DeviceFacts, Target
from enginery_tensorrt.device import device_facts, target_of
from enginery_tensorrt.engine import layers_json, open_engine
from enginery_tensorrt.library import Library, load
from enginery_tensorrt.session import EngineSession

from enginery_builder.backend import Compiled, CompileOrder, OpenModel, Tensors, wrong_device
from enginery_builder.tensorrt.compiler import start
from enginery_builder.tensorrt.config import leave_out_external_kernels, limit_workspace, set_compatibility
from enginery_builder.tensorrt.precisions import engine_layers, require_engine_precision
from enginery_builder.tensorrt.timings import Timings


class TensorRTBackend:
    """Compiles for the GPU or MIG slice of this pod."""

    def version(self) -> str:
        """Of the installed library."""
        return load("TensorRT").version

    def device(self) -> DeviceFacts:
        """The GPU or slice."""
        return device_facts()

    def require_target(self, target: Target) -> None:
        """The target is the device of this pod: compute capability, product and MIG profile.

        Kernels are chosen by their measured time, which another product or slice of the same capability would not have.
        """
        facts = device_facts()
        here = target_of(facts)
        if target.name != here.name:
            raise wrong_device(target, here.name, facts)

    def compile(self, order: CompileOrder) -> Compiled:
        """Write the engine, and look into it for the precision that was asked for."""
        library = load("TensorRT")
        build = start(library, order)
        limit_workspace(library, build.config, order.options.workspace_mib, device_facts().memory_bytes)
        set_compatibility(library, build.config, order.options.hardware_compatibility)
        leave_out_external_kernels(library, build.config)
        timings = Timings(build.config, order.timing_cache)
        engine = order.folder / f"{order.name}.plan"
        engine.write_bytes(build.run())
        layers = _layers(library, engine)
        require_engine_precision(layers, order.precision)
        return Compiled((engine,), layers, timings.news(), timings.state)

    def open(self, engine: Path) -> OpenModel:
        """As the runtime does."""
        return TensorRTModel(EngineSession(engine, load("TensorRT")))


class TensorRTModel:
    """An engine on the device."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session

    def run(self, feeds: Tensors) -> Tensors:
        """All outputs, by name."""
        return self._session.run(feeds)

    def device_memory_bytes(self) -> int:
        """As far as TensorRT tells."""
        return self._session.device_memory_bytes

    def output_shapes(self) -> Mapping[str, list[int]]:
        """As the engine has them."""
        return {output.name: output.shape for output in self._session.outputs}


def _layers(library: Library, engine: Path) -> dict[str, int]:
    return engine_layers(layers_json(library.trt, open_engine(engine, library).raw))
