"""PyTorch export (.pt2) to ONNX, by torch.onnx. Called by `convert`; `huggingface` uses its second half.

A program keeps the dynamic sizes that it was exported with; a size that the example fixed stays fixed.
"""

import logging
import os
from pathlib import Path
from typing import Any

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.requests import PrepareRequest

from enginery_converter.pt2_archive import copy_judged, file_of
from enginery_converter.wording import ELSEWHERE, framework_text

LOG = logging.getLogger(__name__)

OPSET = 18
"""The oldest that torch's exporter writes (its translations are written in it), so the one that most compilers read."""


def export(source: Path, model: Path, _: PrepareRequest) -> list[str]:
    """Write the ONNX model of the program, weights in one file beside it. Raises FinalError."""
    copy = model.with_name("judged.pt2")
    copy_judged(file_of(source), copy)
    forbid_pickles()
    try:
        program = _loaded(copy)
    finally:
        copy.unlink()
    write_onnx(program, model)
    return []


def forbid_pickles() -> None:
    """From now on torch unpickles nothing but tensors, whoever asks it to."""
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"


def write_onnx(program: Any, model: Path, **names: list[str]) -> None:
    """Translate an ExportedProgram. `names`: input_names and output_names, where the program's own are not wanted.

    Raises FinalError (ConversionFailed, UnsupportedOperator).
    """
    import torch

    try:
        made = torch.onnx.export(program, dynamo=True, opset_version=OPSET, verbose=False, **names)
        made.save(str(model), external_data=True)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        LOG.exception("torch.onnx failed")
        cause = _first_cause(error)
        untranslated = type(cause).__name__ == "DispatchError"
        raise FinalError(
            f"torch.onnx cannot convert this program: {framework_text(cause)}; {ELSEWHERE}",
            reason=Reason.UNSUPPORTED_OPERATOR if untranslated else Reason.CONVERSION_FAILED,
        ) from error


def _first_cause(error: BaseException) -> BaseException:
    """The error that the others were raised from: torch's outermost one only counts its steps."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _loaded(path: Path) -> Any:
    import torch

    try:
        return torch.export.load(path)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        LOG.exception("torch.export.load failed")
        raise FinalError(
            f"torch {torch.__version__} cannot load this program: {framework_text(error)}; export it again with this"
            " version of torch, or an older one",
            reason=Reason.SOURCE_INVALID,
        ) from error
