"""Engines that are refused. What runs needs a GPU: benchmarks/gpu/check.py."""

from pathlib import Path

import pytest
from enginery_builder.backend import CompileOrder
from enginery_builder.tensorrt.rtx import RTXBackend
from enginery_store.errors import PassingError
from enginery_store.manifest import BuildOptions, InputRange, ShapeProfile, Target
from enginery_store.reasons import Reason
from enginery_tensorrt.engine import open_engine, refusal
from enginery_tensorrt.errors import EngineRefusedError
from enginery_tensorrt.library import load
from enginery_tensorrt.session import EngineSession
from support.tiny_models import double_plus_one


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engine")
    (folder / "model.onnx").write_bytes(double_plus_one())
    order = CompileOrder(
        model=folder / "model.onnx",
        folder=folder,
        name="engine",
        profiles=[ShapeProfile(name="p", inputs=[InputRange(name="x", min=[1, 4], opt=[2, 4], max=[8, 4])])],
        options=BuildOptions(),
        precision="FP32",
        target=Target(accelerator="GPU", compute_capability="8.6", product="NVIDIA-A10"),
    )
    return RTXBackend().compile(order).files[0]


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.usefixtures("no_device")
def test_a_sound_engine_without_a_device_is_trouble_that_passes(plan: Path) -> None:
    with pytest.raises(PassingError) as caught:
        open_engine(plan, load("TensorRTRTX"))
    assert caught.value.reason is Reason.DEVICE_UNAVAILABLE


@pytest.mark.usefixtures("no_device")
def test_a_session_without_a_device_is_trouble_that_passes(plan: Path) -> None:
    with pytest.raises(PassingError, match="cudaError") as caught:
        EngineSession(plan, load("TensorRTRTX"))
    assert caught.value.reason is Reason.DEVICE_UNAVAILABLE


def truncated(plan: bytes) -> bytes:
    return plan[:-100]


def lengthened(plan: bytes) -> bytes:
    return plan + b"x" * 100


def another_file(plan: bytes) -> bytes:
    return b"<html>403 AccessDenied</html>".ljust(len(plan))


def empty(_plan: bytes) -> bytes:
    return b""


@pytest.mark.usefixtures("no_device")
@pytest.mark.parametrize("damage", [truncated, lengthened, another_file, empty])
def test_a_damaged_engine_is_refused_in_the_library_s_words(plan: Path, tmp_path: Path, damage: object) -> None:
    damaged = tmp_path / "engine.plan"
    damaged.write_bytes(damage(plan.read_bytes()))  # type: ignore[operator]
    with pytest.raises(EngineRefusedError, match=r"TensorRTRTX 1\.7\.1 does not take the engine: \S") as caught:
        open_engine(damaged, load("TensorRTRTX"))
    assert caught.value.reason is Reason.ENGINE_LOAD_FAILED


@pytest.mark.parametrize(
    ("line", "reason", "words"),
    [
        (
            "The engine plan file is not compatible with this version of TensorRT, expecting 10.14.1.48 got 10.13.3.9",
            Reason.ENGINE_DEVICE_MISMATCH,
            "another version",
        ),
        (
            "Trying to load an engine created with incompatible serialization version (239 != 240).",
            Reason.ENGINE_DEVICE_MISMATCH,
            "another version",
        ),
        (
            "The engine plan file is generated on an incompatible device, expecting compute 8.6 got compute 8.0",
            Reason.ENGINE_DEVICE_MISMATCH,
            "another kind of device",
        ),
        (
            "Using an engine plan file across different models of devices is not recommended",
            Reason.ENGINE_DEVICE_MISMATCH,
            "another kind of device",
        ),
        ("Magic tag does not match", Reason.ENGINE_LOAD_FAILED, "does not take the engine"),
        ("CUDA initialization failure with error: 35", Reason.DEVICE_UNAVAILABLE, "finds no device"),
    ],
)
def test_a_line_of_tensorrt_says_what_has_to_be_done(line: str, reason: Reason, words: str) -> None:
    error = refusal(["something before", line], load("TensorRTRTX"))
    assert error.reason is reason
    assert words in error.message
    assert line in error.message


def test_silence_is_said_too() -> None:
    assert "it said nothing" in refusal([], load("TensorRTRTX")).message
