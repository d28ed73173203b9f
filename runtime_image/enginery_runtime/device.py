"""The device this process finds itself on, and which of the offered engines was built for it. Called by `startup`."""

import logging
import platform
from collections.abc import Sequence

from enginery_store.errors import PassingError
from enginery_store.manifest import DeviceFacts, Target
from enginery_store.requests import EngineRef
from enginery_tensorrt.device import cpu_architecture, device_facts, target_of

from enginery_runtime.errors import EngineDeviceMismatchError

log = logging.getLogger(__name__)


def cpu_facts() -> DeviceFacts:
    """Facts of a CPU: its architecture is all an engine depends on."""
    return DeviceFacts(name=platform.processor() or platform.machine(), architecture=cpu_architecture())


def device_in_hand(engines: Sequence[EngineRef]) -> DeviceFacts:
    """The GPU or slice where an engine for one is offered, else the CPU.

    Raises PassingError (DeviceUnavailable) when only engines for GPUs are offered and none can be used: a driver or a
    device that is missing now may be there after the next start.
    """
    if all(engine.target.accelerator == "CPU" for engine in engines):
        return cpu_facts()
    try:
        return device_facts()
    except PassingError as error:
        cpu = cpu_facts()
        if not any(fits(engine.target, cpu) for engine in engines):
            offered = ", ".join(engine.target.name for engine in engines)
            raise PassingError(f"engines are offered for {offered}; {error.message}", reason=error.reason) from None
        log.info("no GPU, serving on the CPU", extra={"error": error.message})
        return cpu


def pick(engines: Sequence[EngineRef], device: DeviceFacts) -> EngineRef:
    """The engine built for this device; on a node with a GPU one for its CPU comes second.

    Raises EngineDeviceMismatchError that lists what was offered and found.
    """
    fitting = [engine for engine in engines if fits(engine.target, device)]
    if fitting:
        return min(fitting, key=lambda engine: engine.target.accelerator == "CPU")
    offered = ", ".join(engine.target.name for engine in engines) or "none"
    raise EngineDeviceMismatchError(f"no engine for this device: found {target_here(device)}, offered {offered}")


def fits(target: Target, device: DeviceFacts) -> bool:
    """Whether an engine for this target runs here: same compute capability, product and slice, or same CPU.

    Kernels were chosen by their time on exactly that slice, and need not even fit another.
    """
    if target.architecture and target.architecture != device.architecture:
        return False
    if target.accelerator == "CPU":
        return bool(target.architecture)
    here = target_of(device)
    wanted = (target.compute_capability, target.product, target.mig_profile)
    return bool(device.compute_capability) and wanted == (here.compute_capability, here.product, here.mig_profile)


def target_here(device: DeviceFacts) -> str:
    """The name of the target this device is."""
    return target_of(device).name if device.compute_capability else f"cpu-{device.architecture}"
