"""Was the model exported for training? Its answers would depend on chance, and on what else is in the batch."""

import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import quoted

from enginery_builder.check.structure import Structure
from enginery_builder.onnx_files import DEFAULT_DOMAINS, every_graph

_DROPOUT_SWITCH = 2
"""Index of Dropout's input `training_mode`."""


def require_inference(structure: Structure) -> None:
    """Raises FinalError (UnsupportedOperator) that names the node."""
    for graph in every_graph(structure.model):
        for node in graph.node:
            if node.domain in DEFAULT_DOMAINS and _trains(node, structure):
                raise FinalError(
                    f"{quoted(node.op_type)} (node {quoted(node.name)}) is in training mode: its answers depend on the"
                    " rest of the batch, or on chance; call model.eval() before the export",
                    reason=Reason.UNSUPPORTED_OPERATOR,
                )


def _trains(node: onnx.NodeProto, structure: Structure) -> bool:
    if node.op_type == "BatchNormalization":
        return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
    if node.op_type == "Dropout" and len(node.input) > _DROPOUT_SWITCH:
        switch = structure.constants.get(node.input[_DROPOUT_SWITCH])
        return switch is not None and bool(switch.any())
    return False
