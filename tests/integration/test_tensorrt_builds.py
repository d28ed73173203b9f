"""Real builds with TensorRT-RTX, which needs no GPU: what is compiled, and what is refused in words."""

import importlib.resources
from pathlib import Path
from typing import Any

import onnx
import pytest
from enginery_builder.backend import Compiled, CompileOrder
from enginery_builder.tensorrt.progress import Pace, _monitor
from enginery_builder.tensorrt.rtx import COMPUTE_CAPABILITIES, RTXBackend
from enginery_builder.tensorrt.timings import Timings
from enginery_store.errors import FinalError
from enginery_store.manifest import BuildOptions, Target
from enginery_store.reasons import Reason
from enginery_tensorrt.library import load
from support.ocr_models import ocr_model
from support.onnx_models import FLOAT, mlp, model, node, one, value, with_external_data
from support.tensorrt_models import BATCHES, at_precision, profile

TARGET_BITS = {"7.5": 0x01, "8.0": 0x02, "8.6": 0x04, "8.9": 0x08, "12.0": 0x10, "12.1": 0x20}
"""Byte 32 of a plan: for which compute capabilities it holds kernels."""


def gpu(capability: str, product: str = "NVIDIA-A10") -> Target:
    return Target(accelerator="GPU", architecture="amd64", compute_capability=capability, product=product)


def compiled(source: onnx.ModelProto | Path, folder: Path, **changes: Any) -> Compiled:
    """Build a model of free batch for SM86, unless told otherwise."""
    path = source if isinstance(source, Path) else folder / "model.onnx"
    if isinstance(source, onnx.ModelProto):
        path.write_bytes(source.SerializeToString())
    fields: dict[str, Any] = {
        "model": path,
        "folder": folder,
        "name": "engine",
        "profiles": [BATCHES],
        "options": BuildOptions(),
        "precision": "FP32",
        "target": gpu("8.6"),
    }
    return RTXBackend().compile(CompileOrder(**(fields | changes)))


def refused(source: onnx.ModelProto, folder: Path, **changes: Any) -> tuple[Reason, str]:
    with pytest.raises(FinalError) as caught:
        compiled(source, folder, **changes)
    assert not (folder / "engine.plan").exists()
    return caught.value.reason, caught.value.message


def require_plan(made: Compiled, capability: str) -> None:
    """The file is a whole plan for exactly this compute capability."""
    plan = made.files[0].read_bytes()
    assert made.files[0].name == "engine.plan"
    assert plan[:4] == b"vtrt"
    assert int.from_bytes(plan[16:24], "little") == len(plan)
    assert plan[32] == TARGET_BITS[capability]


@pytest.mark.parametrize("capability", ["8.6", "8.9"])
@pytest.mark.parametrize("precision", ["FP32", "FP16", "BF16", "INT8"])
def test_model_of_every_precision_is_compiled(tmp_path: Path, precision: str, capability: str) -> None:
    made = compiled(at_precision(precision), tmp_path, precision=precision, target=gpu(capability))

    require_plan(made, capability)
    assert made.layers == {}
    assert (made.timing_cache, made.timing_cache_state) == (None, "Unused")


@pytest.mark.parametrize("capability", COMPUTE_CAPABILITIES)
def test_every_compute_capability_of_the_library_is_a_target(tmp_path: Path, capability: str) -> None:
    require_plan(compiled(at_precision("FP16"), tmp_path, precision="FP16", target=gpu(capability)), capability)


def test_fp8_is_compiled_where_the_hardware_has_it(tmp_path: Path) -> None:
    require_plan(compiled(at_precision("FP8"), tmp_path, precision="FP8", target=gpu("8.9")), "8.9")


@pytest.mark.parametrize(
    ("precision", "capability", "part"),
    [
        ("FP8", "8.6", "FP8 needs compute capability 8.9 or later, the target sm86-nvidia-a10 has 8.6"),
        ("BF16", "7.5", "BF16 needs compute capability 8.0 or later"),
        ("FP32", "7.5", "operation fc1 has no FP32 kernel on compute capability 7.5"),
    ],
)
def test_precision_that_the_hardware_lacks_is_refused(
    tmp_path: Path, precision: str, capability: str, part: str
) -> None:
    reason, message = refused(at_precision(precision), tmp_path, precision=precision, target=gpu(capability))

    assert reason is Reason.PRECISION_NOT_SUPPORTED_BY_HARDWARE
    assert part in message
    assert "write" in message


