"""The init containers of a prepare Job whose source is not ONNX: `fetch`, then `convert`. Pure; called by `job`.

A framework that reads a tenant's model runs what is in it. So `convert` has no credentials and no volume but the two
folders it reads from and writes to; enginery_converter says who may write what.
"""

from typing import Any

from enginery_store.requests import CONVERTED_FOLDER, SOURCE_FOLDER

from enginery_operator.api.v1alpha1 import InferenceModel
from enginery_operator.backends import converter_image
from enginery_operator.render import pod
from enginery_operator.settings import Settings

_SCRATCH = "convert-tmp"
"""The converter's own /tmp: nothing in it reaches the container after it."""


def containers(
    model: InferenceModel, settings: Settings, builder: dict[str, Any], request: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(init containers, their volumes) before the given builder container; nothing for ONNX."""
    source_format = model.spec.source.format
    if source_format == "ONNX":
        return [], []
    fetch = builder | {"name": "fetch", "args": ["fetch"]}
    image = converter_image(source_format, settings.images)
    convert = pod.container("convert", image, settings, request) | {
        "resources": builder["resources"],
        "volumeMounts": [
            _folder(SOURCE_FOLDER) | {"readOnly": True},
            _folder(CONVERTED_FOLDER),
            {"name": _SCRATCH, "mountPath": "/tmp"},  # noqa: S108 - inside the container
        ],
    }
    return [fetch, convert], [{"name": _SCRATCH, "emptyDir": {"sizeLimit": settings.jobs.work_limit}}]


def _folder(name: str) -> dict[str, Any]:
    return {"name": "work", "mountPath": f"{pod.WORK_FOLDER}/{name}", "subPath": name}
