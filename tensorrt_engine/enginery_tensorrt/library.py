"""Which TensorRT this process has: 8.6, 10, 11 or RTX. Called by whatever compiles or runs engines, before all else.

Modules take the `Library` and reach everything through `trt = library.trt`, by name and never by number, as TensorRT 11
renumbered its enums. Where a value is a TensorRT object, its annotation says so (`config: "trt.IBuilderConfig"`, with
`import tensorrt as trt` under TYPE_CHECKING): a test reads these annotations and checks every name that is used against
the real bindings of each release. A name that only some releases have is asked for with `hasattr` or `member`.
"""

import importlib
import importlib.util
import logging
from collections import deque
from ctypes import CDLL
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

LOG = logging.getLogger(__name__)

Name = Literal["TensorRT", "TensorRTRTX"]
"""As requests and manifests write a backend."""

KEPT_LINES = 200
"""A failed build of TensorRT says why within its last dozen lines; the rest is for the log."""

_MODULES: dict[Name, tuple[str, ...]] = {
    "TensorRT": ("tensorrt", "tensorrt_bindings"),
    "TensorRTRTX": ("tensorrt_rtx", "tensorrt_rtx_bindings"),
}
_RTX_LIBRARIES = "onnxruntime_ep_nv_tensorrt_rtx"
"""The wheel whose folder holds RTX's libraries; nothing of it is imported."""

_LEVELS = {
    "INTERNAL_ERROR": logging.ERROR,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.DEBUG,
}
"""From TensorRT's severities to ours; VERBOSE is left out."""

_NOISE = (
    "catchCudaError",  # these three: RTX on a machine without a GPU, whatever it is asked for
    "Thread context has not been set",
    "getHardwareCompatibilityLevel() is unsupported",
)
"""Lines that say nothing about the model."""


class Line(NamedTuple):
    """One line of TensorRT's log."""

    severity: str
    """INTERNAL_ERROR, ERROR or WARNING."""
    text: str


class LineKeeper(Protocol):
    """A trt.ILogger that remembers the last KEPT_LINES warnings and errors, and passes on everything to `logging`."""

    lines: deque[Line]
    """Oldest first."""


@dataclass(frozen=True)
class Library:
    """A loaded TensorRT."""

    name: Name
    trt: Any
    """The module of the Python bindings."""
    version: str
    """Major, minor and patch, as requests and manifests write it: 8.6.1, 10.14.1; RTX counts on its own: 1.7.1."""
    strongly_typed: bool
    """Whether a network can take its precisions from the graph alone; 8.6 cannot and wants builder flags."""
    log: LineKeeper
    """The one logger of this process: TensorRT takes no second one, and writes to the first whoever made it."""

    def fresh_log(self) -> LineKeeper:
        """The logger without the lines of earlier work; to be given to the next Builder, OnnxParser or Runtime."""
        self.log.lines.clear()
        return self.log


@cache
def load(name: Name) -> Library:
    """Import the bindings, once per process. Raises FinalError (ConfigError) that says which library is missing."""
    if name == "TensorRTRTX":
        _load_rtx_libraries()
    trt = _module(name)
    return Library(
        name=name,
        trt=trt,
        version=".".join(str(trt.__version__).split(".")[:3]),
        strongly_typed=hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED"),
        log=_logger(trt),
    )


def member(enum: Any, name: str) -> Any | None:
    """The member of a TensorRT enum; None in releases that do not have it."""
    return getattr(enum, name, None)


def _module(name: Name) -> ModuleType:
    reasons: list[str] = []
    for module in _MODULES[name]:
        try:
            return importlib.import_module(module)
        except ImportError as error:  # the package itself, or a shared library it needs
            reasons.append(str(error))
    raise _missing(name, "; ".join(reasons))


def _load_rtx_libraries() -> None:
    """Load RTX's libraries by path, so that the bindings find them under their sonames.

    Silent where the wheel is absent: a complete installation of RTX brings libraries of its own.
    """
    spec = importlib.util.find_spec(_RTX_LIBRARIES)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in map(Path, folders):
        for stem in ("libtensorrt_rtx", "libtensorrt_onnxparser_rtx"):
            for library in sorted(folder.glob(f"{stem}.so.*")):
                try:
                    CDLL(str(library))
                except OSError as error:
                    raise _missing("TensorRTRTX", str(error)) from None


def _missing(name: Name, text: str) -> FinalError:
    return FinalError(
        f"this image cannot load {name} ({text[:300]}); use the image of this release that is built for backend {name}",
        reason=Reason.CONFIG_ERROR,
    )


def _logger(trt: Any) -> LineKeeper:
    """Its class is made late, as the base exists only once the library is loaded."""

    class Logger(trt.ILogger):  # type: ignore[misc]
        """See LineKeeper."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: deque[Line] = deque(maxlen=KEPT_LINES)

        def log(self, severity: Any, text: str) -> None:
            """Called by TensorRT, from any of its threads."""
            level = _LEVELS.get(severity.name)
            if level is None or any(noise in text for noise in _NOISE):
                return
            if level >= logging.WARNING:
                self.lines.append(Line(severity.name, text))
            LOG.log(level, "tensorrt", extra={"severity": severity.name, "text": text.strip()})

    return Logger()
