"""The part of CUDA's runtime that engines need, with errors as exceptions. The one module that imports cuda-python.

Handles and addresses are plain numbers outside of it. Nothing here knows of TensorRT.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from cuda.bindings import runtime as cudart

from enginery_tensorrt.errors import CudaError, DeviceMemoryError

_SUCCESS = cudart.cudaError_t.cudaSuccess
_OUT_OF_MEMORY = cudart.cudaError_t.cudaErrorMemoryAllocation
_TO_DEVICE = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
_TO_HOST = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
_THREAD_LOCAL = cudart.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal

_LEAST_BYTES = 256
"""CUDA hands out no empty allocation, and TensorRT wants an address for an empty tensor too."""


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """The value of a call. Raises CudaError with the call's name and CUDA's own words."""
    status, *values = function(*arguments)
    if status != _SUCCESS:
        raise CudaError(f"{function.__name__}: {words(status)}")
    return values[0] if values else None


def words(status: Any) -> str:
    """A status as CUDA describes it, with its name."""
    text = cudart.cudaGetErrorString(status)[1]
    return f"{text.decode()} ({status.name})"


def free_bytes() -> int:
    """Device memory that nobody has taken."""
    status, free, _ = cudart.cudaMemGetInfo()
    if status != _SUCCESS:
        raise CudaError(f"cudaMemGetInfo: {words(status)}")
    return int(free)


class DeviceMemory:
    """Bytes on the device, aligned for any use."""

    def __init__(self, size: int) -> None:
        """Raises DeviceMemoryError that states what was wanted and what is free."""
        self.size = max(size, _LEAST_BYTES)
        status, address = cudart.cudaMalloc(self.size)
        if status == _OUT_OF_MEMORY:
            cudart.cudaGetLastError()  # this error passes, and is not to be found by the next call
            raise DeviceMemoryError(
                f"the engine wants {self.size:,} bytes of device memory at once, {free_bytes():,} are free; give it a"
                " larger slice, smaller maximum shapes, or a smaller workspace"
            )
        if status != _SUCCESS:
            raise CudaError(f"cudaMalloc: {words(status)}")
        self.address = int(address)

    def free(self) -> None:
        """Give it back; a device in trouble has taken it back already."""
        cudart.cudaFree(self.address)


class PinnedMemory:
    """Host memory that the device copies from and to by itself."""

    def __init__(self, size: int) -> None:
        self.size = max(size, _LEAST_BYTES)
        self.address = int(call(cudart.cudaHostAlloc, self.size, 0))
        self._bytes = np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))

    def view(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Its beginning as an array; valid until `free`."""
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        array: npt.NDArray[Any] = self._bytes[:size].view(dtype).reshape(shape)
        return array

    def free(self) -> None:
        """Give it back; views of it must be gone."""
        cudart.cudaFreeHost(self.address)


class Graph:
    """Work of a stream, recorded once, to be launched again as one call."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def launch(self, stream: "Stream") -> None:
        """Queue all of it."""
        call(cudart.cudaGraphLaunch, self._handle, stream.raw)

    def free(self) -> None:
        """Forget it."""
        cudart.cudaGraphExecDestroy(self._handle)


class Stream:
    """A queue of work on the device; never the default one, with which every other stream would wait."""

    def __init__(self) -> None:
        self.raw = call(cudart.cudaStreamCreateWithFlags, cudart.cudaStreamNonBlocking)
        self.handle = int(self.raw)

    def to_device(self, target: DeviceMemory, source: PinnedMemory, size: int) -> None:
        """Queue a copy; the source must not change before it has run."""
        call(cudart.cudaMemcpyAsync, target.address, source.address, size, _TO_DEVICE, self.raw)

    def to_host(self, target: PinnedMemory, source: DeviceMemory, size: int) -> None:
        """Queue a copy; the target is whole after `wait`."""
        call(cudart.cudaMemcpyAsync, target.address, source.address, size, _TO_HOST, self.raw)

    def wait(self) -> None:
        """Until all that was queued has run. Raises CudaError for whatever of it failed."""
        call(cudart.cudaStreamSynchronize, self.raw)

    def capture(self, enqueue: Callable[[], bool]) -> Graph | None:
        """Record what `enqueue` queues instead of running it; None where that is not possible.

        Only this thread is kept from calls that a capture forbids. The graph of a refused enqueue would replay nothing,
        or half of it, so its result counts as much as CUDA's.
        """
        if cudart.cudaStreamBeginCapture(self.raw, _THREAD_LOCAL)[0] != _SUCCESS:
            cudart.cudaGetLastError()
            return None
        try:
            queued = enqueue()
        finally:
            status, graph = cudart.cudaStreamEndCapture(self.raw)
        handle = None
        if status == _SUCCESS and queued:
            status, handle = cudart.cudaGraphInstantiate(graph, 0)
        if graph is not None and int(graph):
            cudart.cudaGraphDestroy(graph)
        if status != _SUCCESS or handle is None:
            cudart.cudaGetLastError()  # else the next call would report the failed capture as its own error
            return None
        return Graph(handle)

    def time(self, work: Callable[[], None], runs: int) -> list[float]:
        """Milliseconds on the device of each of `runs` pieces of work, queued one behind the other."""
        pairs = [(call(cudart.cudaEventCreate), call(cudart.cudaEventCreate)) for _ in range(runs)]
        try:
            for begin, end in pairs:
                call(cudart.cudaEventRecord, begin, self.raw)
                work()
                call(cudart.cudaEventRecord, end, self.raw)
            self.wait()
            return [float(call(cudart.cudaEventElapsedTime, begin, end)) for begin, end in pairs]
        finally:
            for event in (event for pair in pairs for event in pair):
                cudart.cudaEventDestroy(event)

    def free(self) -> None:
        """Give it back."""
        cudart.cudaStreamDestroy(self.raw)


def device_count() -> int:
    """Devices this process may use. Raises CudaError without a driver, and without a device."""
    return int(call(cudart.cudaGetDeviceCount))


def device_properties() -> Any:
    """Of the first device: in a pod it is the slice."""
    return call(cudart.cudaGetDeviceProperties, 0)


def driver_api_version() -> str:
    """The newest CUDA the driver speaks, for example 13.0."""
    number = int(call(cudart.cudaDriverGetVersion))
    return f"{number // 1000}.{number % 1000 // 10}"
