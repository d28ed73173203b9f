"""Builder settings, by what they are called in the spec. Called by `compiler` and the two backends.

Names of enums are asked for by name and refused in words where a release does not have them.
"""

from typing import TYPE_CHECKING

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_tensorrt.library import Library, member

if TYPE_CHECKING:
    import tensorrt as trt

_MIB = 1 << 20

_COMPATIBILITY = {"SameComputeCapability": "SAME_COMPUTE_CAPABILITY", "AmperePlus": "AMPERE_PLUS"}
"""From spec.build.hardwareCompatibility to TensorRT's levels."""

_WEAK_FLAGS = {"FP32": (), "FP16": ("FP16",), "BF16": ("BF16",), "INT8": ("INT8", "FP16")}
"""Builder flags of networks that do not take their precisions from the graph alone (8.6): what a layer may use. INT8
layers stand among FP16 ones, so they need both."""


def allow_precision(library: Library, config: "trt.IBuilderConfig", precision: str) -> None:
    """Let layers use the precision of the model; nothing to do where the network is strongly typed.

    Raises FinalError (InvalidSpec) for one that this release cannot compute in.
    """
    trt = library.trt
    if library.strongly_typed:
        return
    flags = [member(trt.BuilderFlag, name) for name in _WEAK_FLAGS.get(precision, ())]
    if precision not in _WEAK_FLAGS or None in flags:
        raise FinalError(
            f"spec.precision.type {precision} needs TensorRT 10 or later, this builder has {library.version}; write"
            " FP16 or INT8",
            reason=Reason.INVALID_SPEC,
        )
    for flag in flags:
        config.set_flag(flag)


def limit_workspace(library: Library, config: "trt.IBuilderConfig", workspace_mib: int | None, memory: int) -> None:
    """Bound the scratch memory of one layer: as asked, else half of the device's `memory` in bytes.

    Without a bound the builder may choose kernels that leave the runtime no room for weights and a second context.
    """
    trt = library.trt
    limit = workspace_mib * _MIB if workspace_mib else memory // 2
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, limit)


def set_compatibility(library: Library, config: "trt.IBuilderConfig", asked: str) -> None:
    """On which other devices the engine shall run. Raises FinalError (InvalidSpec) for what this release lacks."""
    trt = library.trt
    if asked == "None":
        return
    level = member(trt.HardwareCompatibilityLevel, _COMPATIBILITY.get(asked, asked))
    if level is None:
        raise FinalError(
            f"spec.build.hardwareCompatibility {asked} is unknown to TensorRT {library.version}; write None, or take a"
            " builder with TensorRT 10 or later",
            reason=Reason.INVALID_SPEC,
        )
    config.hardware_compatibility_level = level


def leave_out_external_kernels(library: Library, config: "trt.IBuilderConfig") -> None:
    """Choose among TensorRT's own kernels only.

    8.6 tries those of cuBLAS and cuDNN by default, and fails on the first layer where an image has neither; later
    releases ask for them no more. Of its optional sources none is left, which is the setting that was measured.
    """
    if not library.strongly_typed:
        config.set_tactic_sources(0)
