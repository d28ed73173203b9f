"""Is every operator one that ONNX or ONNX Runtime defines? What has a name but no kernel shows in `trial`."""

from functools import cache

import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.onnx_files import DEFAULT_DOMAINS, every_graph

_DEFINED_DOMAINS = frozenset({"", "ai.onnx.ml"})
"""Domains whose operators the onnx package lists."""

_RUNTIME_DOMAINS = frozenset({"com.microsoft"})
"""ONNX Runtime's own operators: whether it has this one shows when it opens the model."""


def require_known(model: onnx.ModelProto) -> None:
    """Raises FinalError (UnsupportedOperator) that names operator, domain and node."""
    imports = {_domain(entry.domain): entry.version for entry in model.opset_import}
    functions = {(_domain(function.domain), function.name) for function in model.functions}
    for graph in every_graph(model):
        for node in graph.node:
            domain = _domain(node.domain)
            if domain in _RUNTIME_DOMAINS or (domain, node.op_type) in functions:
                continue
            where = (
                f"operator {quoted(node.op_type)} of domain {quoted(domain or 'ai.onnx')} (node {quoted(node.name)})"
            )
            if domain not in _DEFINED_DOMAINS:
                raise _unsupported(f"{where} is a custom operator; export the model with standard ONNX operators")
            if not _defined(node.op_type, imports.get(domain, 1), domain):
                opset = imports.get(domain, 1)
                raise _unsupported(f"{where} does not exist in opset {opset}; use a standard operator, or export again")


def _unsupported(text: str) -> FinalError:
    return FinalError(text, reason=Reason.UNSUPPORTED_OPERATOR)


@cache
def _defined(operator: str, opset: int, domain: str) -> bool:
    try:
        return not onnx.defs.get_schema(operator, opset, domain).deprecated
    except onnx.defs.SchemaError:
        return False


def _domain(name: str) -> str:
    return "" if name in DEFAULT_DOMAINS else name
