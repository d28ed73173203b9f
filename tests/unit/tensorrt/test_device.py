import platform

import pytest
from enginery_store.errors import PassingError
from enginery_store.manifest import DeviceFacts
from enginery_store.reasons import Reason
from enginery_tensorrt.device import cpu_architecture, device_facts, product_of, target_of


def gpu(name: str) -> DeviceFacts:
    return DeviceFacts(name=name, architecture="amd64", compute_capability="9.0", multiprocessors=132)


@pytest.mark.parametrize(
    ("name", "product", "profile"),
    [
        ("NVIDIA H200", "NVIDIA-H200", ""),
        ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", ""),
        ("NVIDIA H200 MIG 1g.18gb", "NVIDIA-H200", "1g.18gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb+me", "NVIDIA-A100-SXM4-40GB", "1g.5gb+me"),
        ("Tesla T4", "Tesla-T4", ""),
    ],
)
def test_cuda_s_name_becomes_the_label_of_gpu_feature_discovery(name: str, product: str, profile: str) -> None:
    assert product_of(gpu(name)) == (product, profile)


def test_a_slice_and_its_gpu_are_different_targets() -> None:
    whole, slice_ = target_of(gpu("NVIDIA H200")), target_of(gpu("NVIDIA H200 MIG 1g.18gb"))
    assert (whole.accelerator, slice_.accelerator) == ("GPU", "MIG")
    assert whole.name == "sm90-nvidia-h200"
    assert slice_.name == "sm90-nvidia-h200-1g.18gb"


def test_without_a_device_the_words_say_what_a_pod_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(PassingError, match="the pod needs a GPU or MIG resource") as caught:
        device_facts()
    assert caught.value.reason is Reason.DEVICE_UNAVAILABLE
    assert "cudaError" in caught.value.message


def test_the_architecture_is_in_kubernetes_words() -> None:
    assert cpu_architecture() == {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
