"""The checks in a process of their own, as libraries may crash on a stranger's model or take all memory. Called by
`prepare`.

Neither can be caught where it happens: an allocation that fails ends ONNX's shape inference with the whole process. So
a model is tried elsewhere first, and what ends that process becomes a verdict here.
"""

import logging
import signal
import subprocess
import sys
from dataclasses import dataclass

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.requests import PrepareRequest
from pydantic import TypeAdapter

from enginery_builder.artifacts import CheckedModel, FetchedFiles

LOG = logging.getLogger(__name__)

REFUSED = 3
"""Exit code of a check that ended in a verdict, which is on its output."""

MEMORY_BYTES = 8 << 30
"""Memory that a check may take beyond a multiple of its files: libraries and threads about one, a trial up to two."""

FILE_COPIES = 5
"""Times that a model's bytes are in memory at most: as a file, parsed, mapped, in ONNX Runtime, and once to spare."""

_MEMORY_SIGNALS = frozenset({signal.SIGABRT, signal.SIGKILL})
"""How libraries end when an allocation fails, and how the kernel ends a process when there is nothing left."""


@dataclass(frozen=True)
class Order:
    """What the other process is to check."""

    source: FetchedFiles
    request: PrepareRequest
    log_level: str
    memory_bytes: int
    """Writable memory that it may take."""


@dataclass(frozen=True)
class Refusal:
    """The error it ended with."""

    reason: Reason
    message: str


ORDERS = TypeAdapter(Order)
ANSWERS = TypeAdapter(CheckedModel)
REFUSALS = TypeAdapter(Refusal)


def check_apart(source: FetchedFiles, request: PrepareRequest) -> CheckedModel:
    """`check_model` and `check_request`. Raises FinalError as they do, and for what ended their process."""
    memory_bytes = MEMORY_BYTES + FILE_COPIES * source.size_bytes
    order = Order(source, request, logging.getLevelName(LOG.getEffectiveLevel()), memory_bytes)
    command = [sys.executable, "-m", "enginery_builder.check"]
    ended = subprocess.run(command, input=ORDERS.dump_json(order), stdout=subprocess.PIPE, check=False)
    if ended.returncode == 0:
        return ANSWERS.validate_json(ended.stdout)
    if ended.returncode == REFUSED:
        refusal = REFUSALS.validate_json(ended.stdout)
        raise FinalError(refusal.message, reason=refusal.reason)
    if ended.returncode < 0:
        raise crashed(signal.Signals(-ended.returncode), memory_bytes)
    raise RuntimeError(f"the checks ended with exit code {ended.returncode}")


def crashed(by: signal.Signals, limit_bytes: int) -> FinalError:
    """The verdict on a model whose check ended with a signal."""
    if by in _MEMORY_SIGNALS:
        return FinalError(
            f"checking the model took more than {limit_bytes} bytes of memory, or all there was; lower max in"
            " spec.shapes.profiles, or give the builder more memory",
            reason=Reason.BUILD_OUT_OF_MEMORY,
        )
    return FinalError(
        f"a library that reads the model crashed on it ({by.name}); the file is damaged or built to do harm: upload it"
        " again, or export the model with another exporter",
        reason=Reason.SOURCE_INVALID,
    )
