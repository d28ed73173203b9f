"""How the builder quotes what others wrote. Called wherever a message names a tensor, node, file or library.

Names come from uploaded files: they may be long, or hold control characters, and messages end in conditions that
people read. So they are cut and escaped here, once.
"""

import re
from collections.abc import Iterable

MESSAGE_LIMIT = 900
"""Characters of a message: conditions hold 1024, and the operator adds what happens next."""

_NOISE = (
    (re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : "), ""),
    (re.compile(r"Load model from \S+ failed:"), ""),
    (
        re.compile(r"Non-zero status code returned while running (\w+) node\. Name:'([^']*)' Status Message: "),
        r"\1 (node \2): ",
    ),
    (re.compile(r"\S+\.(?:cc|h|hpp):\d+ (?:.*onnxruntime::[^)]*\)(?: const)?(?: \[with [^\]]*\])?\s*)?"), ""),
    (re.compile(r"(?<![\w:/])/(?:[\w.+@-]+/)+"), ""),
)
"""What ONNX Runtime puts around its sentences, and what to keep of it; folders of this pod are nobody's business."""

_NAME_LIMIT = 80
_LIST_LIMIT = 8


def quoted(name: str) -> str:
    """The name, escaped and cut in its middle, so that its end (often the part that differs) stays readable."""
    plain = name.encode("unicode_escape").decode("ascii") if not name.isprintable() else name
    half = _NAME_LIMIT // 2
    return plain if len(plain) <= _NAME_LIMIT else f"{plain[: half - 2]}...{plain[-half + 1 :]}"


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    text = ", ".join(quoted(name) for name in every[:_LIST_LIMIT])
    return text if len(every) <= _LIST_LIMIT else f"{text} and {len(every) - _LIST_LIMIT} more"


def library_text(error: BaseException, limit: int = 400) -> str:
    """What a library said, on one line, without our paths, its source files and its C++ signatures."""
    text = " ".join(str(error).split())
    for pattern, plain in _NOISE:
        text = pattern.sub(plain, text)
    return text[:limit].strip() or type(error).__name__


def bounded(message: str) -> str:
    """The message within MESSAGE_LIMIT."""
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 3]}..."
