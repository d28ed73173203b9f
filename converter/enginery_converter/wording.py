"""How the converter quotes sentences of frameworks, and what it advises where they give up. Names are quoted by
`enginery_store.wording`.
"""

import re

ELSEWHERE = "convert the model to ONNX where it was trained, upload that and set spec.source.format to ONNX"
"""What to do with a model that this converter cannot convert."""

_PATH = re.compile(r"(?<![\w:/.])/(?:[\w.+@-]+/)+")
"""Folders of this pod, which are nobody's business; the file's own name stays."""


def framework_text(error: BaseException, limit: int = 300) -> str:
    """The first paragraph of what a framework said, on one line: tracebacks and graphs follow in later ones."""
    paragraph = str(error).strip().split("\n\n", 1)[0]
    text = _PATH.sub("", " ".join(paragraph.split()))
    return text if 0 < len(text) <= limit else f"{text[:limit]}..." if text else type(error).__name__
