"""Do weights have the bytes that their shapes need, and are they finite? External files are read in pieces."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.backend import Array
from enginery_builder.onnx_files import bits_per_element, every_tensor, external_fields, file_of

_FLOATS = frozenset(
    {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
)
DATA_FIELDS = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
"""Where a tensor may hold its values itself."""

_PIECE_ELEMENTS = 1 << 22
"""16 MiB of FP32 at a time."""


def require_sound(model: onnx.ModelProto, path: Path) -> None:
    """Raises FinalError (SourceInvalid) that names the weight."""
    for tensor in every_tensor(model):
        _require_size(tensor, path)
        if tensor.data_type in _FLOATS:
            _require_finite(tensor.name, _pieces(tensor, path))


def _require_size(tensor: onnx.TensorProto, path: Path) -> None:
    bits = bits_per_element(tensor.data_type)
    if any(size < 0 for size in tensor.dims):
        raise _invalid(tensor.name, "has a negative dimension")
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if bits is None or not (external or tensor.HasField("raw_data")):
        return  # typed fields: numpy_helper compares their length when it reads them
    needed = (math.prod(tensor.dims) * bits + 7) // 8
    found = _external_range(tensor, path)[1] if external else len(tensor.raw_data)
    if found != needed:
        raise _invalid(tensor.name, f"has {found} bytes where its shape {list(tensor.dims)[:8]} needs {needed}")


def small_values(tensor: onnx.TensorProto) -> Array | None:
    """The values of a tensor in the model's own file; None for a type that numpy cannot hold."""
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError):
        return None


def external_bytes(tensor: onnx.TensorProto, path: Path) -> bytes:
    """The bytes of a tensor in another file."""
    offset, length = _external_range(tensor, path)
    with file_of(path, external_fields(tensor)["location"]).open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _external_range(tensor: onnx.TensorProto, path: Path) -> tuple[int, int]:
    """Offset and length in bytes; both were checked against the file."""
    fields = external_fields(tensor)
    offset = int(fields.get("offset", "0"))
    size = file_of(path, fields["location"]).stat().st_size
    return offset, int(fields["length"]) if "length" in fields else size - offset


def _pieces(tensor: onnx.TensorProto, path: Path) -> Iterator[Array]:
    values = _values(tensor, path)
    for start in range(0, values.size, _PIECE_ELEMENTS):
        yield values[start : start + _PIECE_ELEMENTS]


def _values(tensor: onnx.TensorProto, path: Path) -> Array:
    """A flat array; of external data only a map of the file."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        count = math.prod(tensor.dims)
        offset, _ = _external_range(tensor, path)
        if not count:
            return np.empty(0, kind)
        place = file_of(path, external_fields(tensor)["location"])
        return np.memmap(place, dtype=kind, mode="r", offset=offset, shape=(count,))
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor)).reshape(-1)
    except (ValueError, TypeError) as error:
        raise _invalid(tensor.name, f"does not hold what its shape says ({error})") from None


def _require_finite(name: str, pieces: Iterator[Array]) -> None:
    """NaN is never a weight. Infinity is, in attention masks: there every finite element is 0."""
    infinite = finite = False
    for piece in pieces:
        if np.isnan(piece).any():
            raise _invalid(name, "holds NaN, so every answer would be NaN")
        endless = np.isinf(piece)
        infinite = infinite or bool(endless.any())
        finite = finite or bool((piece[~endless] != 0).any())
    if infinite and finite:
        raise _invalid(name, "holds infinite values, which training that diverged leaves behind")


def _invalid(name: str, what: str) -> FinalError:
    return FinalError(
        f"weight {quoted(name) or '(unnamed constant)'} {what}; export the model again from a good checkpoint",
        reason=Reason.SOURCE_INVALID,
    )
