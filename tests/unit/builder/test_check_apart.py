"""The process that checks: its answers come through whole, and whatever ends it is a verdict."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from enginery_builder import check
from enginery_builder.check import apart
from enginery_store.errors import FinalError
from onnx import TensorProto, helper
from support.checking import fetched, request
from support.eventually import eventually
from support.onnx_cases.expected import ROWS
from support.onnx_models import FLOAT, constant, mlp, model, node, value


def test_answer_is_the_one_of_this_process(tmp_path: Path) -> None:
    source, order = fetched(tmp_path, mlp()), request(ROWS, ["TensorRT"])

    assert apart.check_apart(source, order) == check.check_model(source)


def test_refusal_keeps_reason_and_words(tmp_path: Path) -> None:
    with pytest.raises(FinalError, match="input x has no fixed size") as caught:
        apart.check_apart(fetched(tmp_path, mlp()), request(backends=["TensorRT"]))
    assert caught.value.reason == "InvalidShapes"


def hungry() -> onnx.ModelProto:
    """Asks for 8 TiB, of which shape inference knows nothing: the size depends on data."""
    return model(
        [
            node("NonZero", ["x"], ["places"]),
            node("Shape", ["places"], ["size"]),
            node("Mul", ["size", "many"], ["sizes"]),
            node("ConstantOfShape", ["sizes"], ["large"], "large"),
            node("ReduceSum", ["large"], ["y"], keepdims=0),
        ],
        [value("x", FLOAT, [1 << 10])],
        [value("y", FLOAT, [])],
        [constant("many", [1 << 15, 1 << 15], np.int64)],
    )


def test_run_that_asks_for_more_than_there_is_proves_nothing_against_the_model(tmp_path: Path) -> None:
    assert apart.check_apart(fetched(tmp_path, hungry()), request()).notes == ()


def endless() -> onnx.ModelProto:
    """Its one run takes hours."""
    body = helper.make_graph(
        [node("MatMul", ["acc", "W"], ["next"]), node("Identity", ["c"], ["go"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("acc", FLOAT, [64, 64])],
        [value("go", TensorProto.BOOL, []), value("next", FLOAT, [64, 64])],
        [constant("W", np.eye(64), np.float32)],
    )
    return model(
        [node("Loop", ["n", "t", "a"], ["y"], body=body)],
        [value("a", FLOAT, [64, 64])],
        [value("y", FLOAT, [64, 64])],
        [constant("n", 1 << 40, np.int64), constant("t", True, np.bool_)],
    )


def checking_process() -> int | None:
    """Its id, once it has become the program that checks."""
    children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pids in children for pid in pids}
    return next((pid for pid, command in commands.items() if b"enginery_builder.check" in command), None)


@pytest.mark.parametrize(
    ("by", "reason", "words"),
    [
        (signal.SIGSEGV, "SourceInvalid", r"crashed on it \(SIGSEGV\)"),
        (signal.SIGABRT, "BuildOutOfMemory", "lower max in spec"),
        (signal.SIGKILL, "BuildOutOfMemory", "give the builder more memory"),
    ],
)
def test_signal_that_ends_the_check_is_a_verdict(tmp_path: Path, by: signal.Signals, reason: str, words: str) -> None:
    with ThreadPoolExecutor() as pool:
        running = pool.submit(apart.check_apart, fetched(tmp_path, endless()), request())
        os.kill(eventually(checking_process), by)

        with pytest.raises(FinalError, match=words) as caught:
            running.result()
    assert caught.value.reason == reason
