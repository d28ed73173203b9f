"""What a converter leaves behind when its framework crashes, hangs, or is killed: real processes throughout."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from enginery_converter.supervise import supervise
from enginery_store.reasons import Reason
from enginery_store.requests import EXIT_CODES
from support.eventually import eventually

CRASHES = {
    "segmentation fault": (signal.SIGSEGV, Reason.CONVERSION_FAILED, "crashed (SIGSEGV)"),
    "abort": (signal.SIGABRT, Reason.CONVERSION_FAILED, "crashed (SIGABRT)"),
    "out of memory": (signal.SIGKILL, Reason.BUILD_OUT_OF_MEMORY, "more memory"),
}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("case", CRASHES.values(), ids=CRASHES.keys())
def test_death_by_a_signal_is_told_in_words(case: tuple[int, Reason, str]) -> None:
    number, reason, text = case

    message, code = supervise(python(f"import os; os.kill(os.getpid(), {int(number)})"), 60)

    assert message is not None
    assert (message.reason, message.retryable, code) == (reason, False, EXIT_CODES[reason])
    assert text in message.message


@pytest.mark.parametrize("code", [0, 1, 27])
def test_child_that_ends_by_itself_has_left_its_own_message(code: int) -> None:
    assert supervise(python(f"raise SystemExit({code})"), 60) == (None, code)


def test_time_is_up_for_the_framework_and_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    forking = (
        "import os, pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(pids)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )

    message, code = supervise(python(forking), 3)

    assert message is not None
    assert (message.reason, code) == (Reason.BUILD_TIMEOUT, EXIT_CODES[Reason.BUILD_TIMEOUT])
    assert "longer than 3 s" in message.message
    eventually(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_sigterm_ends_the_framework_too(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    child = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(600)"
    code = "import sys; from enginery_converter.supervise import supervise; supervise(sys.argv[1:], 600)"
    supervisor = subprocess.Popen([*python(code), *python(child)], stderr=subprocess.DEVNULL)
    eventually(lambda: pid.exists() and pid.read_text())

    supervisor.terminate()

    assert supervisor.wait(60) == 143
    eventually(lambda: not alive(int(pid.read_text())))


def alive(pid: int) -> bool:
    """Whether the process runs: one that waits for its parent to ask does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_process_group_is_the_childs_own() -> None:
    code = f"import os; raise SystemExit(os.getpgrp() == {os.getpgrp()})"

    assert supervise(python(code), 60) == (None, 0)
