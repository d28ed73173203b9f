"""One execution context of TensorRT, bound to one profile of an engine. For `session`.

A context per profile keeps its shapes from one run to the next, where switching profiles would drop them and wait for
the device. As only one of them runs at a time, all share one block of activation memory.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enginery_tensorrt.buffers import Buffer
from enginery_tensorrt.cuda import DeviceMemory, Stream
from enginery_tensorrt.engine import Engine
from enginery_tensorrt.errors import DeviceMemoryError, EngineFailedError
from enginery_tensorrt.shapes import Shape, Shapes

if TYPE_CHECKING:
    import tensorrt as trt


class ProfileContext:
    """A context on its profile."""

    def __init__(self, trt: Any, engine: Engine, profile: int, memory: DeviceMemory, stream: Stream) -> None:
        """Raises DeviceMemoryError, EngineFailedError."""
        self._engine = engine
        self._shapes: Shapes = {}
        raw = _create(trt, engine.raw)
        if raw is None:
            raise DeviceMemoryError(f"TensorRT makes no execution context: {engine.fault()}")
        self.raw: trt.IExecutionContext = raw
        _give_memory(self.raw, memory)
        # A first context is on profile 0 by itself, and later ones too since TensorRT 10.
        on_profile = self.raw.active_optimization_profile == profile
        if not on_profile and not self.raw.set_optimization_profile_async(profile, stream.handle):
            raise EngineFailedError(f"TensorRT does not switch to profile {profile}: {engine.fault()}")
        stream.wait()

    def bind(self, buffers: Mapping[str, Buffer], allocators: Mapping[str, Any]) -> None:
        """Tell where every tensor is; again whenever a buffer has moved, or a shape in one has changed."""
        self._shapes = {}
        for name, buffer in buffers.items():
            self.raw.set_tensor_address(name, buffer.address)
        for name, allocator in allocators.items():
            self.raw.set_output_allocator(name, allocator)

    def set_shapes(self, shapes: Shapes) -> None:
        """Take input shapes that fit the profile. Raises EngineFailedError in TensorRT's words."""
        if shapes == self._shapes:
            return
        self._shapes = {}
        for name, shape in shapes.items():
            if not self.raw.set_input_shape(name, shape):
                raise EngineFailedError(
                    f"TensorRT refuses shape {list(shape)} of input {name!r}: {self._engine.fault()}"
                )
        self._shapes = dict(shapes)

    def shape(self, name: str) -> Shape:
        """Of any tensor, as the inputs make it; with -1 where only the run can tell."""
        return tuple(self.raw.get_tensor_shape(name))

    def enqueue(self, stream: Stream) -> bool:
        """Queue one run; False when TensorRT refuses, its reason in the log."""
        return bool(self.raw.execute_async_v3(stream.handle))

    def run(self, stream: Stream) -> None:
        """Queue one run. Raises EngineFailedError."""
        if not self.enqueue(stream):
            raise EngineFailedError(f"TensorRT refuses to run the engine: {self._engine.fault()}")


def _create(trt: Any, engine: "trt.ICudaEngine") -> "trt.IExecutionContext | None":
    """A context that is given its memory: since 10 by a strategy, which 11 alone leaves."""
    strategy = getattr(trt, "ExecutionContextAllocationStrategy", None)
    if strategy is None:
        return engine.create_execution_context_without_device_memory()
    return engine.create_execution_context(strategy.USER_MANAGED)


def _give_memory(context: "trt.IExecutionContext", memory: DeviceMemory) -> None:
    if hasattr(context, "set_device_memory"):
        context.set_device_memory(memory.address, memory.size)
    else:
        context.device_memory = memory.address
