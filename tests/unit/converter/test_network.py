"""The network filter on the real kernel, in a process of its own: it stays for good."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import ctypes, json, os, socket, subprocess, sys, tempfile
from enginery_converter import network

def attempt(*arguments):
    try:
        socket.socket(*arguments).close()
        return "open"
    except OSError as error:
        return error.strerror

network.close()
left, right = socket.socketpair()
left.send(b"pair")
with tempfile.TemporaryFile() as file:
    file.write(b"files go on")
    file.seek(0)
    text = file.read().decode()
child = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
libc = ctypes.CDLL(None, use_errno=True)
ring = libc.syscall(425, 8, None)
print(json.dumps({
    "inet": attempt(socket.AF_INET), "inet6": attempt(socket.AF_INET6),
    "datagram": attempt(socket.AF_INET, socket.SOCK_DGRAM), "netlink": attempt(socket.AF_NETLINK, socket.SOCK_RAW),
    "packet": attempt(socket.AF_PACKET, socket.SOCK_DGRAM), "vsock": attempt(40), "unix": attempt(socket.AF_UNIX),
    "pair": right.recv(9).decode(), "file": text, "ring": os.strerror(ctypes.get_errno()) if ring < 0 else "open",
    "child": subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stderr.splitlines()[-1],
    "shell": subprocess.run(["bash", "-c", "echo > /dev/tcp/127.0.0.1/9"], capture_output=True, text=True).stderr,
}))
"""

REFUSED = "Operation not permitted"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path_factory.mktemp("closed"), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("family", ["inet", "inet6", "datagram", "netlink", "packet", "vsock", "ring"])
def test_way_out_is_closed(seen: dict[str, Any], family: str) -> None:
    assert seen[family] == REFUSED


def test_children_have_no_network_either(seen: dict[str, Any]) -> None:
    assert seen["child"] == f"PermissionError: [Errno 1] {REFUSED}"
    assert REFUSED in seen["shell"]


def test_files_and_sockets_within_the_machine_go_on(seen: dict[str, Any]) -> None:
    assert (seen["unix"], seen["pair"], seen["file"]) == ("open", "pair", "files go on")


@pytest.mark.parametrize(
    "undo", ["libc.prctl(22, 0, 0)", "libc.prctl(38, 0, 0, 0, 0)"], ids=["seccomp", "no new privs"]
)
def test_filter_cannot_be_taken_off(undo: str) -> None:
    code = f"""
import ctypes, socket
from enginery_converter import network
network.close()
libc = ctypes.CDLL(None)
print({undo})
try:
    socket.socket()
except PermissionError:
    print("closed")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.split() == ["-1", "closed"], done.stderr


def test_call_by_another_convention_ends_the_process(tmp_path: Path) -> None:
    program = tmp_path / "x32.py"
    program.write_text(
        "import ctypes, platform\n"
        "from enginery_converter import network\n"
        "network.close()\n"
        "ctypes.CDLL(None).syscall(0x40000000 | 41, 2, 1, 0)\n"
    )

    done = subprocess.run([sys.executable, program], capture_output=True, timeout=60, check=False)

    assert done.returncode == -31  # SIGSYS


def test_process_with_threads_is_refused() -> None:
    code = """
import threading
from enginery_converter import network
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
try:
    network.close()
except RuntimeError as error:
    print(error)
stop.set()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert "before other threads start" in done.stdout
