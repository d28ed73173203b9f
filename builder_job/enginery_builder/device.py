"""Facts of the CPU this process runs on, in the words of manifests. Called by backends that compile for CPUs."""

import os
import platform
from pathlib import Path

from enginery_store.manifest import DeviceFacts

_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""From the kernel's names to Kubernetes' (the label kubernetes.io/arch)."""

_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def cpu_facts() -> DeviceFacts:
    """Model name, architecture, processors this container may use, and the node's memory."""
    machine = platform.machine().lower()
    return DeviceFacts(
        name=_cpu_name(),
        architecture=_ARCHITECTURES.get(machine, machine),
        multiprocessors=usable_cpus(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def usable_cpus() -> int:
    """Processors by affinity, and by the container's CPU limit (rounded up): more threads would only be throttled."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = _QUOTA.read_text().split()
        return allowed if quota == "max" else max(1, min(allowed, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        return allowed


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
