from importlib.metadata import version

import pytest
from enginery_runtime.device import cpu_facts, device_in_hand, fits, pick
from enginery_runtime.errors import EngineDeviceMismatchError
from enginery_runtime.load import installed_version
from enginery_runtime.verify import require_runnable
from enginery_store.errors import PassingError
from enginery_store.manifest import DeviceFacts, Target
from enginery_store.reasons import Reason
from enginery_store.requests import EngineRef
from support.published import HERE, a_manifest
from support.tiny_models import double_plus_one

CPU = Target(accelerator="CPU", architecture=HERE)
H200 = Target(accelerator="GPU", architecture=HERE, compute_capability="9.0", product="NVIDIA-H200")
SLICE = H200.model_copy(update={"accelerator": "MIG", "mig_profile": "1g.18gb"})


def engine(target: Target) -> EngineRef:
    return EngineRef(target=target, key="a" * 64)


def gpu(name: str, capability: str = "9.0", multiprocessors: int = 132) -> DeviceFacts:
    return DeviceFacts(
        name=name, architecture=HERE, compute_capability=capability, multiprocessors=multiprocessors, memory_bytes=1
    )


@pytest.mark.parametrize(
    ("device", "target"),
    [(cpu_facts(), CPU), (gpu("NVIDIA H200"), H200), (gpu("NVIDIA H200 MIG 1g.18gb"), SLICE)],
)
def test_each_device_gets_the_engine_that_was_built_for_it(device: DeviceFacts, target: Target) -> None:
    assert pick([engine(CPU), engine(H200), engine(SLICE)], device).target == target


def test_a_gpu_that_no_engine_was_built_for_leaves_the_cpu() -> None:
    assert pick([engine(CPU), engine(H200)], gpu("NVIDIA A10", "8.6")).target == CPU


@pytest.mark.parametrize(
    "device",
    [
        gpu("NVIDIA H100 80GB HBM3"),
        gpu("NVIDIA H200", "8.9"),
        gpu("NVIDIA H200 MIG 2g.35gb"),
        gpu("NVIDIA H200").model_copy(update={"architecture": "other"}),
        cpu_facts(),
    ],
)
def test_nothing_but_the_same_capability_product_slice_and_architecture_fits(device: DeviceFacts) -> None:
    assert not fits(H200, device)
    assert not fits(SLICE, device)


def test_a_mismatch_lists_what_was_found_and_offered() -> None:
    with pytest.raises(
        EngineDeviceMismatchError,
        match=r"found sm90-nvidia-h200-2g\.35gb, offered sm90-nvidia-h200, sm90-nvidia-h200-1g",
    ):
        pick([engine(H200), engine(SLICE)], gpu("NVIDIA H200 MIG 2g.35gb"))


def test_without_a_device_engines_for_gpus_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(PassingError) as caught:
        device_in_hand([engine(H200)])
    assert caught.value.reason is Reason.DEVICE_UNAVAILABLE


def test_without_a_device_an_engine_for_the_cpu_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert device_in_hand([engine(H200), engine(CPU)]) == cpu_facts()


def test_an_engine_of_the_same_product_with_fewer_multiprocessors_is_not_loaded() -> None:
    built = a_manifest(double_plus_one(), target=H200, backend="TensorRT", device=gpu("NVIDIA H200"))
    with pytest.raises(EngineDeviceMismatchError, match="built on 132 multiprocessors, this NVIDIA H200 has 114"):
        require_runnable(built, gpu("NVIDIA H200", multiprocessors=114), built.backend_version)


def test_an_engine_compiled_ahead_of_time_knows_no_multiprocessors() -> None:
    built = a_manifest(double_plus_one(), target=H200, backend="TensorRTRTX", device=cpu_facts())
    require_runnable(built, gpu("NVIDIA H200"), built.backend_version)


def test_an_engine_of_another_version_is_not_loaded() -> None:
    built = a_manifest(double_plus_one(), target=H200, backend="TensorRT", backend_version="10.13.3")
    with pytest.raises(EngineDeviceMismatchError, match=r"built with TensorRT 10\.13\.3, this image has 8\.6\.1"):
        require_runnable(built, gpu("NVIDIA H200"), "8.6.1")


def test_an_image_without_the_backend_says_which_one_is_needed() -> None:
    built = a_manifest(double_plus_one(), target=H200, backend="TensorRT")
    with pytest.raises(EngineDeviceMismatchError, match="needs TensorRT, which this image does not have"):
        require_runnable(built, gpu("NVIDIA H200"), installed_version("TensorRT"))


def test_versions_are_those_that_builders_write() -> None:
    assert installed_version("ONNXRuntime") == version("onnxruntime")
    assert installed_version("TensorRTRTX") == "1.7.1"
