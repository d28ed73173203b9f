"""TensorRT-RTX as a backend: compiles ahead of time, on a node without a GPU. Reached through `backend`."""

from pathlib import Path
from typing import TYPE_CHECKING

from enginery_store.errors import FinalError
from enginery_store.manifest import DeviceFacts, Target
from enginery_store.reasons import Reason
from enginery_tensorrt.library import Library, load, member

from enginery_builder.backend import Compiled, CompileOrder, OpenModel, wrong_device
from enginery_builder.device import cpu_facts
from enginery_builder.tensorrt.compiler import start

if TYPE_CHECKING:
    import tensorrt_rtx as trt

COMPUTE_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""What the library compiles for, by its enum ComputeCapability. H100, H200 and B200 (9.0, 10.0) are not among them."""

_LEAST = {"BF16": (8, 0), "FP8": (8, 9)}
"""Compute capabilities that have a precision begin here."""


class RTXBackend:
    """Compiles for the GPUs of one compute capability."""

    def version(self) -> str:
        """Of the installed library."""
        return load("TensorRTRTX").version

    def device(self) -> DeviceFacts:
        """The CPU that compiles; there need be no GPU."""
        return cpu_facts()

    def require_target(self, target: Target) -> None:
        """Any GPU that the library compiles for, wherever this pod runs. Raises FinalError (InvalidSpec) otherwise."""
        if target.accelerator == "CPU":
            raise wrong_device(target, "TensorRT-RTX, which compiles for GPUs only", cpu_facts())
        if target.compute_capability not in COMPUTE_CAPABILITIES:
            raise FinalError(
                f"TensorRT-RTX compiles for compute capabilities {', '.join(COMPUTE_CAPABILITIES)}, the target"
                f" {target.name} has {target.compute_capability or 'none'}; write spec.build.backend TensorRT",
                reason=Reason.INVALID_SPEC,
            )

    def compile(self, order: CompileOrder) -> Compiled:
        """Write the engine; without a GPU it cannot be inspected, so no layers are told."""
        self.require_target(order.target)
        _require_precision(order)
        _require_no_compatibility(order)
        library = load("TensorRTRTX")
        build = start(library, order)
        _set_target(library, build.config, order.target)
        engine = order.folder / f"{order.name}.plan"
        engine.write_bytes(build.run())
        return Compiled((engine,), layers={})

    def open(self, engine: Path) -> OpenModel | None:  # noqa: ARG002 - the protocol's
        """None: what is compiled ahead of time does not run here."""
        return None


def _set_target(library: Library, config: "trt.IBuilderConfig", target: Target) -> None:
    capability = member(library.trt.ComputeCapability, f"SM{target.compute_capability.replace('.', '')}")
    config.num_compute_capabilities = 1
    if capability is None or not config.set_compute_capability(capability, 0):
        raise FinalError(
            f"TensorRT-RTX {library.version} does not compile for {target.name}; write spec.build.backend TensorRT",
            reason=Reason.INVALID_SPEC,
        )


def _require_precision(order: CompileOrder) -> None:
    capability = tuple(int(part) for part in order.target.compute_capability.split("."))
    least = _LEAST.get(order.precision, (0, 0))
    if capability < least:
        raise FinalError(
            f"spec.precision.type {order.precision} needs compute capability {least[0]}.{least[1]} or later, the target"
            f" {order.target.name} has {order.target.compute_capability}; write FP16 or INT8",
            reason=Reason.PRECISION_NOT_SUPPORTED_BY_HARDWARE,
        )


def _require_no_compatibility(order: CompileOrder) -> None:
    if order.options.hardware_compatibility != "None":
        raise FinalError(
            "spec.build.hardwareCompatibility is for TensorRT, while engines of TensorRT-RTX run on every GPU of their"
            " compute capability; write None",
            reason=Reason.INVALID_SPEC,
        )
