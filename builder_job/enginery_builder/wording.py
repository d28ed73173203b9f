"""How the builder quotes whole sentences: those of libraries, and its own within a condition's limit. Names are quoted
by `enginery_store.wording`.
"""

import re

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


def library_text(error: BaseException, limit: int = 400) -> str:
    """What a library said, on one line, without our paths, its source files and its C++ signatures."""
    text = " ".join(str(error).split())
    for pattern, plain in _NOISE:
        text = pattern.sub(plain, text)
    return text[:limit].strip() or type(error).__name__


def bounded(message: str) -> str:
    """The message within MESSAGE_LIMIT."""
    return message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 3]}..."
