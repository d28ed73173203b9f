"""Where tensors of a session live: device memory, and the pinned host memory that copies go through. For `session`.

One set serves every profile, for one run is in flight at a time. Addresses stay, because contexts and captured graphs
hold them; whoever makes a buffer grow has to tell both.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from enginery_tensorrt.cuda import DeviceMemory, PinnedMemory, Stream
from enginery_tensorrt.engine import Tensor
from enginery_tensorrt.errors import InputRefusedError
from enginery_tensorrt.shapes import Shape

Array = npt.NDArray[Any]

_INT32 = np.iinfo(np.int32)


class Buffer:
    """The memory of one tensor."""

    def __init__(self, tensor: Tensor, size: int) -> None:
        """`size` in bytes."""
        self.tensor = tensor
        self._host = PinnedMemory(size)
        self._device = None if tensor.on_host else DeviceMemory(size)

    @property
    def address(self) -> int:
        """What TensorRT is told."""
        return self._host.address if self._device is None else self._device.address

    @property
    def size(self) -> int:
        """Bytes on either side."""
        return self._host.size

    @property
    def device_bytes(self) -> int:
        """Device memory it takes."""
        return self._device.size if self._device else 0

    def values(self, shape: Shape) -> Array:
        """The host's side as an array, valid until the next run."""
        return self._host.view(self.tensor.dtype, shape)

    def holds(self, shape: Shape) -> bool:
        """Whether a tensor of this shape has room."""
        return self._bytes(shape) <= self._host.size

    def put(self, array: Array, stream: Stream) -> None:
        """Take an input's values and queue their way to the device. Raises InputRefusedError for values of a type
        that is not the engine's.
        """
        np.copyto(self.values(array.shape), engine_values(self.tensor, array))
        if self._device is not None:
            stream.to_device(self._device, self._host, self._bytes(array.shape))

    def fetch(self, shape: Shape, stream: Stream) -> None:
        """Queue an output's way to the host."""
        if self._device is not None:
            stream.to_host(self._host, self._device, self._bytes(shape))

    def free(self) -> None:
        """Give both sides back."""
        self._host.free()
        if self._device is not None:
            self._device.free()

    def _bytes(self, shape: Shape) -> int:
        return self.tensor.dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def engine_values(tensor: Tensor, array: Array) -> Array:
    """An input as the engine's type. TensorRT 8.6 has made INT32 of a model's INT64: values must fit.

    Raises InputRefusedError that names the input and both types.
    """
    if array.dtype == tensor.dtype:
        return array
    if array.dtype == np.int64 and tensor.dtype == np.int32:
        if array.size and (array.min() < _INT32.min or array.max() > _INT32.max):
            raise InputRefusedError(
                f"input {tensor.name!r} holds values beyond 32 bits, and this engine computes with INT32; build with"
                " TensorRT 10 or newer for INT64"
            )
        return array.astype(np.int32)
    raise InputRefusedError(f"input {tensor.name!r} is {array.dtype}, the engine takes {tensor.spec.datatype}")


def extents(tensor: Tensor, array: Array) -> Shape:
    """What of an input has to lie in a profile: its shape, or its values where it holds a shape itself."""
    if not tensor.on_host:
        return array.shape
    if list(array.shape) != tensor.spec.shape:
        raise InputRefusedError(f"input {tensor.name!r} is {list(array.shape)}, the engine takes {tensor.spec.shape}")
    return tuple(array.reshape(-1).tolist())
