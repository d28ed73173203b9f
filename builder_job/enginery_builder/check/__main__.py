"""The other process of `apart`: order on standard input, answer on standard output, log on standard error."""

import ctypes
import os
import resource
import signal
import sys

from enginery_store import log
from enginery_store.errors import EngineryError

from enginery_builder.check import check_model, check_request
from enginery_builder.check.apart import ANSWERS, ORDERS, REFUSALS, REFUSED, Refusal

_PR_SET_PDEATHSIG = 1
"""From <sys/prctl.h>."""


def main() -> int:
    """Check one model."""
    end_with(os.getppid())
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print what they like
    order = ORDERS.validate_json(sys.stdin.buffer.read())
    log.configure(order.log_level)
    # Not RLIMIT_AS: every thread reserves addresses that it never touches, 64 MiB each.
    resource.setrlimit(resource.RLIMIT_DATA, (order.memory_bytes, order.memory_bytes))
    with answer:
        try:
            checked = check_model(order.source)
            check_request(checked, order.request)
        except EngineryError as error:
            answer.write(REFUSALS.dump_json(Refusal(error.reason, error.message)))
            return REFUSED
        except MemoryError:
            os.kill(os.getpid(), signal.SIGABRT)  # as libraries do
        answer.write(ANSWERS.dump_json(checked))
    return 0


def end_with(parent: int) -> None:
    """Die when the parent dies, whose time limit is ours too and which may end without a word."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
