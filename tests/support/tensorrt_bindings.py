"""What the real Python bindings of each TensorRT release offer, without the libraries themselves. For tests.

Each wheel is imported in a process of its own, over stubs of the libraries it is linked to, and asked for its classes,
their members and, from pybind's docstrings, what methods and properties return.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.client_env import environment
from support.stub_library import write_stub_library

WHEELS = {
    "8.6": "tensorrt-bindings==8.6.1",
    "10.13": "tensorrt-cu13-bindings==10.13.3.9",
    "10.14": "tensorrt-cu13-bindings==10.14.1.48.post1",
    "11.4": "tensorrt-cu13-bindings==11.4.0.106",
}
RTX = "RTX"
"""Installed with the builder, and has its libraries."""

_LIBRARIES = ("nvinfer", "nvinfer_plugin", "nvonnxparser", "nvparsers")
_FUNCTIONS = (
    "createInferBuilder_INTERNAL",
    "createInferRefitter_INTERNAL",
    "createInferRuntime_INTERNAL",
    "createNvOnnxParserRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL",
    "getBuilderPluginRegistry",
    "getNvOnnxParserVersion",
    "getPluginRegistry",
    "initLibNvInferPlugins",
    # these four: parsers that only 8.6 still has
    "_ZN11nvuffparser15createUffParserEv",
    "_ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi",
    "_ZN14nvcaffeparser117createCaffeParserEv",
    "_ZN14nvcaffeparser123shutdownProtobufLibraryEv",
)

_ASK = """
import inspect, json, re
MODULE
returns = re.compile(r"-> (?:Optional\\[)?(?:[\\w.]*\\.)?(\\w+)")
def returned(member):
    found = returns.search(getattr(member, "__doc__", None) or "")
    return found[1] if found else ""
def describe(kind, name):
    member = inspect.getattr_static(kind, name)
    if isinstance(member, property):
        return ["value", returned(member.fget)]
    value = getattr(kind, name)
    if callable(value):
        return ["method", returned(value)]
    return ["value", type(value).__name__]
print(json.dumps({
    name: {item: describe(kind, item) for item in dir(kind)} if isinstance(kind, type) else None
    for name, kind in vars(trt).items()
}))
"""


@dataclass(frozen=True)
class Bindings:
    """One release."""

    release: str
    names: dict[str, dict[str, list[str]] | None]
    """Every name of the module; for a class its members, each with its kind (method, value) and what it gives."""

    def has(self, owner: str, name: str) -> bool:
        """Whether a class, or the module itself (an empty owner), has the name."""
        return name in self.names if not owner else name in (self.names.get(owner) or {})

    def gives(self, owner: str, name: str) -> tuple[str, str]:
        """Kind of a member and the class of its value; empty where unknown."""
        kind, given = (self.names.get(owner) or {}).get(name, ["", ""])
        return kind, given if self.names.get(given) else ""


@cache
def bindings(release: str) -> Bindings:
    """What a release offers; fetched when it is not there."""
    if release == RTX:
        module = "from enginery_tensorrt.library import load; trt = load('TensorRTRTX').trt"
        return Bindings(release, _ask(Path(sys.executable), module, {}))
    with tempfile.TemporaryDirectory() as folder:
        _write_stubs(Path(folder))
        python = environment(WHEELS[release], "--no-deps")
        return Bindings(release, _ask(python, "import tensorrt_bindings as trt", {"LD_LIBRARY_PATH": folder}))


def _ask(python: Path, module: str, variables: dict[str, str]) -> dict[str, dict[str, list[str]] | None]:
    script = _ASK.replace("MODULE", module)
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names: dict[str, dict[str, list[str]] | None] = json.loads(done.stdout)
    return names


def _write_stubs(folder: Path) -> None:
    for major in {wheel.partition("==")[2].partition(".")[0] for wheel in WHEELS.values()}:
        for library in _LIBRARIES:
            write_stub_library(folder / f"lib{library}.so.{major}", _FUNCTIONS)
