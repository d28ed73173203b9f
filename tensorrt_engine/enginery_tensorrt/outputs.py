"""Outputs whose shape only the run can tell, such as the indices of what is not zero. For `session`."""

from typing import Any, Protocol

from enginery_tensorrt.buffers import Buffer
from enginery_tensorrt.engine import Tensor
from enginery_tensorrt.errors import EngineFailedError
from enginery_tensorrt.shapes import Shape


class FreeOutput(Protocol):
    """A trt.IOutputAllocator that owns the memory of one output."""

    def result(self) -> tuple[Buffer, Shape]:
        """Where the last run left the output, and its shape. Raises what went wrong while TensorRT asked for memory."""

    def free(self) -> None:
        """Give the memory back."""


def free_output(trt: Any, tensor: Tensor) -> FreeOutput:
    """An allocator for one output. The class is made late, as its base exists only once the library is loaded.

    TensorRT calls it from within a run, where an exception would end the process: it is kept for `result`.
    """

    class OutputAllocator(trt.IOutputAllocator):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)
            self._buffer: Buffer | None = None
            self._shape: Shape = ()
            self._error: Exception | None = None

        def reallocate_output(self, _name: str, _memory: int, size: int, _alignment: int) -> int:
            """Asked up to TensorRT 9; the address of at least `size` bytes, 0 for a refusal."""
            return self._reserve(size)

        def reallocate_output_async(self, _name: str, _memory: int, size: int, _alignment: int, _stream: int) -> int:
            """Asked since TensorRT 10."""
            return self._reserve(size)

        def notify_shape(self, _name: str, shape: Any) -> None:
            """The shape is known."""
            self._shape = tuple(shape)

        def result(self) -> tuple[Buffer, Shape]:
            """See FreeOutput."""
            error, self._error = self._error, None
            if error is not None:
                raise error
            if self._buffer is None:
                raise EngineFailedError(f"TensorRT gave output {tensor.name!r} no memory")
            return self._buffer, self._shape

        def free(self) -> None:
            """See FreeOutput."""
            if self._buffer is not None:
                self._buffer.free()
            self._buffer = None

        def _reserve(self, size: int) -> int:
            try:
                if self._buffer is None or self._buffer.size < size:
                    self.free()
                    self._buffer = Buffer(tensor, size)
                self._error = None
            except Exception as error:  # noqa: BLE001 - see above
                self._error = error
                return 0
            return self._buffer.address

    allocator: FreeOutput = OutputAllocator()
    return allocator
