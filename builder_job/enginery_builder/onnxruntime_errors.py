"""From ONNX Runtime's texts to our reasons: the one place that knows its words. Called by `onnxruntime_backend`.

Its exception types say little (FAIL stands for nine different faults), so the text decides, first match first.
"""

import re

from enginery_store.errors import EngineryError, FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.wording import library_text

_UNKNOWN = (
    re.compile(r"Fatal error: (?P<domain>[\w.]*):(?P<op>\w+)\([^)]*\) is not a registered function/op"),
    re.compile(r'In Node, \("(?P<node>[^"]*)", (?P<op>\w+), "(?P<domain>[^"]*)".*No Op registered for', re.DOTALL),
    re.compile(r"Could not find an implementation for (?P<op>[\w.]+)\(\d+\) node with name '(?P<node>[^']*)'"),
)
_MEMORY = re.compile(r"bad_alloc|(?:failed to|could not|cannot) allocate|out of memory", re.IGNORECASE)


def converted(error: BaseException, otherwise: Reason) -> EngineryError:
    """Our error for what the library raised; `otherwise` where the text names no cause we know."""
    text = str(error)
    for pattern in _UNKNOWN:
        if found := pattern.search(text):
            return FinalError(unsupported(**found.groupdict()), reason=Reason.UNSUPPORTED_OPERATOR)
    if isinstance(error, MemoryError) or _MEMORY.search(text):
        return FinalError(
            f"ran out of memory: {library_text(error, 200)}; give the build more memory or smaller profiles",
            reason=Reason.BUILD_OUT_OF_MEMORY,
        )
    return FinalError(f"ONNX Runtime refuses the model: {library_text(error)}; export it again", reason=otherwise)


def unsupported(op: str, node: str = "", domain: str = "") -> str:
    """The sentence about an operator that no library here has."""
    full = f"{domain}.{op}" if domain else op
    where = f" (node {quoted(node)})" if node else ""
    advice = "export with standard ONNX operators" if domain else "use another operator, another datatype or opset"
    return f"operator {quoted(full)}{where} is not supported by ONNX Runtime on CPU; {advice}"
