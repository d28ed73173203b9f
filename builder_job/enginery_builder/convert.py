"""From a checked source to the files of a prepared model. Called by `prepare`.

An FP32 ONNX file passes through byte by byte. With external data the files get the names of the store's layout, and
the model is written again so that it refers to them by these.
"""

import logging
from pathlib import Path

from enginery_store.errors import FinalError
from enginery_store.layout import PREPARED_MODEL_NAME
from enginery_store.reasons import Reason
from enginery_store.requests import PrecisionRef, SourceRef

from enginery_builder.artifacts import CheckedModel, ConvertedModel
from enginery_builder.onnx_files import external_fields, external_tensors, file_of, parse_model

LOG = logging.getLogger(__name__)

_ADVICE = {
    "TensorFlowSavedModel": "export it with tf2onnx (`python -m tf2onnx.convert --saved-model DIR --output FILE`)",
    "PyTorchExport": "export it with torch.onnx.export(..., dynamo=True)",
    "HuggingFace": "export it with Optimum (`optimum-cli export onnx`)",
}


def require_convertible(source: SourceRef, precision: PrecisionRef) -> None:
    """What is asked can be made here. Raises FinalError (UnsupportedFormat, InvalidSpec)."""
    if source.format != "ONNX":
        raise FinalError(
            f"this version does not convert {source.format}; {_ADVICE[source.format]}, upload the result and set"
            " spec.source.format to ONNX",
            reason=Reason.UNSUPPORTED_FORMAT,
        )
    if precision.type not in {"Auto", "FP32"}:
        raise FinalError(
            f"this version prepares no {precision.type} models; set spec.precision.type to FP32",
            reason=Reason.INVALID_SPEC,
        )


def convert(checked: CheckedModel, folder: Path) -> ConvertedModel:
    """Move the model and its external data into `folder` under the store's names; FP32 stays as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / PREPARED_MODEL_NAME
    if not checked.external:
        return ConvertedModel((checked.path.rename(model),), checked, "FP32")
    names = {old: _data_name(number) for number, old in enumerate(checked.external)}
    proto = parse_model(checked.path.read_bytes())
    for tensor in external_tensors(proto):
        new = names[external_fields(tensor)["location"]]
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = new
    model.write_bytes(proto.SerializeToString(deterministic=True))
    data = tuple(file_of(checked.path, old).rename(folder / new) for old, new in names.items())
    LOG.info("external data renamed", extra={"files": len(data)})
    return ConvertedModel((model, *data), checked, "FP32")


def _data_name(number: int) -> str:
    return f"{PREPARED_MODEL_NAME}.data" if number == 0 else f"{PREPARED_MODEL_NAME}.data.{number}"
