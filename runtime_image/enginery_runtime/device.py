"""The device this process finds itself on, and which of the offered engines was built for it. Called by `fetch`."""

import platform
from collections.abc import Sequence

from enginery_store.manifest import DeviceFacts
from enginery_store.requests import EngineRef

from enginery_runtime.errors import EngineDeviceMismatchError

_KUBERNETES_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What the kernel calls an architecture, as Kubernetes and container images write it."""


def cpu_facts() -> DeviceFacts:
    """Facts of a CPU: its architecture is all an engine depends on."""
    machine = platform.machine()
    return DeviceFacts(name=platform.processor() or machine, architecture=_KUBERNETES_NAMES.get(machine, machine))


def pick(engines: Sequence[EngineRef], device: DeviceFacts) -> EngineRef:
    """The engine built for this device. Raises EngineDeviceMismatchError that lists what was offered and found."""
    for engine in engines:
        if engine.target.accelerator == "CPU" and engine.target.architecture == device.architecture:
            return engine
    offered = ", ".join(engine.target.name for engine in engines) or "none"
    raise EngineDeviceMismatchError(f"no engine for this device: found cpu-{device.architecture}, offered {offered}")