@pytest.mark.parametrize("capability", ["9.0", "10.0", "6.1", ""])
def test_gpu_that_the_library_does_not_compile_for_is_refused(capability: str) -> None:
    with pytest.raises(FinalError, match=r"write spec\.build\.backend TensorRT") as caught:
        RTXBackend().require_target(gpu(capability, "NVIDIA-H200"))
    assert caught.value.reason is Reason.INVALID_SPEC


def test_cpu_is_no_target() -> None:
    with pytest.raises(FinalError, match="cpu-amd64") as caught:
        RTXBackend().require_target(Target(accelerator="CPU", architecture="amd64"))
    assert caught.value.reason is Reason.ENGINE_DEVICE_MISMATCH


def test_backend_tells_its_version_and_the_cpu_it_compiles_on(tmp_path: Path) -> None:
    assert RTXBackend().version() == "1.7.1"
    assert RTXBackend().device().multiprocessors > 0
    assert RTXBackend().open(tmp_path / "engine.plan") is None


@pytest.mark.parametrize("precision", ["FP16", "BF16", "INT8", "FP8"])
def test_fp32_graph_is_not_sold_as_another_precision(tmp_path: Path, precision: str) -> None:
    reason, message = refused(mlp(), tmp_path, precision=precision, target=gpu("8.9"))

    assert reason is Reason.BUILD_FAILED
    assert f"{precision} was asked for, but no layer of the model computes in it" in message


def test_constants_in_fp16_alone_do_not_make_an_fp16_model(tmp_path: Path) -> None:
    source = at_precision("FP16")
    stored = model(
        [node("Cast", ["W1"], ["W"], to=FLOAT), node("MatMul", ["x", "W"], ["y"])],
        [value("x", FLOAT, ["N", 64])],
        [value("y", FLOAT, ["N", 128])],
        [source.graph.initializer[0]],
    )

    assert refused(stored, tmp_path, precision="FP16")[0] is Reason.BUILD_FAILED


def test_model_of_fixed_shapes_needs_no_profile(tmp_path: Path) -> None:
    require_plan(compiled(mlp(4), tmp_path, profiles=[]), "8.6")


def test_model_of_fixed_shapes_takes_a_profile_of_these_shapes(tmp_path: Path) -> None:
    require_plan(compiled(mlp(4), tmp_path, profiles=[profile(x=([4, 64],) * 3)]), "8.6")


def test_every_profile_gets_kernels_of_its_own(tmp_path: Path) -> None:
    single = compiled(mlp(), tmp_path).files[0].stat().st_size
    several = compiled(mlp(), tmp_path, profiles=[profile(str(batch), x=([batch, 64],) * 3) for batch in (1, 4, 8)])

    require_plan(several, "8.6")
    assert several.files[0].stat().st_size > single


def test_free_dimensions_without_a_profile_are_named(tmp_path: Path) -> None:
    source = model(
        [node("MatMul", ["a", "b"], ["y"])],
        [value("a", FLOAT, ["N", 4]), value("b", FLOAT, [4, "M"])],
        [value("y", FLOAT, ["N", "M"])],
    )

    reason, message = refused(source, tmp_path, profiles=[])

    assert reason is Reason.INVALID_SHAPES
    assert "input a [N, 4], input b [4, N] are free" in message
    assert "write spec.shapes.profiles with min, opt and max" in message


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (profile(), "default: it has no range for input x [N, 64]; add min, opt and max"),
        (profile(x=([16, 64], [8, 64], [32, 64])), "input x needs min <= opt <= max"),
        (profile(x=([1, 64], [64, 64], [32, 64])), "input x needs min <= opt <= max"),
        (profile(x=([1, 64, 1],) * 3), "input x has 2 dimensions, the profile gives 3"),
        (profile(x=([1, 63],) * 3), "input x, dimension 1 is fixed to 64 in the model, the profile says 63; write 64"),
        (profile(x=([-1, 64], [1, 64], [1, 64])), "do not fit input x [N, 64]; write one number of 0 or more"),
    ],
)
def test_profile_that_does_not_fit_is_refused_by_name(tmp_path: Path, wrong: Any, part: str) -> None:
    reason, message = refused(mlp(), tmp_path, profiles=[wrong])

    assert reason is Reason.INVALID_SHAPES
    assert message.startswith("spec.shapes.profiles")
    assert part in message


RESHAPE = model(
    [node("Reshape", ["x", "shape"], ["y"])],
    [value("x", FLOAT, [2, 8]), value("shape", onnx.TensorProto.INT64, [2])],
    [value("y", FLOAT, ["A", "B"])],
)


def test_input_whose_values_are_a_shape_takes_ranges_of_its_values(tmp_path: Path) -> None:
    require_plan(compiled(RESHAPE, tmp_path, profiles=[profile(shape=([1, 4], [2, 8], [4, 16]))]), "8.6")


