"""Is this file an ONNX model at all? The first of the checks."""

from pathlib import Path

import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import listed, quoted
from google.protobuf.message import DecodeError

from enginery_builder.artifacts import FetchedFiles
from enginery_builder.onnx_files import parse_model

PROTOBUF_LIMIT_BYTES = 2 * 1024**3 - 1
"""No protobuf message is larger; a larger model keeps its weights in external data."""

_HEAD_BYTES = 1024
_UPLOAD = "upload the .onnx file itself and compare its size and sha256"
_OTHER_FORMATS = {
    b"PK\x03\x04": "a ZIP archive (a PyTorch file, or a packed folder)",
    b"\x1f\x8b": "a gzip archive",
    b"\x89HDF\r\n": "an HDF5 file (Keras)",
    b"\x80\x02": "a Python pickle",
    b"\x80\x04": "a Python pickle",
    b"ptrt": "a TensorRT engine",
    b"ftrt": "a TensorRT engine",
}


def require_plain_files(source: FetchedFiles) -> None:
    """No file is a link, or lies below one: converters run foreign code, and a link could point to our own secrets."""
    folder = source.folder.resolve()
    for name in source.files:
        if (source.folder / name).resolve() != folder / name:
            raise _invalid(name, "is a link, or lies below one; upload plain files")


def model_file(source: FetchedFiles) -> Path:
    """The one .onnx file of the source, or its only file, whatever its name."""
    names = sorted(source.files)
    models = [name for name in names if name.lower().endswith(".onnx")]
    if len(models) > 1:
        models = [name for name in models if name.rsplit("/", 1)[-1] == "model.onnx"]
    if len(models) == 1:
        return source.folder / models[0]
    if len(names) == 1:
        return source.folder / names[0]
    raise FinalError(
        f"the source holds no single .onnx file (it has {listed(names)}); name the file in spec.source.uri, or keep one"
        " model in the folder, as model.onnx",
        reason=Reason.SOURCE_INVALID,
    )


def read_model(path: Path) -> onnx.ModelProto:
    """The parsed proto, external data untouched."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    _require_model_bytes(path.name, head)
    if size > PROTOBUF_LIMIT_BYTES:
        raise _invalid(path.name, "has over 2 GiB, which no ONNX file can; save it with external data")
    try:
        model = parse_model(path.read_bytes())
    except DecodeError:
        raise _invalid(path.name, f"is cut off or damaged, or is no ONNX model ({size} bytes); {_UPLOAD}") from None
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise _invalid(path.name, f"is not an ONNX model; {_UPLOAD}")
    return model


def _require_model_bytes(name: str, head: bytes) -> None:
    if not head:
        raise _invalid(name, f"is empty (0 bytes); {_UPLOAD}")
    if head.startswith(b"version https://git-lfs"):
        raise _invalid(name, "is a Git LFS pointer, not the model; run `git lfs pull` and upload the file it fetches")
    if head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<"):
        raise _invalid(name, f"is an HTML or XML page, such as a store's error answer; {_UPLOAD}")
    for magic, what in _OTHER_FORMATS.items():
        if head.startswith(magic):
            raise FinalError(
                f"{quoted(name)} is {what}, not an ONNX model; export it to ONNX", reason=Reason.UNSUPPORTED_FORMAT
            )
    if _is_text(head):
        raise _invalid(name, f"is plain text; {_UPLOAD}")


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # not a character that the head merely cuts in two
            return False
        text = head[: error.start].decode()
    return all(character.isprintable() or character in "\r\n\t\f" for character in text)


def _invalid(name: str, what: str) -> FinalError:
    return FinalError(f"{quoted(name)} {what}", reason=Reason.SOURCE_INVALID)
