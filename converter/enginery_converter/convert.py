"""One conversion, in the child process: refuse or convert, and note which. Called by `__main__`.

What is wrong with the source is noted as a refusal, which the builder records; everything else is an error.
"""

import errno
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from enginery_store.errors import FinalError
from enginery_store.layout import PREPARED_MODEL_NAME
from enginery_store.reasons import Reason
from enginery_store.requests import (
    CONVERSION_NAME,
    CONVERTED_FOLDER,
    SOURCE_FOLDER,
    Conversion,
    PrepareRequest,
    TerminationMessage,
)

LOG = logging.getLogger(__name__)

Exporter = Callable[[Path, Path, PrepareRequest], list[str]]
"""From a source folder to an ONNX file, which external data may lie beside; returns warnings for people. Raises
FinalError (of the reasons in ABOUT_THE_SOURCE)."""

ABOUT_THE_SOURCE = frozenset(
    {
        Reason.UNSUPPORTED_FORMAT,
        Reason.UNSUPPORTED_OPERATOR,
        Reason.SOURCE_INVALID,
        Reason.INVALID_SPEC,
        Reason.CONVERSION_FAILED,
        Reason.SOURCE_TOO_LARGE,
    }
)
"""Reasons that hold for this source in any image of this version, so that they outlive the Job."""

WARNINGS_LIMIT = 8


@dataclass(frozen=True)
class Framework:
    """What converts a format: the module that is imported then, and the distributions whose versions are recorded."""

    exporter: Callable[[], Exporter]
    distributions: tuple[str, ...]


def _tensorflow() -> Exporter:
    from enginery_converter.tensorflow import export

    return export


def _pytorch() -> Exporter:
    from enginery_converter.pytorch import export

    return export


def _huggingface() -> Exporter:
    from enginery_converter.huggingface import export

    return export


FRAMEWORKS = {
    "TensorFlowSavedModel": Framework(_tensorflow, ("tensorflow-cpu", "tf2onnx", "onnx")),
    "PyTorchExport": Framework(_pytorch, ("torch", "onnxscript", "onnx")),
    "HuggingFace": Framework(_huggingface, ("torch", "transformers", "safetensors", "onnxscript", "onnx")),
}


def convert(request: PrepareRequest, work: Path) -> Conversion:
    """Convert `<work>/source` into `<work>/converted`. Raises FinalError (ConfigError, BuildOutOfMemory) for what is
    not the source's fault.
    """
    kind = request.source.format
    if kind not in FRAMEWORKS:
        raise FinalError(f"{kind} needs no conversion; start no converter for it", reason=Reason.CONFIG_ERROR)
    folder = work / CONVERTED_FOLDER
    _empty(folder)
    try:
        done = _export(FRAMEWORKS[kind], work / SOURCE_FOLDER, folder / PREPARED_MODEL_NAME, request)
    except FinalError as error:
        if error.reason not in ABOUT_THE_SOURCE:
            raise
        _empty(folder)
        message = TerminationMessage(reason=error.reason, message=error.message, retryable=False)
        done = Conversion(refusal=message)
    (folder / CONVERSION_NAME).write_bytes(done.to_json())
    LOG.info("converted", extra=done.model_dump(exclude_none=True))
    return done


def _export(framework: Framework, source: Path, model: Path, request: PrepareRequest) -> Conversion:
    try:
        warnings = framework.exporter()(source, model, request)
        versions = {name: version(name) for name in framework.distributions}
    except ImportError as error:
        text = f"this image cannot convert {request.source.format}: {error}; use the converter image of this format"
        raise FinalError(text, reason=Reason.CONFIG_ERROR) from error
    except MemoryError:
        text = "the framework ran out of memory; give the conversion more memory"
        raise FinalError(text, reason=Reason.BUILD_OUT_OF_MEMORY) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            text = (
                f"the ONNX model takes more than {request.max_source_bytes} bytes, which is what this installation"
                " takes; use a smaller model"
            )
            raise FinalError(text, reason=Reason.SOURCE_TOO_LARGE) from error
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        text = "the work volume is full; give the prepare Job a larger emptyDir"
        raise FinalError(text, reason=Reason.CONFIG_ERROR) from error
    return Conversion(tool_versions=versions, warnings=warnings[:WARNINGS_LIMIT])


def _empty(folder: Path) -> None:
    """The folder without content: an earlier run of this container may have died half-way. It may be a mount."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
