"""Writes shared libraries whose functions do nothing and return 0, without a compiler.

Bindings of a library can then be imported, and asked what they offer, on a machine that does not have the library.
"""

import platform
import struct
from collections.abc import Sequence
from pathlib import Path

_PAGE = 0x1000
_RETURN_ZERO = {
    "x86_64": (62, bytes.fromhex("31c0c3")),  # xor eax, eax; ret
    "aarch64": (183, bytes.fromhex("000080d2c0035fd6")),  # mov x0, #0; ret
}
"""ELF's number of the machine, and the code of the one function."""

_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 4, 5, 6, 10, 11, 14
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_STACK = 1, 2, 0x6474E551
_READ, _WRITE, _EXECUTE = 4, 2, 1
_GLOBAL_FUNCTION = 0x12
_HEADER_BYTES, _PROGRAM_HEADER_BYTES, _SYMBOL_BYTES = 64, 56, 24


def write_stub_library(path: Path, functions: Sequence[str]) -> None:
    """An ELF library of that file name and soname: one page of code and tables, one of what the loader writes to."""
    machine, code = _RETURN_ZERO[platform.machine()]
    names, offsets = _names([path.name, *functions])
    code_at = _HEADER_BYTES + 4 * _PROGRAM_HEADER_BYTES
    names_at = code_at + len(code)
    symbols_at = -(-(names_at + len(names)) // 8) * 8
    hash_at = symbols_at + _SYMBOL_BYTES * (len(functions) + 1)
    symbols = bytes(_SYMBOL_BYTES) + b"".join(
        struct.pack("<IBBHQQ", offsets[name], _GLOBAL_FUNCTION, 0, 1, code_at, len(code)) for name in functions
    )
    table = _hash(len(functions))
    size = hash_at + len(table)
    dynamic_at = -(-size // _PAGE) * _PAGE
    dynamic = b"".join(
        struct.pack("<QQ", tag, value)
        for tag, value in (
            (_DT_SONAME, offsets[path.name]),
            (_DT_HASH, hash_at),
            (_DT_STRTAB, names_at),
            (_DT_SYMTAB, symbols_at),
            (_DT_STRSZ, len(names)),
            (_DT_SYMENT, _SYMBOL_BYTES),
            (0, 0),
        )
    )
    headers = _header(machine) + b"".join(
        (
            _program_header(_PT_LOAD, _READ | _EXECUTE, 0, size),
            _program_header(_PT_LOAD, _READ | _WRITE, dynamic_at, len(dynamic)),
            _program_header(_PT_DYNAMIC, _READ | _WRITE, dynamic_at, len(dynamic)),
            _program_header(_PT_GNU_STACK, _READ | _WRITE, 0, 0),
        )
    )
    tables = (headers + code + names).ljust(symbols_at, b"\0") + symbols + table
    path.write_bytes(tables.ljust(dynamic_at, b"\0") + dynamic)


def _names(names: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    """The string table, and where each name begins in it."""
    table, offsets = b"\0", {}
    for name in names:
        offsets[name] = len(table)
        table += name.encode() + b"\0"
    return table, offsets


def _hash(count: int) -> bytes:
    """A hash table of one bucket, whose chain goes through all symbols."""
    chain = [0, *range(2, count + 1), 0] if count else [0]
    return struct.pack(f"<{3 + len(chain)}I", 1, len(chain), 1 if count else 0, *chain)


def _header(machine: int) -> bytes:
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    return identity + struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, _HEADER_BYTES, 0, 0, _HEADER_BYTES, _PROGRAM_HEADER_BYTES, 4, 0, 0, 0
    )


def _program_header(kind: int, flags: int, at: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, _PAGE)
