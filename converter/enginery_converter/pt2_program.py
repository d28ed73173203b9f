"""The program of a .pt2 archive, judged before torch reads it. Called by `pt2_archive`; needs no torch.

torch turns three kinds of strings of this JSON into calls, so each is held to what torch.export itself writes:

    target, as_operator    a name below torch, operator or math, which is looked up and called
    expr_str               a symbolic size, which sympy evaluates as Python
    guards_code            Python code that checks inputs; dropped, for the graph is what is converted
"""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

_OPERATORS = re.compile(
    r"torch\.ops\.(?:aten|prim|prims|quantized_decomposed)\.\w+(?:\.\w+)?"
    r"|torch\.ops\.higher_order\.(?:cond|scan|while_loop|wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|torch\.sym_(?:float|int|ite|max|min|not|sqrt|sum)"
    r"|_operator\.(?:getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_|xor)"
    r"|math\.(?:ceil|floor|trunc)"
)
"""Names that torch.export writes for PyTorch's own operators."""

_FUNCTIONS = frozenset(
    {
        "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "Eq", "Ne", "Lt",
        "Le", "Gt", "Ge", "And", "Or", "Not", "Piecewise", "Equality", "Unequality", "StrictLessThan", "LessThan",
        "StrictGreaterThan", "GreaterThan", "floor", "ceiling", "FloorDiv", "ModularIndexing", "Where", "PythonMod",
        "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow",
        "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt",
        "RoundToInt", "RoundDecimal", "ToFloat", "Identity"
    }
)  # fmt: skip
"""Functions of sympy, and of torch.utils._sympy, that a size is made with."""

_NAMES = re.compile(r"[a-z]{1,4}\d+|oo|int_oo|true|false")
"""Symbols of sizes (s0, u3, zuf1) and constants."""

_TEXTS = {"Symbol": re.compile(r"\w+"), "Float": re.compile(r"[\d.+\-e]+"), "Rational": re.compile(r"[\d/\-]+")}
"""Functions whose first argument may be a text, and what it may be; sympy evaluates texts given to others."""


def judged(data: bytes) -> bytes:
    """The program without guards. Raises FinalError (UnsupportedOperator, UnsupportedFormat, SourceInvalid)."""
    try:
        program = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged() from None
    if not isinstance(program, dict):
        raise _damaged()
    program["guards_code"] = []
    for key, value in _fields(program):
        if key in {"target", "as_operator"}:
            _require_operator(value)
        elif key == "expr_str":
            require_size(value)
        elif key == "device":
            _require_cpu(value)
    return json.dumps(program).encode()


def _fields(document: Any) -> Iterator[tuple[str, Any]]:
    """Every field at any depth."""
    pending = [document]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield from item.items()
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _require_operator(name: Any) -> None:
    if isinstance(name, str) and _OPERATORS.fullmatch(name):
        return
    raise FinalError(
        f"the program calls {quoted(str(name))}, which is none of PyTorch's own operators that convert to ONNX; build"
        " the model without custom operators",
        reason=Reason.UNSUPPORTED_OPERATOR,
    )


def _require_cpu(device: Any) -> None:
    kind = device.get("type") if isinstance(device, dict) else device
    if kind not in {"cpu", None}:
        raise FinalError(
            f"the program was exported on {quoted(str(kind))}; move the model and its example inputs to the CPU and"
            " export it again",
            reason=Reason.UNSUPPORTED_FORMAT,
        )


def require_size(text: Any) -> None:
    """The text is an expression of symbols, numbers and known functions. Raises FinalError (SourceInvalid)."""
    try:
        sound = _is_size(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        sound = False
    if not sound:
        raise _not_a_size(text)


def _is_size(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return True
        case ast.Name(id=name):
            return _NAMES.fullmatch(name) is not None
        case ast.UnaryOp(operand=operand):
            return _is_size(operand)
        case ast.BinOp(left=left, right=right):
            return _is_size(left) and _is_size(right)
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
            return all(map(_is_size, parts))
        case ast.Compare(left=left, comparators=others):
            return _is_size(left) and all(map(_is_size, others))
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=keywords) if function in _FUNCTIONS:
            sizes = arguments[1:] if arguments and _is_text(function, arguments[0]) else arguments
            return all(map(_is_size, sizes)) and all(_is_size(keyword.value) for keyword in keywords)
    return False


def _is_text(function: str, argument: ast.expr) -> bool:
    """Whether this is a text that the function may be given."""
    match argument:
        case ast.Constant(value=str(text)) if function in _TEXTS:
            return _TEXTS[function].fullmatch(text) is not None
    return False


def _not_a_size(text: Any) -> FinalError:
    return FinalError(
        f"the program holds {quoted(str(text))} as a size, which torch.export does not write; export it again",
        reason=Reason.SOURCE_INVALID,
    )


def _damaged() -> FinalError:
    return FinalError("the program in the archive is damaged; save it again", reason=Reason.SOURCE_INVALID)
