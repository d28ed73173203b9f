"""Runs the conversion as a child process and says what became of it. Called by `__main__`.

A framework that meets a hostile or merely large model may crash, hang, or be killed for its memory. The parent then
still has its wits to say so, in the termination message that people read.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES, TerminationMessage

from enginery_converter.wording import ELSEWHERE

LOG = logging.getLogger(__name__)

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process that SIGTERM ended: a disruption, which no retry is counted for."""

UNFORESEEN = 1
"""Exit code that counts against backoffLimit: another try may succeed."""

Ending = tuple[TerminationMessage | None, int]
"""What is left in the termination log (None: what the child left), and the exit code."""


def supervise(command: Sequence[str], timeout_seconds: float) -> Ending:
    """Run `command` in a process group of its own; it ends with this call, whatever ends it. SIGTERM ends it too."""
    child = subprocess.Popen(command, start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: _stop(child))
    try:
        return ending(child.wait(timeout_seconds))
    except subprocess.TimeoutExpired:
        LOG.warning("out of time", extra={"seconds": timeout_seconds})
        return _final(
            Reason.BUILD_TIMEOUT,
            f"conversion took longer than {timeout_seconds:.0f} s; raise the installation's"
            " config.jobs.prepareTimeoutSeconds, or give the Job more CPU and memory",
        )
    finally:
        _kill(child)
        child.wait()


def ending(code: int) -> Ending:
    """What a child's exit code stands for; negative where a signal ended it."""
    if code >= 0:
        return None, code
    if code == -signal.SIGKILL:
        return _final(
            Reason.BUILD_OUT_OF_MEMORY, "the framework was killed for its memory; give the conversion more memory"
        )
    name = signal.Signals(-code).name
    return _final(
        Reason.CONVERSION_FAILED,
        f"the framework crashed ({name}) on this model; {ELSEWHERE}",
    )


def _final(reason: Reason, text: str) -> Ending:
    return TerminationMessage(reason=reason, message=text, retryable=False), EXIT_CODES[reason]


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """In a signal handler, which may have interrupted `wait`: so it waits for nothing."""
    LOG.warning("terminated", extra={"signal": "SIGTERM"})
    _kill(child)
    os._exit(TERMINATED)


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """The whole process group: frameworks start processes of their own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
