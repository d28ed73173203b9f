"""What a container leaves behind for each way a run can end."""

import errno
import json
import re
from pathlib import Path

import pytest
from enginery_builder import verdict
from enginery_builder.onnxruntime_errors import converted
from enginery_builder.settings import Settings
from enginery_builder.wording import MESSAGE_LIMIT, bounded, library_text
from enginery_store.errors import EngineryError, FinalError, PassingError, StoreAccessError, StoreTLSError
from enginery_store.reasons import FINAL_REASONS, Reason
from enginery_store.requests import EXIT_CODES, TERMINATION_LIMIT_BYTES
from enginery_store.wording import listed, quoted

ENDS: dict[str, tuple[BaseException, Reason, int, bool]] = {
    "a source that is none": (FinalError("x", reason=Reason.SOURCE_INVALID), Reason.SOURCE_INVALID, 11, False),
    "denied": (StoreAccessError("x"), Reason.ACCESS_DENIED, 14, False),
    "an unknown operator": (
        FinalError("x", reason=Reason.UNSUPPORTED_OPERATOR),
        Reason.UNSUPPORTED_OPERATOR,
        17,
        False,
    ),
    "out of memory": (MemoryError(), Reason.BUILD_OUT_OF_MEMORY, 12, False),
    "a full disk": (OSError(errno.ENOSPC, "full"), Reason.CONFIG_ERROR, 27, False),
    "a store that is away": (PassingError("x"), Reason.STORE_UNAVAILABLE, 50, True),
    "an untrusted store": (StoreTLSError("x"), Reason.STORE_TLS_FAILED, 51, True),
    "a bug": (KeyError("secret detail"), Reason.BUILD_FAILED, 1, True),
    "another OS error": (OSError(errno.EIO, "io"), Reason.BUILD_FAILED, 1, True),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
def test_error_becomes_reason_code_and_retryable(case: tuple[BaseException, Reason, int, bool]) -> None:
    error, reason, code, retryable = case

    left = verdict.failure(error, "build")

    assert (left.message.reason, left.exit_code, left.message.retryable) == (reason, code, retryable)
    assert "secret detail" not in left.message.message


def test_bug_in_prepare_is_a_failed_conversion() -> None:
    assert verdict.failure(KeyError("x"), "prepare").message.reason == Reason.CONVERSION_FAILED


@pytest.mark.parametrize("reason", EXIT_CODES)
def test_every_reason_with_a_code_ends_with_it_and_final_ones_are_below_fifty(reason: Reason) -> None:
    assert verdict.failure(EngineryError("x", reason=reason), "build").exit_code == EXIT_CODES[reason]
    assert (reason in FINAL_REASONS) == (EXIT_CODES[reason] < 50)


@pytest.mark.parametrize(
    ("command", "bound"),
    [
        ("build", "spec.build.timeoutSeconds"),
        ("prepare", "config.jobs.prepareTimeoutSeconds"),
        ("fetch", "config.jobs.prepareTimeoutSeconds"),
    ],
)
def test_timeout_names_the_field_to_raise(command: str, bound: str) -> None:
    left = verdict.timed_out(command, 60)

    assert (left.exit_code, left.message.reason) == (26, Reason.BUILD_TIMEOUT)
    assert bound in left.message.message


def test_message_fits_the_kubelet_whatever_is_in_it() -> None:
    left = verdict.failure(FinalError('"\\é' * 5000, reason=Reason.SOURCE_INVALID), "build")

    assert len(left.message.message) <= MESSAGE_LIMIT
    assert len(left.message.to_log()) <= TERMINATION_LIMIT_BYTES
    assert json.loads(left.message.to_log())["reason"] == "SourceInvalid"


CUSTOM = "Load model from /w/m.onnx failed:Fatal error: com.acme:Mine(-1) is not a registered function/op"
NO_KERNEL = "NOT_IMPLEMENTED : Could not find an implementation for MatMul(13) node with name 'fc'"
NO_OP = """Load model from /w/m.onnx failed:This is an invalid model. In Node, ("bad", NotAnOp, "", -1) :
("x": tensor(float),) -> ("y": tensor(float),) , Error No Op registered for NotAnOp with domain_version of 17"""
TEXTS: dict[str, tuple[str, Reason, str]] = {
    "a custom operator": (CUSTOM, Reason.UNSUPPORTED_OPERATOR, "operator com.acme.Mine"),
    "an operator without kernel": (NO_KERNEL, Reason.UNSUPPORTED_OPERATOR, "operator MatMul (node fc)"),
    "an operator of no opset": (NO_OP, Reason.UNSUPPORTED_OPERATOR, "operator NotAnOp (node bad)"),
    "no memory": (
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : bfc_arena.cc:376 Failed to allocate memory for requested buffer",
        Reason.BUILD_OUT_OF_MEMORY,
        "ran out of memory",
    ),
    "bad_alloc": ("std::bad_alloc", Reason.BUILD_OUT_OF_MEMORY, "give the build more memory"),
    "anything else": ("Type Error: Type parameter (T) of Optype (Add)", Reason.BUILD_FAILED, "Optype (Add)"),
}


@pytest.mark.parametrize("case", TEXTS.values(), ids=TEXTS.keys())
def test_library_text_becomes_a_reason(case: tuple[str, Reason, str]) -> None:
    text, reason, words = case

    error = converted(RuntimeError(text), Reason.BUILD_FAILED)

    assert error.reason == reason
    assert words in error.message
    assert "/w/" not in error.message


def test_library_text_loses_paths_and_signatures() -> None:
    text = (
        "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Reshape node. Name:'r' Status"
        " Message: /onnxruntime_src/onnxruntime/core/reshape_helper.h:91 onnxruntime::ReshapeHelper::ReshapeHelper("
        "const onnxruntime::TensorShape&, bool) input size was false.\nThe input cannot be reshaped"
    )

    assert library_text(RuntimeError(text)) == "Reshape (node r): input size was false. The input cannot be reshaped"


def test_names_are_cut_and_escaped() -> None:
    assert quoted("x") == "x"
    assert quoted("a\nb") == "a\\nb"
    assert len(quoted("n" * 500)) <= 80
    assert re.fullmatch(r"n+\.\.\.n+_7", quoted("n" * 500 + "_7"))
    assert listed(f"i{number}" for number in range(10)) == "i0, i1, i2, i3, i4, i5, i6, i7 and 2 more"
    assert bounded("x" * 5000).endswith("...")


def test_settings_default_to_the_places_of_a_pod() -> None:
    settings = Settings.from_environment({})

    assert settings.store_credentials == Path("/var/run/secrets/enginery/store")
    assert settings.source_credentials == Path("/var/run/secrets/enginery/source")
    assert settings.work_folder == Path("/var/lib/enginery")
    assert settings.termination_log == Path("/dev/termination-log")
