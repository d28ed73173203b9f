"""The source as it came, under the store's names. Called by `precision`: for FP32, and as the reference of the others.

An ONNX file passes through byte by byte. With external data the files get the names of the store's layout, and the
model is written again so that it refers to them by these.
"""

import logging
from pathlib import Path

from enginery_builder.artifacts import CheckedModel
from enginery_builder.onnx_files import external_fields, external_tensors, file_of, parse_model

LOG = logging.getLogger(__name__)


def moved(checked: CheckedModel, folder: Path, name: str) -> tuple[Path, ...]:
    """Move the model and its external data into `folder`: NAME, NAME.data, NAME.data.1 ..."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / name
    if not checked.external:
        return (checked.path.rename(model),)
    names = {old: _data_name(name, number) for number, old in enumerate(checked.external)}
    proto = parse_model(checked.path.read_bytes())
    for tensor in external_tensors(proto):
        new = names[external_fields(tensor)["location"]]
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = new
    model.write_bytes(proto.SerializeToString(deterministic=True))
    data = tuple(file_of(checked.path, old).rename(folder / new) for old, new in names.items())
    LOG.info("external data renamed", extra={"files": len(data)})
    return (model, *data)


def _data_name(model: str, number: int) -> str:
    return f"{model}.data" if number == 0 else f"{model}.data.{number}"
