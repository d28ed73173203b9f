"""Do the files that hold a model's weights lie beside it, whole? Paths are judged before any of them is opened."""

from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.artifacts import FetchedFiles
from enginery_builder.onnx_files import external_fields, external_tensors

_EXPORT = "export the model again with its weights in one file beside it"


def require_inside(model: onnx.ModelProto, path: Path, source: FetchedFiles) -> None:
    """Every external tensor names a file of the source, below the model's own folder, and a range within it."""
    tensors = external_tensors(model)
    for tensor in tensors:
        _require_plain_path(tensor.name, external_fields(tensor).get("location", ""))
    folder = path.parent.relative_to(source.folder).as_posix()
    for tensor in tensors:
        _require_range(tensor, folder, source)


def _require_plain_path(tensor: str, location: str) -> None:
    parts = PurePosixPath(location).parts
    windows = PureWindowsPath(location)
    if not location or "\0" in location:
        raise _invalid(f"weight {quoted(tensor)} names no file for its external data; {_EXPORT}")
    if ".." in parts or location.startswith("/") or windows.drive or "\\" in location:
        raise _invalid(
            f"weight {quoted(tensor)} points to {quoted(location)}, outside the model's own folder; {_EXPORT}"
        )
    if PurePosixPath(location).as_posix() != location:
        raise _invalid(f"weight {quoted(tensor)} points to {quoted(location)}, which is no plain path; {_EXPORT}")


def _require_range(tensor: onnx.TensorProto, folder: str, source: FetchedFiles) -> None:
    fields = external_fields(tensor)
    location = fields["location"]
    file = source.files.get(location if folder == "." else f"{folder}/{location}")
    if file is None:
        raise _invalid(
            f"the model keeps weights in {quoted(location)}, which is missing; upload it beside the .onnx file and"
            " give the folder (ending in /) as spec.source.uri"
        )
    try:
        offset = int(fields.get("offset", "0"))
        length = int(fields["length"]) if "length" in fields else file.size_bytes - offset
    except ValueError:
        raise _invalid(f"weight {quoted(tensor.name)} has an offset or length that is no number; {_EXPORT}") from None
    if offset < 0 or length < 0 or offset + length > file.size_bytes:
        raise _invalid(
            f"weight {quoted(tensor.name)} needs bytes {offset} to {offset + length} of {quoted(location)}, which has"
            f" {file.size_bytes}: it is cut off, or of another export; upload it again"
        )


def _invalid(text: str) -> FinalError:
    return FinalError(text, reason=Reason.SOURCE_INVALID)
