"""How the converter quotes what others wrote: names from uploaded files, sentences of frameworks. Called wherever a
message has either. The builder bounds whole messages and has rules of the same kind for its own libraries.
"""

import re
from collections.abc import Iterable

ELSEWHERE = "convert the model to ONNX where it was trained, upload that and set spec.source.format to ONNX"
"""What to do with a model that this converter cannot convert."""

_NAME_LIMIT = 80
_LIST_LIMIT = 5
_PATH = re.compile(r"(?<![\w:/.])/(?:[\w.+@-]+/)+")
"""Folders of this pod, which are nobody's business; the file's own name stays."""


def quoted(name: str) -> str:
    """The name, escaped and cut in its middle."""
    plain = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    half = _NAME_LIMIT // 2
    return plain if len(plain) <= _NAME_LIMIT else f"{plain[: half - 2]}...{plain[-half + 1 :]}"


def listed(names: Iterable[str]) -> str:
    """The first few names, each once, and how many more there are."""
    every = list(dict.fromkeys(names))
    text = ", ".join(quoted(name) for name in every[:_LIST_LIMIT])
    return text if len(every) <= _LIST_LIMIT else f"{text} and {len(every) - _LIST_LIMIT} more"


def framework_text(error: BaseException, limit: int = 300) -> str:
    """The first paragraph of what a framework said, on one line: tracebacks and graphs follow in later ones."""
    paragraph = str(error).strip().split("\n\n", 1)[0]
    text = _PATH.sub("", " ".join(paragraph.split()))
    return text if 0 < len(text) <= limit else f"{text[:limit]}..." if text else type(error).__name__
