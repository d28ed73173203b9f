"""Is the model of an IR and opset version that exists and that is still supported?"""

import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.onnx_files import DEFAULT_DOMAINS, every_graph

OLDEST_IR = 3
"""The first IR version with opset imports."""

OLDEST_OPSET = 7
"""ONNX Runtime and TensorRT support nothing older."""


def require_known(model: onnx.ModelProto) -> int:
    """The opset of ONNX's own domain."""
    newest = int(onnx.IR_VERSION)
    if not OLDEST_IR <= model.ir_version <= newest:
        raise _invalid(f"the model claims ONNX IR version {model.ir_version}; {OLDEST_IR} to {newest} exist")
    imports: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain in DEFAULT_DOMAINS else entry.domain
        if imports.setdefault(domain, entry.version) != entry.version:
            raise _invalid(f"the model imports domain {quoted(domain or 'ai.onnx')} in two versions")
    _require_imports(model, imports)
    opset = imports.get("", 0)
    if not OLDEST_OPSET <= opset <= onnx.defs.onnx_opset_version():
        raise _invalid(
            f"the model uses opset {opset}; {OLDEST_OPSET} to {onnx.defs.onnx_opset_version()} are supported"
        )
    return opset


def _require_imports(model: onnx.ModelProto, imports: dict[str, int]) -> None:
    for graph in every_graph(model):
        if isinstance(graph, onnx.FunctionProto):
            continue
        for node in graph.node:
            domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
            if domain not in imports:
                raise _invalid(
                    f"the model has no opset import for domain {quoted(domain or 'ai.onnx')}, which"
                    f" {quoted(node.op_type)} (node {quoted(node.name)}) is of"
                )
    if "" not in imports:
        raise _invalid("the model has no opset import for domain ai.onnx")


def _invalid(text: str) -> FinalError:
    return FinalError(f"{text}; export it again with a current exporter", reason=Reason.SOURCE_INVALID)
