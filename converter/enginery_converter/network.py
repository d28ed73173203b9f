"""Closes the network for this process and all that it starts, for good. Called by `__main__`, before anything else.

A model can make its framework do more than arithmetic, so a converter must have nobody to talk to. A NetworkPolicy
depends on the cluster's network plugin; a seccomp filter needs only the kernel, no capability, and no root, and a
process cannot take it off again. It refuses with EPERM:

    socket(2)           of every family but AF_UNIX: no IPv4, IPv6, packet, netlink or vsock
    io_uring_setup(2)   an io_uring makes sockets without calling socket(2)

A system call by another architecture's convention, which the filter cannot judge, ends the process. Numbers are from
the kernel's headers: linux/audit.h, linux/filter.h, linux/seccomp.h, asm/unistd.h.
"""

import ctypes
import os
import platform
import socket
import struct
import threading
from dataclasses import dataclass

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2

_ALLOW = 0x7FFF_0000
_KILL_PROCESS = 0x8000_0000
_REFUSE = 0x0005_0000 | 1
"""SECCOMP_RET_ERRNO with EPERM."""

_LOAD = 0x20
"""BPF_LD | BPF_W | BPF_ABS: load a 32-bit word of struct seccomp_data."""
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_RETURN = 0x06

_NUMBER_OFFSET = 0
_ARCHITECTURE_OFFSET = 4
_FIRST_ARGUMENT_OFFSET = 16
"""Its low word, on little-endian machines; the kernel reads no more of an int."""

_IO_URING_SETUP = 425
"""The same on all architectures."""

_X32_BIT = 0x4000_0000
"""Set in the numbers of x86-64's 32-bit convention, which goes by the architecture of x86-64."""


@dataclass(frozen=True)
class _Machine:
    audit_architecture: int
    socket_number: int


_MACHINES = {"x86_64": _Machine(0xC000_003E, 41), "aarch64": _Machine(0xC000_00B7, 198)}


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def close() -> None:
    """Install the filter and prove that it works. Raises FinalError (ConfigError): nothing is converted without it.

    Call it while the process has one thread: the filter is the calling thread's, and that of all it starts later.
    """
    if threading.active_count() != 1:
        raise RuntimeError("the network can only be closed before other threads start")
    code = _instructions(_machine())
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, _PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1))
    _prctl(libc, _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program))
    _require_closed()


def _machine() -> _Machine:
    name = platform.machine()
    if name not in _MACHINES:
        raise FinalError(
            f"no network filter is known for {name}; run conversions on {' or '.join(_MACHINES)}",
            reason=Reason.CONFIG_ERROR,
        )
    return _MACHINES[name]


def _instructions(machine: _Machine) -> bytes:
    """The filter, one struct sock_filter a line: code, instructions to skip when true, when false, operand."""
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_JUMP_EQUAL, 0, 8, machine.audit_architecture),  # false: end
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        (_JUMP_AT_LEAST, 6, 0, _X32_BIT),  # true: end
        (_JUMP_EQUAL, 4, 0, _IO_URING_SETUP),  # true: refuse
        (_JUMP_EQUAL, 0, 2, machine.socket_number),  # false: allow
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_JUMP_EQUAL, 0, 1, socket.AF_UNIX),  # false: refuse
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _KILL_PROCESS),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _prctl(libc: ctypes.CDLL, option: int, *arguments: object) -> None:
    padding = [ctypes.c_ulong(0)] * (4 - len(arguments))
    if libc.prctl(option, *arguments, *padding):
        code = ctypes.get_errno()
        raise FinalError(
            f"the kernel takes no network filter (prctl {option}: {os.strerror(code)}); run conversions where seccomp"
            " filters are allowed",
            reason=Reason.CONFIG_ERROR,
        )


def _require_closed() -> None:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    except PermissionError:
        return
    raise FinalError(
        "the kernel took the network filter and does not apply it; run conversions where seccomp filters work",
        reason=Reason.CONFIG_ERROR,
    )
