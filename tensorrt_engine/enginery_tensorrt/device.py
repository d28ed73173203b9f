"""Facts of the GPU or MIG slice this process runs on, in the words of manifests and of node labels.

The builder compares them with its target, the runtime with the engines it is offered. CUDA's library is imported only
when they are asked for, as images for CPUs do not have it.
"""

import platform
import re
from pathlib import Path

from enginery_store.errors import PassingError
from enginery_store.manifest import DeviceFacts, Target
from enginery_store.reasons import Reason

from enginery_tensorrt.errors import CudaError

_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""From the kernel's names to Kubernetes' (the label kubernetes.io/arch)."""

_DRIVER = Path("/proc/driver/nvidia/version")
"""NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  ..."""

_SLICE = re.compile(r"^(?P<gpu>.+) MIG (?P<profile>\S+)$")
"""CUDA names a MIG slice after its GPU and its profile: NVIDIA H200 MIG 1g.18gb."""


def cpu_architecture() -> str:
    """As Kubernetes writes it: amd64, arm64."""
    machine = platform.machine().lower()
    return _ARCHITECTURES.get(machine, machine)


def device_facts() -> DeviceFacts:
    """The first device CUDA shows: in a pod it is the slice.

    Raises PassingError (DeviceUnavailable) without a device, a driver or CUDA's library.
    """
    try:
        from enginery_tensorrt import cuda
    except ImportError as error:
        raise _unavailable(f"this image has no CUDA ({error})") from None
    try:
        if not cuda.device_count():
            raise _unavailable("CUDA finds no device")
        properties = cuda.device_properties()
        driver = _driver_version() or cuda.driver_api_version()
    except CudaError as error:
        raise _unavailable(error.message) from None
    return DeviceFacts(
        name=properties.name.split(b"\0")[0].decode(),
        architecture=cpu_architecture(),
        compute_capability=f"{properties.major}.{properties.minor}",
        driver_version=driver,
        multiprocessors=properties.multiProcessorCount,
        memory_bytes=properties.totalGlobalMem,
    )


def product_of(facts: DeviceFacts) -> tuple[str, str]:
    """The product as GPU Feature Discovery labels the node (NVIDIA-H200), and the MIG profile or an empty text."""
    found = _SLICE.match(facts.name)
    name, profile = (found["gpu"], found["profile"]) if found else (facts.name, "")
    return re.sub(r"\s+", "-", name.strip()), profile


def target_of(facts: DeviceFacts) -> Target:
    """What an engine for exactly this GPU or slice is compiled for."""
    product, profile = product_of(facts)
    return Target(
        accelerator="MIG" if profile else "GPU",
        architecture=facts.architecture,
        compute_capability=facts.compute_capability,
        product=product,
        mig_profile=profile,
    )


def _driver_version() -> str:
    """Of the kernel's module; empty where the container does not show it."""
    try:
        found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", _DRIVER.read_text())
    except OSError:
        return ""
    return found[0] if found else ""


def _unavailable(text: str) -> PassingError:
    return PassingError(
        f"no GPU can be used: {text}; the pod needs a GPU or MIG resource, and its node a driver for this image's CUDA",
        reason=Reason.DEVICE_UNAVAILABLE,
    )
