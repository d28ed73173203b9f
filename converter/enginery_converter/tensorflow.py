"""TensorFlow SavedModel to ONNX, by tf2onnx. Called by `convert`; the only module that imports TensorFlow.

The protobuf is judged before TensorFlow loads it, for loading runs the model's initializers.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.requests import PrepareRequest
from enginery_store.wording import listed, quoted

from enginery_converter.saved_model import folder_of
from enginery_converter.wording import ELSEWHERE, framework_text

LOG = logging.getLogger(__name__)

OPSET = 17
"""The newest that every TensorRT from 8.6 on reads; tf2onnx 1.17 would go to 18."""

SIGNATURE = "serving_default"
"""What TensorFlow Serving and Keras' export call the function that answers requests."""

PYTHON_OPERATORS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
"""Operators that stand for a Python function, which no SavedModel holds."""


def export(source: Path, model: Path, _: PrepareRequest) -> list[str]:
    """Write the ONNX model of the signature, its inputs and outputs named as there. Raises FinalError."""
    folder = folder_of(source)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    _require_convertible(_meta_graph(folder))
    try:
        model.write_bytes(_onnx(folder))
    except (FinalError, MemoryError, OSError):
        raise
    except Exception as error:
        LOG.exception("tf2onnx failed")
        raise FinalError(
            f"tf2onnx cannot convert this SavedModel: {framework_text(error)}; {ELSEWHERE}",
            reason=Reason.CONVERSION_FAILED,
        ) from error
    return []


def _meta_graph(folder: Path) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    try:
        saved = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    except DecodeError:
        raise _invalid("saved_model.pb is cut off or damaged; upload the SavedModel again") from None
    graphs = [graph for graph in saved.meta_graphs if "serve" in graph.meta_info_def.tags]
    if not graphs:
        found = listed(" ".join(graph.meta_info_def.tags) for graph in saved.meta_graphs) or "none"
        raise _invalid(f"the SavedModel has no graph tagged `serve` (tags: {found}); save it with model.export(DIR)")
    signatures = graphs[0].signature_def
    if SIGNATURE not in signatures:
        found = listed(name for name in signatures if not name.startswith("__")) or "none"
        raise _invalid(
            f"the SavedModel has no signature {SIGNATURE} (it has: {found}); save it with model.export(DIR), or with"
            f" tf.saved_model.save(..., signatures={{'{SIGNATURE}': function}})"
        )
    return graphs[0]


def _require_convertible(graph: Any) -> None:
    from tensorflow.python.framework import op_def_registry

    functions = {function.signature.name for function in graph.graph_def.library.function}
    for node in _nodes(graph.graph_def):
        where = f"operator {quoted(node.op)} (node {quoted(node.name)})"
        if node.op in PYTHON_OPERATORS:
            raise _unsupported(
                f"{where} calls a Python function (tf.py_function or tf.numpy_function), which a SavedModel does not"
                " hold and this service would not run; write it in TensorFlow operators"
            )
        if node.op not in functions and op_def_registry.get(node.op) is None:
            raise _unsupported(f"{where} is a custom operator; build the model from TensorFlow's own operators")


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _onnx(folder: Path) -> bytes:
    import tensorflow as tf
    from tf2onnx import optimizer, tf_loader
    from tf2onnx.tfonnx import process_tf_graph

    frozen, inputs, outputs, tables, names = tf_loader.from_saved_model(
        str(folder), None, None, "serve", [SIGNATURE], return_initialized_tables=True, return_tensors_to_rename=True
    )
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen, name="")
        converted = process_tf_graph(
            graph, opset=OPSET, input_names=inputs, output_names=outputs,
            initialized_tables=tables, tensors_to_rename=names,
        )  # fmt: skip
    proto = optimizer.optimize_graph(converted).make_model("converted from a SavedModel")
    _require_standard(proto)
    data: bytes = proto.SerializeToString()
    return data


def _require_standard(proto: Any) -> None:
    """tf2onnx leaves an operator that it does not know as it was, and only logs it."""
    from onnx import defs

    unknown = [
        f"{node.op_type} (node {node.name})"
        for node in proto.graph.node
        if node.domain in {"", "ai.onnx"} and not defs.has(node.op_type)
    ]
    if unknown:
        raise _unsupported(f"these TensorFlow operators have no counterpart in ONNX: {listed(unknown)}; {ELSEWHERE}")


def _invalid(text: str) -> FinalError:
    return FinalError(text, reason=Reason.SOURCE_INVALID)


def _unsupported(text: str) -> FinalError:
    return FinalError(text, reason=Reason.UNSUPPORTED_OPERATOR)
