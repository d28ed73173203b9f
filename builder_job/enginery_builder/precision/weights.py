"""Models as small protos over large weight files, so that none of the many variants of a model copies its weights.

Called by the passes of `precision`. A skeleton holds names, nodes and small constants; its large weights lie in files
beside it, as ONNX's external data. Variants (probed, quantized, in half) are other skeletons over the same files, and
only the result is written whole: in one file where a protobuf message can hold it, with external data otherwise.
"""

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from onnx import TensorProto, numpy_helper

from enginery_builder.backend import Array
from enginery_builder.onnx_files import DEFAULT_DOMAINS, external_fields, external_tensors, file_of, parse_model
from enginery_builder.wording import library_text

INLINE_LIMIT_BYTES = 1_500_000_000
"""Above it weights stay in a file of their own: one protobuf message holds at most 2 GiB."""

LARGE_BYTES = 1024
"""Smaller tensors stay in the skeleton: shape inference reads constants that are there only."""

_FREE_CONSTANTS_IR = 4
"""Since then a constant need not be listed among the inputs."""

_ALIGNMENT = 64
"""Offset of a weight in its file: libraries map the file and read vectors from it."""


class Workbench:
    """A folder in which variants of one model are made."""

    def __init__(self, model: Path, folder: Path) -> None:
        """`model` may have external data beside it. Files are linked, not copied, where the file system can."""
        folder.mkdir(parents=True)
        self.folder = folder
        proto = parse_model(model.read_bytes())
        for location in {external_fields(tensor)["location"] for tensor in external_tensors(proto)}:
            target = folder / location
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(file_of(model, location), target)
        self._weights = folder / f"{uuid.uuid4().hex}.data"
        proto.ir_version = max(proto.ir_version, _FREE_CONSTANTS_IR)
        _inline_constants(proto.graph)
        for tensor in proto.graph.initializer:
            if tensor.data_location != TensorProto.EXTERNAL and len(content := _content(tensor)) >= LARGE_BYTES:
                self._move_out(tensor, content)
        self.skeleton = parse_model(proto.SerializeToString())  # a message keeps the memory of what was taken from it

    def read(self, tensor: TensorProto) -> Array:
        """The values; of a large weight a read-only map of its file."""
        if tensor.data_location != TensorProto.EXTERNAL:
            return np.asarray(numpy_helper.to_array(tensor))
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        return self._bytes(tensor).view(kind).reshape(tuple(tensor.dims))

    def tensor(self, name: str, values: Array) -> TensorProto:
        """A new weight of these values."""
        tensor = TensorProto(
            name=name, data_type=onnx.helper.np_dtype_to_tensor_dtype(values.dtype), dims=list(values.shape)
        )
        if values.nbytes >= LARGE_BYTES:
            self._move_out(tensor, values.tobytes())
        else:
            tensor.raw_data = values.tobytes()
        return tensor

    def save(self, skeleton: onnx.ModelProto, name: str) -> Path:
        """A variant as a file that libraries can open where it lies."""
        path = self.folder / name
        path.write_bytes(skeleton.SerializeToString())
        return path

    def write(self, skeleton: onnx.ModelProto, folder: Path, name: str) -> tuple[Path, ...]:
        """The result: the model, and its external data where it is too large for one file."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        whole = onnx.ModelProto()
        whole.CopyFrom(skeleton)
        large = external_tensors(whole)
        if sum(self._bytes(tensor).nbytes for tensor in large) <= INLINE_LIMIT_BYTES:
            for tensor in large:
                content = self._bytes(tensor).tobytes()
                tensor.ClearField("external_data")
                tensor.data_location = TensorProto.DEFAULT
                tensor.raw_data = content
            path.write_bytes(whole.SerializeToString(deterministic=True))
            return (path,)
        data = folder / f"{name}.data"
        with data.open("wb") as file:
            for tensor in large:
                content = self._bytes(tensor).tobytes()
                _refer(tensor, data.name, _append(file, content), len(content))
        path.write_bytes(whole.SerializeToString(deterministic=True))
        return path, data

    def _bytes(self, tensor: TensorProto) -> npt.NDArray[np.uint8]:
        """The bytes of an external tensor, as a read-only map of its file."""
        fields = external_fields(tensor)
        place = self.folder / fields["location"]
        offset = int(fields.get("offset", 0))
        length = int(fields["length"]) if "length" in fields else place.stat().st_size - offset
        if not length:
            return np.empty(0, np.uint8)
        return np.asarray(np.memmap(place, dtype=np.uint8, mode="r", offset=offset, shape=(length,)))

    def _move_out(self, tensor: TensorProto, content: bytes) -> None:
        with self._weights.open("ab") as file:
            offset = _append(file, content)
        bare = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        tensor.CopyFrom(bare)
        _refer(tensor, self._weights.name, offset, len(content))


def prune(model: onnx.ModelProto) -> None:
    """Drop initializers that nothing reads, and inputs that are only defaults of initializers."""
    read = set(_names_read(model.graph)) | {value.name for value in model.graph.output}
    constants = {tensor.name for tensor in model.graph.initializer}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    inputs = [value for value in model.graph.input if value.name not in constants]
    del model.graph.initializer[:], model.graph.input[:]
    model.graph.initializer.extend(kept)
    model.graph.input.extend(inputs)


def with_opset(skeleton: onnx.ModelProto, least: int, why: str) -> onnx.ModelProto:
    """The model at this opset, or as it is where that is not lower. Raises FinalError (ConversionFailed)."""
    found = next(entry.version for entry in skeleton.opset_import if entry.domain in {"", "ai.onnx"})
    if found >= least:
        return skeleton
    try:
        raised = onnx.version_converter.convert_version(skeleton, least)
        raised.ir_version = max(raised.ir_version, onnx.helper.find_min_ir_version_for(raised.opset_import))
    except Exception as error:  # noqa: BLE001 - the library raises many types with no common base
        raise FinalError(
            f"{why} needs opset {least}, the model has {found} and cannot be raised ({library_text(error, 120)});"
            f" export it with opset {least} or later, or ask for another precision",
            reason=Reason.CONVERSION_FAILED,
        ) from None
    return raised


def _names_read(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _names_read(inner)
                yield from (value.name for value in inner.output)


def _content(tensor: TensorProto) -> bytes:
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    return b"" if tensor.data_type == TensorProto.STRING else numpy_helper.to_array(tensor).tobytes()


def _inline_constants(graph: onnx.GraphProto) -> None:
    """Constant nodes become initializers, which every pass knows how to treat."""
    kept = []
    for node in graph.node:
        value = _constant(node)
        if value is None:
            kept.append(node)
        else:
            value.name = node.output[0]
            graph.initializer.append(value)
    del graph.node[:]
    graph.node.extend(kept)


def _constant(node: onnx.NodeProto) -> TensorProto | None:
    if node.op_type != "Constant" or node.domain not in DEFAULT_DOMAINS or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        tensor = TensorProto()
        tensor.CopyFrom(attribute.t)
        return tensor
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if attribute.name not in kinds:
        return None
    return numpy_helper.from_array(np.array(onnx.helper.get_attribute_value(attribute), kinds[attribute.name]))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)


def _append(file: BinaryIO, content: bytes) -> int:
    """Write at the end, aligned; returns the offset."""
    file.seek(0, os.SEEK_END)
    file.write(bytes(-file.tell() % _ALIGNMENT))
    offset = file.tell()
    file.write(content)
    return offset


def _refer(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
