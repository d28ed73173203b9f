"""Settings reach the library by their names, and what a release lacks is refused in words. Real TensorRT-RTX."""

from dataclasses import replace
from typing import Any

import pytest
from enginery_builder.tensorrt.backend import TensorRTBackend
from enginery_builder.tensorrt.config import (
    allow_precision,
    leave_out_external_kernels,
    limit_workspace,
    set_compatibility,
)
from enginery_store.errors import FinalError, PassingError
from enginery_store.manifest import Target
from enginery_tensorrt.library import Library, load

GIB = 1 << 30


@pytest.fixture
def library() -> Library:
    return load("TensorRTRTX")


@pytest.fixture
def config(library: Library) -> Any:
    return library.trt.Builder(library.fresh_log()).create_builder_config()


@pytest.mark.parametrize(("asked", "limit"), [(None, 9 * GIB), (512, 512 << 20)])
def test_workspace_is_as_asked_or_half_of_the_device(
    library: Library, config: Any, asked: int | None, limit: int
) -> None:
    limit_workspace(library, config, asked, memory=18 * GIB)

    assert config.get_memory_pool_limit(library.trt.MemoryPoolType.WORKSPACE) == limit


@pytest.mark.parametrize(("asked", "reaches"), [("None", False), ("AmperePlus", True), ("SameComputeCapability", True)])
def test_hardware_compatibility_reaches_the_library(library: Library, config: Any, asked: str, reaches: bool) -> None:
    set_compatibility(library, config, asked)

    said = [line.text for line in library.log.lines]  # RTX has levels, and answers that it does without
    assert any("setHardwareCompatibilityLevel" in text for text in said) == reaches


def test_hardware_compatibility_that_the_release_lacks_is_refused(library: Library, config: Any) -> None:
    with pytest.raises(FinalError, match=r"spec\.build\.hardwareCompatibility EveryGPU is unknown to TensorRT 1\.7\.1"):
        set_compatibility(library, config, "EveryGPU")


@pytest.mark.parametrize("precision", ["FP32", "FP16", "BF16", "INT8", "FP8"])
def test_strongly_typed_network_needs_no_flags(library: Library, config: Any, precision: str) -> None:
    before = config.flags

    allow_precision(library, config, precision)

    assert config.flags == before


@pytest.mark.parametrize("precision", ["BF16", "FP8"])
def test_precision_that_a_weakly_typed_release_lacks_is_refused(library: Library, config: Any, precision: str) -> None:
    weak = replace(library, strongly_typed=False)

    with pytest.raises(FinalError, match=rf"{precision} needs TensorRT 10 or later.*write FP16 or INT8") as caught:
        allow_precision(weak, config, precision)
    assert caught.value.reason == "InvalidSpec"


def test_fp32_needs_no_flag_of_a_weakly_typed_release(library: Library, config: Any) -> None:
    before = config.flags

    allow_precision(replace(library, strongly_typed=False), config, "FP32")

    assert config.flags == before


@pytest.mark.parametrize(("strongly_typed", "sources_left"), [(True, True), (False, False)])
def test_only_8_6_is_kept_from_kernels_of_other_libraries(
    library: Library, config: Any, strongly_typed: bool, sources_left: bool
) -> None:
    leave_out_external_kernels(replace(library, strongly_typed=strongly_typed), config)

    assert bool(config.get_tactic_sources()) == sources_left


def test_pod_without_a_gpu_may_be_tried_again() -> None:
    target = Target(accelerator="GPU", compute_capability="9.0", product="NVIDIA-H200")

    with pytest.raises(PassingError) as caught:
        TensorRTBackend().require_target(target)
    assert caught.value.reason == "DeviceUnavailable"
