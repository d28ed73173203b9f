"""The protocol's datatypes as numpy types, and the bytes of BYTES tensors. Called by both codecs and the backends.

BYTES are numpy object arrays of `bytes`; on the wire each element is its length (4 bytes, little endian) and itself.
"""

import struct
from itertools import chain

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from enginery_runtime.errors import InvalidRequestError

Array = NDArray[np.generic]

DTYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BYTES": np.dtype(np.object_),
}
"""Every datatype the protocol has; a tensor of another is refused by name."""

_LENGTH = struct.Struct("<I")


def element_count(shape: tuple[int, ...]) -> int:
    """The product of the dimensions, in Python's integers: it cannot overflow."""
    count = 1
    for dimension in shape:
        count *= dimension
    return count


def from_raw(name: str, datatype: str, shape: tuple[int, ...], raw: bytes | memoryview) -> Array:
    """The tensor whose bytes these are, without a copy (BYTES apart). Raises InvalidRequestError naming the input."""
    dtype, count = DTYPES[datatype], element_count(shape)
    if datatype == "BYTES":
        return _split_bytes(name, count, raw).reshape(shape)
    if count * dtype.itemsize != len(raw):
        raise InvalidRequestError(
            f"input {name!r}: shape {list(shape)} of {datatype} takes {count * dtype.itemsize} bytes, {len(raw)} came"
        )
    array = np.frombuffer(raw, dtype).reshape(shape)
    if datatype == "BOOL" and array.view(np.uint8).max(initial=0) > 1:
        raise InvalidRequestError(f"input {name!r}: a BOOL is the byte 0 or 1")
    return array


def _split_bytes(name: str, count: int, raw: bytes | memoryview) -> Array:
    if count * _LENGTH.size > len(raw):
        raise InvalidRequestError(f"input {name!r}: {count} BYTES elements do not fit into {len(raw)} bytes")
    array, view, at = np.empty(count, np.object_), memoryview(raw), 0
    for index in range(count):
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(view, at)[0] if start <= len(view) else start
        if end > len(view):
            raise InvalidRequestError(f"input {name!r}: BYTES element {index} reaches beyond the data")
        array[index], at = bytes(view[start:end]), end
    if at != len(view):
        raise InvalidRequestError(f"input {name!r}: {len(view) - at} bytes follow the last BYTES element")
    return array


def to_raw(array: Array) -> bytes:
    """The tensor's bytes, row by row, as the protocol sends them."""
    if array.dtype.kind == "O":
        return b"".join(chain.from_iterable((_LENGTH.pack(len(item)), item) for item in array.reshape(-1).tolist()))
    return array.tobytes()
