"""Sources that are no readable model, and weights that lie in other files, or do not."""

import onnx
from onnx import TensorProto
from support.onnx_cases.case import MODEL_NAME, Maker
from support.onnx_models import mlp, with_external_data

DATA_NAME = "model.data"


def external(location: str = DATA_NAME, keep: int | None = None) -> dict[str, bytes]:
    """The plain model with its weights in DATA_NAME; `location` is what the model claims, `keep` what is left of it."""
    model_bytes, data = with_external_data(mlp(), location)
    return {MODEL_NAME: model_bytes} | ({} if keep == 0 else {DATA_NAME: data[:keep]})


def with_fields(**fields: str) -> dict[str, bytes]:
    """External data whose first tensor claims another offset or length."""
    files = external()
    made = onnx.ModelProto()
    made.ParseFromString(files[MODEL_NAME])
    for entry in made.graph.initializer[0].external_data:
        entry.value = fields.get(entry.key, entry.value)
    return files | {MODEL_NAME: made.SerializeToString()}


def in_two_files() -> dict[str, bytes]:
    """Each weight in a file of its own, one of them in a folder below."""
    made = mlp()
    files = {}
    for tensor, location in zip(made.graph.initializer, ("first.data", "more/second.data"), strict=True):
        tensor.external_data.add(key="location", value=location)
        files[location] = tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
    return files | {MODEL_NAME: made.SerializeToString()}


MODELS: dict[str, Maker] = {
    "file_empty": lambda: b"",
    "file_garbage": lambda: b"this is not an onnx file at all\n" * 10,
    "file_truncated": lambda: mlp().SerializeToString()[:20000],
    "file_html_error_page": lambda: b"<html><head><title>403 Forbidden</title></head><body>AccessDenied</body></html>",
    "ext_ok": external,
    "ext_missing": lambda: external(keep=0),
    "ext_truncated": lambda: external(keep=1000),
    "ext_traversal": lambda: external("../../../etc/hostname", keep=0),
    "ext_absolute": lambda: external("/etc/hostname", keep=0),
    "ext_offset_beyond": lambda: with_fields(offset=str(1 << 40)),
    "ext_length_negative": lambda: with_fields(length="-4"),
    "ext_length_wrong": lambda: with_fields(length="8"),
    "ext_two_files": in_two_files,
    "ext_bystander": lambda: external() | {"unused.data": b"nobody refers to it"},
}
