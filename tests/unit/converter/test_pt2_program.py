"""Strings of a program that torch would call or evaluate: those that torch.export writes pass, others do not."""

import json
from typing import Any

import pytest
from enginery_converter.pt2_program import judged, require_size
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason

SIZES = [
    "Symbol('s40', positive=True, integer=True)",
    "Mul(Integer(2), Symbol('s0', integer=True))",
    "Add(Symbol('u0', integer=True), Integer(-1))",
    "FloorDiv(Add(Symbol('s1', integer=True), Integer(1)), Integer(2))",
    "Max(1, s0)", "s0 + 1", "2*s0 // 4", "Eq(Mod(s0, 2), 0)", "-oo", "int_oo", "True", "3", "1.5", "s0**2",
    "Float('1.5', precision=53)", "Piecewise((s0, s0 > 2), (2, True))",
]  # fmt: skip

CODE = [
    "__import__('os').system('id')",
    "open('/etc/passwd')",
    "exec(chr(105))",
    "eval",
    "s0.__class__",
    "(lambda: s0)()",
    "[x for x in (1,)]",
    "Add('__import__(\"os\")')",
    "Symbol('s0; import os')",
    "Symbol(s0)(1)",
    "sympify(1)",
    "Function('f')(s0)",
    "f'{s0}'",
    "s0 if s0 else 1",
    "s0[0]",
    "Max(*s0)",
    "__debug__",
    "'s0'",
    "b's0'",
    "...",
    "1j",
    "(" * 500 + "s0" + ")" * 500,
    "s0 := 1",
    "import os",
    "",
]


@pytest.mark.parametrize("text", SIZES)
def test_size_that_torch_writes_passes(text: str) -> None:
    require_size(text)


@pytest.mark.parametrize("text", CODE, ids=[text[:20] or "nothing" for text in CODE])
def test_size_that_is_code_is_refused(text: str) -> None:
    with pytest.raises(FinalError) as caught:
        require_size(text)
    assert caught.value.reason == Reason.SOURCE_INVALID


def program(**changes: Any) -> bytes:
    node = {"target": "torch.ops.aten.relu.default", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}]}
    return json.dumps({"graph_module": {"graph": {"nodes": [node | changes]}}}).encode()


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.conv2d.default", "torch.ops.aten.__and__.Tensor", "torch.ops.higher_order.cond",
        "_operator.getitem", "math.ceil", "torch.sym_max",
    ],
)  # fmt: skip
def test_operator_of_torchs_own_passes(target: str) -> None:
    assert json.loads(judged(program(target=target)))["graph_module"]["graph"]["nodes"][0]["target"] == target


@pytest.mark.parametrize(
    "target",
    [
        "torch.os.system", "torch.ops.mylib.fused.default", "torch.ops.load_library", "torch.hub.load",
        "_operator.methodcaller", "math.__loader__.load_module", "#torchvision:nms", "os.system", "", 7, None,
        "torch.ops.aten.relu.default.__globals__", "torch.ops.higher_order.triton_kernel_wrapper_mutation",
    ],
)  # fmt: skip
def test_operator_of_somebody_else_is_refused_by_name(target: Any) -> None:
    with pytest.raises(FinalError) as caught:
        judged(program(target=target))
    assert caught.value.reason == Reason.UNSUPPORTED_OPERATOR
    assert str(target) in caught.value.message


def test_operator_given_as_an_argument_is_judged_too() -> None:
    with pytest.raises(FinalError, match=r"torch\.os\.system"):
        judged(program(inputs=[{"arg": {"as_operator": "torch.os.system"}}]))


def test_graph_within_a_graph_is_judged_too() -> None:
    inner = {"nodes": [{"target": "torch.os.system", "inputs": []}]}

    with pytest.raises(FinalError, match=r"torch\.os\.system"):
        judged(program(target="torch.ops.higher_order.cond", inputs=[{"arg": {"as_graph": {"graph": inner}}}]))


def test_program_of_a_gpu_is_to_be_exported_on_the_cpu() -> None:
    with pytest.raises(FinalError, match=r"cuda.*CPU") as caught:
        judged(program(metadata={"device": {"type": "cuda", "index": 0}}))
    assert caught.value.reason == Reason.UNSUPPORTED_FORMAT


def test_guards_are_dropped() -> None:
    document = json.loads(program()) | {"guards_code": ["__import__('os').system('id')"]}

    assert json.loads(judged(json.dumps(document).encode()))["guards_code"] == []


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000], ids=["empty", "cut", "list", "bytes", "deep"]
)
def test_damaged_program_is_refused(data: bytes) -> None:
    with pytest.raises(FinalError, match="damaged") as caught:
        judged(data)
    assert caught.value.reason == Reason.SOURCE_INVALID