@pytest.mark.parametrize("profiles", [[], [profile()], [profile(shape=([2],) * 3)]])
def test_input_whose_values_are_a_shape_needs_ranges_of_its_values(tmp_path: Path, profiles: Any) -> None:
    reason, message = refused(RESHAPE, tmp_path, profiles=profiles)

    assert reason is Reason.INVALID_SHAPES
    assert "input shape" in message


def test_model_with_external_data_is_compiled(tmp_path: Path) -> None:
    source, data = with_external_data(mlp(), "model.onnx.data")
    (tmp_path / "model.onnx").write_bytes(source)
    (tmp_path / "model.onnx.data").write_bytes(data)

    require_plan(compiled(tmp_path / "model.onnx", tmp_path), "8.6")


def test_absent_external_data_are_named(tmp_path: Path) -> None:
    source = onnx.load_model_from_string(with_external_data(mlp(), "model.onnx.data")[0])

    reason, message = refused(source, tmp_path)

    assert reason is Reason.SOURCE_INVALID
    assert message.startswith("the model keeps weights in model.onnx.data, which is not there")


def test_operator_that_the_library_lacks_is_named(tmp_path: Path) -> None:
    source = one("Det", (FLOAT, [3, 3]), (FLOAT, []), "det")

    reason, message = refused(source, tmp_path, profiles=[])

    assert reason is Reason.UNSUPPORTED_OPERATOR
    assert message.startswith("operator Det (node det) is not supported by TensorRT")


def test_hardware_compatibility_is_not_for_this_backend(tmp_path: Path) -> None:
    reason, message = refused(mlp(), tmp_path, options=BuildOptions(hardware_compatibility="AmperePlus"))

    assert reason is Reason.INVALID_SPEC
    assert "spec.build.hardwareCompatibility" in message


def test_optimization_level_reaches_the_library(tmp_path: Path) -> None:
    require_plan(compiled(mlp(), tmp_path, options=BuildOptions(optimization_level=0)), "8.6")


def test_progress_of_a_build_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    library = load("TensorRTRTX")
    builder = library.trt.Builder(library.fresh_log())
    network = builder.create_network(0)
    parser = library.trt.OnnxParser(network, library.log)
    assert parser.parse(mlp(4).SerializeToString())
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(library.trt.ComputeCapability.SM86, 0)
    config.progress_monitor = _monitor(library.trt, Pace(0.0))
    caplog.set_level("INFO", "enginery_builder")

    assert builder.build_serialized_network(network, config) is not None

    told = [record.__dict__ for record in caplog.records if record.message == "compiling"]
    assert "Building engine" in {line["phase"] for line in told}
    assert all(1 <= line["step"] <= line["steps"] for line in told)


def test_pace_lets_the_first_event_wait_for_its_time() -> None:
    assert not Pace(3600).due()
    assert Pace(0.0).due()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # RTX keeps no timings, but reads a cache like TensorRT
def test_timings_that_cannot_be_read_are_a_warning_and_a_cold_start(caplog: pytest.LogCaptureFixture) -> None:
    library = load("TensorRTRTX")
    config = library.trt.Builder(library.fresh_log()).create_builder_config()

    timings = Timings(config, b"damaged on the way")

    assert timings.state == "Cold"
    assert timings.news() is None
    assert "stored timings do not fit, starting without" in caplog.messages


@pytest.mark.parametrize("capability", ["8.6", "8.9"])
def test_magika_is_compiled(tmp_path: Path, capability: str) -> None:
    source = importlib.resources.files("magika") / "models/standard_v3_3/model.onnx"
    (tmp_path / "model.onnx").write_bytes(source.read_bytes())
    batches = profile(bytes=([1, 2048], [4, 2048], [16, 2048]))

    require_plan(compiled(tmp_path / "model.onnx", tmp_path, profiles=[batches], target=gpu(capability)), capability)


@pytest.mark.parametrize("capability", ["8.6", "8.9"])
@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("det", ([1, 3, 32, 32], [1, 3, 640, 640], [1, 3, 960, 960])),
        ("rec", ([1, 3, 48, 48], [6, 3, 48, 320], [6, 3, 48, 1280])),
    ],
    ids=["detection", "recognition"],
)
def test_pp_ocr_is_compiled(tmp_path: Path, name: str, ranges: Any, capability: str) -> None:
    source = ocr_model(name)

    made = compiled(source, tmp_path, profiles=[profile(x=ranges)], target=gpu(capability))

    require_plan(made, capability)
    assert made.files[0].stat().st_size > source.stat().st_size // 2
