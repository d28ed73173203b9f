"""What a build is doing, in the log: one may take an hour. Called by `compiler`."""

import logging
import time
from typing import TYPE_CHECKING, Any

from enginery_tensorrt.library import Library

if TYPE_CHECKING:
    import tensorrt as trt

LOG = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 5.0
"""Phases of small models follow each other within milliseconds."""


class Pace:
    """Which of many events are told."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether enough time went by since the last time it was."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


def report_progress(library: Library, config: "trt.IBuilderConfig") -> None:
    """Log the phases of the build that `config` is for; TensorRT 8.6 tells nothing."""
    trt = library.trt
    if hasattr(trt, "IProgressMonitor"):
        config.progress_monitor = _monitor(trt, Pace(SECONDS_BETWEEN_LINES))


def _monitor(trt: Any, pace: Pace) -> Any:
    """A trt.IProgressMonitor; its class is made late, as the base exists only once the library is loaded."""

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        """Called by TensorRT, from any of its threads."""

        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self._steps: dict[str, int] = {}

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:  # noqa: ARG002
            """A phase begins; most nest in others."""
            self._steps[phase_name] = num_steps

        def step_complete(self, phase_name: str, step: int) -> bool:
            """A step is done; True lets the build go on."""
            if pace.due():
                steps = self._steps.get(phase_name, 0)
                LOG.info("compiling", extra={"phase": phase_name, "step": step + 1, "steps": steps})
            return True

        def phase_finish(self, phase_name: str) -> None:
            """A phase is over."""
            self._steps.pop(phase_name, None)

    return Monitor()
