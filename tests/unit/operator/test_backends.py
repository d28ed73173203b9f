"""Which device computes what, and what each backend compiles for: the tables that refusals are made of."""

import pytest
from enginery_operator.backends import compiles_for, computes
from enginery_operator.targets import Offer
from support.installation import a_node, some_offers

PRECISIONS = ("FP32", "FP16", "BF16", "INT8", "FP8")
GPUS: dict[str, tuple[str, bool]] = {
    # compute capability: (precisions it computes, whether TensorRT-RTX compiles for it)
    "7.0": ("FP32", False),
    "7.5": ("FP32 FP16 INT8", True),
    "8.0": ("FP32 FP16 BF16 INT8", True),
    "8.6": ("FP32 FP16 BF16 INT8", True),
    "8.9": ("FP32 FP16 BF16 INT8 FP8", True),
    "9.0": ("FP32 FP16 BF16 INT8 FP8", False),
    "10.0": ("FP32 FP16 BF16 INT8 FP8", False),
    "12.0": ("FP32 FP16 BF16 INT8 FP8", True),
    "12.1": ("FP32 FP16 BF16 INT8 FP8", True),
}


def gpu(capability: str) -> Offer:
    return some_offers(a_node().with_gpu("NVIDIA-X", capability=capability))[1]


@pytest.mark.parametrize("capability", GPUS)
def test_a_gpu_computes_what_it_has_units_for(capability: str) -> None:
    precisions, rtx = GPUS[capability]
    target = gpu(capability).target
    assert " ".join(name for name in PRECISIONS if computes(target, name)) == precisions
    assert computes(target, "Auto") is ("FP16" in precisions)
    assert compiles_for("TensorRTRTX", target) is rtx
    assert compiles_for("TensorRT", target) is True


def test_a_cpu_computes_fp32_and_int8() -> None:
    target = some_offers()[0].target
    assert [name for name in (*PRECISIONS, "Auto") if computes(target, name)] == ["FP32", "INT8", "Auto"]


@pytest.mark.parametrize("capability", ["", "x", "x.y", "9"])
def test_labels_that_hold_no_capability_harm_nobody(capability: str) -> None:
    assert computes(gpu(capability).target, "FP8") is (capability == "9")
