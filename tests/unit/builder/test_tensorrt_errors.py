"""TensorRT's failure texts become reasons and sentences that say what to do."""

import json
from pathlib import Path
from typing import Any

import pytest
from enginery_builder.tensorrt.errors import ParserFault, failure
from enginery_builder.wording import MESSAGE_LIMIT
from enginery_store.reasons import Reason
from enginery_tensorrt.library import Line

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "input" / "tensorrt_failures.json").read_text()
)

QUOTED = [
    # what users of 8.x to 11.x saw
    (
        "10: Could not find any implementation for node {ForeignNode[onnx::MatMul_1...Add_2]}.",
        Reason.BUILD_OUT_OF_MEMORY,
        "spec.build.workspaceMiB",
    ),
    (
        "[tactic.cpp] Requested amount of GPU memory (17179869184 bytes) could not be allocated.",
        "BuildOutOfMemory",
        "max",
    ),
    ("Error Code 1: Cuda Runtime (out of memory)", "BuildOutOfMemory", "larger slice"),
    ("std::bad_alloc", "BuildOutOfMemory", "ran out of memory"),
    ("CUDA initialization failure with error: 35", "DeviceUnavailable", "no usable GPU"),
    ("Unable to determine GPU memory usage: no CUDA-capable device is detected", "DeviceUnavailable", "no usable GPU"),
    (
        (
            "WeightsContext.cpp:203: ONNX external weights offset/length out of range for file /models/w.bin (offset=0,"
            " length=32768, file size=1000)"
        ),
        "SourceInvalid",
        "weights file w.bin is shorter",
    ),
    (
        (
            "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Optimization profile 0 provides number of"
            " elements in shape tensor shp to be 1. This doesn't match product of tensor dimensions [2].)"
        ),
        "InvalidShapes",
        "input shp holds [2] values",
    ),
]


def lines(*texts: str) -> list[Line]:
    return [Line("ERROR", text) for text in texts]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_failure_is_told_in_words(name: str) -> None:
    case = RECORDED[name]

    error = failure(lines(*case["log"]), [ParserFault(*fault) for fault in case["faults"]])

    assert (error.reason, error.message) == (case["reason"], case["message"])
    assert "; " in error.message or ": " in error.message, "says nothing of what to do"
    assert error.retryable == (error.reason is Reason.DEVICE_UNAVAILABLE)


@pytest.mark.parametrize(("text", "reason", "part"), QUOTED)
def test_quoted_failure_is_told_in_words(text: str, reason: str, part: str) -> None:
    error = failure(lines(text))

    assert error.reason == reason
    assert part in error.message


def test_kernels_skipped_for_memory_explain_a_failure_without_a_cause() -> None:
    skipped = Line("WARNING", "Skipping tactic 3 due to insufficient memory on requested size of 4831838208")

    error = failure([skipped, *lines("[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime ()")])

    assert error.reason is Reason.BUILD_OUT_OF_MEMORY


def test_line_that_names_the_weights_file_is_preferred_to_the_parsers_own_error() -> None:
    error = failure(
        lines("WeightsContext.cpp:203: Failed to open file: /var/lib/enginery/x/w.data"),
        [ParserFault("INVALID_GRAPH", "importInitializers", "Failed to import initializer: W1")],
    )

    assert "keeps weights in w.data" in error.message


def test_unknown_text_is_quoted_without_its_function_and_source_file() -> None:
    error = failure(
        lines(
            "IBuilder::buildSerializedNetwork: Error Code 9: Internal Error (the moon is in the wrong phase. In compute"
            " at /_src/optimizer/moon.cpp:12)"
        )
    )

    assert error.reason is Reason.BUILD_FAILED
    assert error.message.startswith("TensorRT failed: the moon is in the wrong phase; compare")


def test_silence_is_a_failure_too() -> None:
    assert "gave no cause" in failure([]).message


def test_names_from_the_model_are_escaped_and_cut() -> None:
    fault = ParserFault("UNSUPPORTED_NODE", "checkDet", "false", operator="Det\x1b[31m", node="n" * 5000)

    message = failure([], [fault]).message

    assert "\x1b" not in message
    assert len(message) < MESSAGE_LIMIT
