"""The bindings that this machine has are found, and what is missing is said in words. Real TensorRT-RTX throughout."""

import logging
import os
import subprocess
import sys

import pytest
from enginery_store.errors import FinalError
from enginery_tensorrt.library import KEPT_LINES, Line, load, member


def test_rtx_is_loaded_without_help_from_the_environment() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    code = "from enginery_tensorrt.library import load; print(load('TensorRTRTX').version)"

    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "1.7.1"


def test_library_is_loaded_once() -> None:
    library = load("TensorRTRTX")

    assert load("TensorRTRTX") is library
    assert library.strongly_typed
    assert library.trt.Builder


def test_absent_tensorrt_is_a_config_error_that_names_it() -> None:
    with pytest.raises(FinalError, match=r"cannot load TensorRT .*tensorrt_bindings.*use the image") as caught:
        load("TensorRT")
    assert caught.value.reason == "ConfigError"


def test_wheel_without_the_library_it_needs_is_a_config_error_that_names_the_library(tmp_path: object) -> None:
    (tmp_path / "tensorrt.py").write_text("raise ImportError('libnvinfer.so.10: cannot open shared object file')")  # type: ignore[operator]
    code = "from enginery_tensorrt.library import load; load('TensorRT')"

    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "cannot load TensorRT (libnvinfer.so.10: cannot open shared object file" in done.stderr


def test_member_of_another_release_is_none() -> None:
    flags = load("TensorRTRTX").trt.BuilderFlag

    assert member(flags, "TF32") is flags.TF32
    assert member(flags, "FP16") is None


def test_warnings_and_errors_are_kept_and_everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    library = load("TensorRTRTX")
    log, severity = library.fresh_log(), library.trt.ILogger.Severity
    caplog.set_level(logging.DEBUG)

    for level in (severity.INTERNAL_ERROR, severity.ERROR, severity.WARNING, severity.INFO, severity.VERBOSE):
        text = f"of {level.name} "
        log.log(level, text)  # type: ignore[attr-defined]

    assert list(log.lines) == [
        Line("INTERNAL_ERROR", "of INTERNAL_ERROR "),
        Line("ERROR", "of ERROR "),
        Line("WARNING", "of WARNING "),
    ]
    assert [(record.levelname, record.__dict__["text"]) for record in caplog.records] == [
        ("ERROR", "of INTERNAL_ERROR"),
        ("ERROR", "of ERROR"),
        ("WARNING", "of WARNING"),
        ("DEBUG", "of INFO"),
    ]


def test_last_lines_are_kept_and_a_fresh_log_has_none() -> None:
    library = load("TensorRTRTX")
    log = library.fresh_log()
    for number in range(KEPT_LINES + 5):
        log.log(library.trt.ILogger.Severity.ERROR, str(number))  # type: ignore[attr-defined]

    assert [log.lines[0].text, log.lines[-1].text] == ["5", str(KEPT_LINES + 4)]
    assert not library.fresh_log().lines


def test_noise_of_a_machine_without_a_gpu_is_left_out() -> None:
    library = load("TensorRTRTX")
    log = library.fresh_log()

    builder = library.trt.Builder(log)
    network = builder.create_network(0)
    plan = builder.build_serialized_network(network, builder.create_builder_config())

    assert plan is None
    assert [line.text for line in log.lines if "catchCudaError" in line.text or "Thread context" in line.text] == []
    assert any("at least one output" in line.text for line in log.lines)
