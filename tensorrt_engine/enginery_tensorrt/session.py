"""An engine that runs: deserialized, with contexts, buffers, a stream and CUDA graphs. For builder and runtime.

The builder measures what the runtime will serve, so both come through here. One thread calls a session at a time.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path

from enginery_store.manifest import TensorSpec

from enginery_tensorrt.buffers import Array, Buffer, extents
from enginery_tensorrt.contexts import ProfileContext
from enginery_tensorrt.cuda import DeviceMemory, Stream
from enginery_tensorrt.engine import Tensor, layers_json, open_engine
from enginery_tensorrt.errors import InputRefusedError
from enginery_tensorrt.graphs import Graphs
from enginery_tensorrt.library import Library
from enginery_tensorrt.outputs import FreeOutput, free_output
from enginery_tensorrt.shapes import Shape, Shapes, narrowest


@dataclass(frozen=True)
class _Call:
    """One run whose inputs lie in their buffers."""

    profile: int
    shapes: tuple[tuple[str, Shape], ...]
    """Of all inputs, in the engine's order. Equal calls run the same work on the same addresses, as engines with inputs
    that hold shapes are not recorded."""


class EngineSession:
    """An open engine on the first device."""

    def __init__(self, plan: Path, library: Library, *, graphs: bool = True) -> None:
        """Load the engine and take all device memory it needs.

        `graphs`: record CUDA graphs of shapes that come again. Raises EngineRefusedError, DeviceMemoryError, CudaError,
        and PassingError (DeviceUnavailable) without a device.
        """
        self._library = library
        self._contexts: list[ProfileContext] = []
        self._buffers: dict[str, Buffer] = {}
        self._free_outputs: dict[str, FreeOutput] = {}
        with ExitStack() as resources:
            # The stream first: TensorRT 8.6 dies of a missing device, CUDA only complains.
            self._stream = Stream()
            resources.callback(self._stream.free)
            resources.callback(self._free_memory)
            self._engine = open_engine(plan, library)
            self._activation = DeviceMemory(self._engine.activation_bytes)
            resources.callback(self._activation.free)
            resources.callback(self._contexts.clear)  # before the memory that they work on
            self._make_contexts()
            self._place_inputs()
            self._place_outputs()
            self._holds_shapes = any(tensor.on_host for tensor in [*self._engine.inputs, *self._engine.outputs])
            self._graphs = Graphs(enabled=graphs and not self._free_outputs and not self._holds_shapes)
            resources.callback(self._graphs.clear)
            self._resources = resources.pop_all()

    @property
    def inputs(self) -> list[TensorSpec]:
        """As the engine has them: TensorRT 8.6 has INT32 where the model has INT64."""
        return [tensor.spec for tensor in self._engine.inputs]

    @property
    def outputs(self) -> list[TensorSpec]:
        """As the engine has them, -1 where a dimension depends on inputs."""
        return [tensor.spec for tensor in self._engine.outputs]

    @property
    def device_memory_bytes(self) -> int:
        """Device memory it takes, as far as TensorRT tells: weights (about the plan's size), activations, tensors."""
        tensors = sum(buffer.device_bytes for buffer in self._buffers.values())
        return self._engine.plan_bytes + self._activation.size + tensors

    @property
    def recorded_graphs(self) -> int:
        """CUDA graphs in hand."""
        return self._graphs.recorded

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs, by name, in arrays of their own.

        Raises InputRefusedError for inputs that are not the engine's or fit no profile, EngineFailedError when TensorRT
        refuses, CudaError when the device fails.
        """
        call = self._prepared(feeds)
        recorded = self._graphs.find(call)
        if recorded is not None:
            recorded.graph.launch(self._stream)
            return self._results(recorded.outputs)
        context = self._contexts[call.profile]
        if self._holds_shapes:
            context.bind(self._buffers, self._free_outputs)  # else TensorRT may not look at the new values
        context.set_shapes(dict(call.shapes))
        shapes = self._make_room(context)
        context.run(self._stream)
        results = self._results(shapes)
        self._graphs.offer(call, self._stream, lambda: context.enqueue(self._stream), shapes)
        return results

    def time_gpu(self, feeds: Mapping[str, Array], runs: int) -> list[float]:
        """Milliseconds on the device of each of `runs` runs, queued one behind the other, without copies to or from it.

        Raises what `run` raises.
        """
        for _ in range(2):  # the second leaves a graph, where the engine can be recorded
            self.run(feeds)
        call = self._prepared(feeds)
        recorded = self._graphs.find(call)
        if recorded is not None:
            graph = recorded.graph
            return self._stream.time(lambda: graph.launch(self._stream), runs)
        context = self._contexts[call.profile]
        return self._stream.time(lambda: context.run(self._stream), runs)

    def layers_json(self) -> str:
        """The inspector's words on every layer; details only of engines built with detailed profiling verbosity."""
        return layers_json(self._library.trt, self._engine.raw)

    def close(self) -> None:
        """Give everything back, even when the device has failed. The session is of no use afterwards."""
        self._resources.close()

    def _make_contexts(self) -> None:
        for index in range(len(self._engine.profiles)):
            context = ProfileContext(self._library.trt, self._engine, index, self._activation, self._stream)
            self._contexts.append(context)

    def _place_inputs(self) -> None:
        """Room for every input at the largest shape of any profile."""
        for tensor in self._engine.inputs:
            shapes = [tensor.spec.shape] if tensor.on_host else [p.most[tensor.name] for p in self._engine.profiles]
            self._buffers[tensor.name] = Buffer(tensor, max(map(prod, shapes)) * tensor.dtype.itemsize)

    def _place_outputs(self) -> None:
        """Room for every output that the largest inputs of any profile make; an allocator where only the run tells."""
        for index, profile in enumerate(self._engine.profiles):
            context = self._contexts[index]
            self._set_largest(index, profile.most)
            for tensor in self._engine.outputs:
                shape = context.shape(tensor.name)
                if tensor.name in self._free_outputs:
                    continue
                if min(shape, default=0) < 0:
                    self._free_outputs[tensor.name] = free_output(self._library.trt, tensor)
                elif tensor.name not in self._buffers or not self._buffers[tensor.name].holds(shape):
                    self._replace(tensor, shape)
        self._bind()

    def _set_largest(self, index: int, most: Shapes) -> None:
        shapes = dict(most)
        for tensor in self._engine.inputs:
            if tensor.on_host:
                shapes[tensor.name] = tuple(tensor.spec.shape)
                told, values = most[tensor.name], self._buffers[tensor.name].values(shapes[tensor.name]).reshape(-1)
                values[:] = max(told, default=1)  # where TensorRT 8.6 does not tell; outputs grow when they must
                values[: len(told)] = told
        self._bind()
        self._contexts[index].set_shapes(shapes)

    def _make_room(self, context: ProfileContext) -> dict[str, Shape]:
        """Output shapes of the shapes set, once all have room: a shape in a tensor can make more of smaller inputs."""
        shapes = {}
        for tensor in self._engine.outputs:
            if tensor.name in self._free_outputs:
                continue
            shapes[tensor.name] = shape = context.shape(tensor.name)
            if not self._buffers[tensor.name].holds(shape):
                self._replace(tensor, shape)
                self._graphs.clear()
                self._bind()
        return shapes

    def _replace(self, tensor: Tensor, shape: Shape) -> None:
        old = self._buffers.pop(tensor.name, None)
        if old is not None:
            old.free()
        self._buffers[tensor.name] = Buffer(tensor, prod(shape) * tensor.dtype.itemsize)

    def _bind(self) -> None:
        for context in self._contexts:
            context.bind(self._buffers, self._free_outputs)

    def _prepared(self, feeds: Mapping[str, Array]) -> _Call:
        inputs = self._engine.inputs
        names = [tensor.name for tensor in inputs]
        if feeds.keys() != set(names):
            raise InputRefusedError(f"the engine takes inputs {sorted(names)}, and was given {sorted(feeds)}")
        profile = narrowest(
            self._engine.profiles, {tensor.name: extents(tensor, feeds[tensor.name]) for tensor in inputs}
        )
        for name in names:
            self._buffers[name].put(feeds[name], self._stream)
        return _Call(profile, tuple((name, feeds[name].shape) for name in names))

    def _results(self, shapes: Mapping[str, Shape]) -> dict[str, Array]:
        """Queue the outputs' way to the host, wait for all that was queued, and copy."""
        for name, shape in shapes.items():
            self._buffers[name].fetch(shape, self._stream)
        self._stream.wait()
        places = {name: (self._buffers[name], shape) for name, shape in shapes.items()}
        for name, output in self._free_outputs.items():
            buffer, shape = places[name] = output.result()
            buffer.fetch(shape, self._stream)
        if self._free_outputs:
            self._stream.wait()
        return {name: buffer.values(shape).copy() for name, (buffer, shape) in places.items()}

    def _free_memory(self) -> None:
        for buffer in self._buffers.values():
            buffer.free()
        for output in self._free_outputs.values():
            output.free()
