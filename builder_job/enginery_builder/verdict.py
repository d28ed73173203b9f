"""From an error to the words and the code a container ends with. Called by `__main__`; pure.

EngineryError           its reason, its message, EXIT_CODES[reason]
MemoryError             BuildOutOfMemory
no room on the disk     ConfigError: the work volume is too small
anything else           exit code 1, which counts against backoffLimit: another try may succeed
"""

import errno
from dataclasses import dataclass

from enginery_store.errors import EngineryError
from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES, TerminationMessage

from enginery_builder.wording import bounded

_PREPARE_BOUND = "the installation's config.jobs.prepareTimeoutSeconds"

UNEXPECTED = 1
"""Exit code of an error nobody foresaw."""

_UNFORESEEN = {"fetch": Reason.CONVERSION_FAILED, "prepare": Reason.CONVERSION_FAILED, "build": Reason.BUILD_FAILED}
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@dataclass(frozen=True)
class Verdict:
    """What this process leaves behind."""

    message: TerminationMessage
    exit_code: int


def success(reason: Reason, message: str) -> Verdict:
    """The work is done and published."""
    return Verdict(TerminationMessage(reason=reason, message=bounded(message), retryable=False), 0)


def failure(error: BaseException, command: str) -> Verdict:
    """What to say about an error that ended `command`; never a traceback, which is in the log."""
    if isinstance(error, EngineryError):
        return _verdict(error.reason, error.message, error.retryable)
    if isinstance(error, MemoryError):
        return _verdict(Reason.BUILD_OUT_OF_MEMORY, "the builder ran out of memory; give the build more memory", False)
    if isinstance(error, OSError) and error.errno in _FULL:
        return _verdict(Reason.CONFIG_ERROR, "the work volume is full; give the builder a larger emptyDir", False)
    text = f"{command} ended with an unexpected {type(error).__name__}; the pod's log has the details"
    return Verdict(TerminationMessage(reason=_UNFORESEEN[command], message=text, retryable=True), UNEXPECTED)


def timed_out(command: str, timeout_seconds: int) -> Verdict:
    """The request's time is up."""
    bound = "spec.build.timeoutSeconds" if command == "build" else _PREPARE_BOUND
    text = f"{command} took longer than {timeout_seconds} s; raise {bound}, or give the Job more CPU and memory"
    return _verdict(Reason.BUILD_TIMEOUT, text, False)


def _verdict(reason: Reason, text: str, retryable: bool) -> Verdict:
    message = TerminationMessage(reason=reason, message=bounded(text), retryable=retryable)
    return Verdict(message, EXIT_CODES.get(reason, UNEXPECTED))
