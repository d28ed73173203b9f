"""Names within a model: they must be text, and ONNX Runtime wants those of nodes to differ. Called by `check_model`.

ONNX allows two nodes of one name, and exporters write them. Such nodes are renamed in the copy that is prepared, so
that messages, kept nodes and inspectors can tell them apart too.
"""

from collections.abc import Iterator
from pathlib import Path

import onnx
from enginery_store.errors import FinalError
from enginery_store.reasons import Reason
from enginery_store.wording import listed
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from enginery_builder.onnx_files import every_graph

_PROSE = frozenset({"doc_string", "metadata_props", "producer_name", "producer_version"})
"""Fields for people, which nothing here reads: exporters write them in any encoding."""


def require_text(model: onnx.ModelProto) -> None:
    """Every name is UTF-8, as damaged bytes mostly are not. Raises FinalError (SourceInvalid)."""
    for where, text in _strings(model):
        if isinstance(text, bytes):  # protobuf gives bytes for what it could not decode
            raise FinalError(
                f"the model holds text that is not UTF-8 (in {where}), so the file is damaged; upload it again and"
                " compare its size and sha256",
                reason=Reason.SOURCE_INVALID,
            )


def _strings(root: Message) -> Iterator[tuple[str, str | bytes]]:
    waiting = [root]
    while waiting:
        message = waiting.pop()
        kind = message.DESCRIPTOR.name
        for field in message.DESCRIPTOR.fields:
            if field.name in _PROSE:
                continue
            if field.type == FieldDescriptor.TYPE_STRING:
                values = getattr(message, field.name)
                yield from ((f"{kind}.{field.name}", value) for value in (values if field.is_repeated else [values]))
            elif field.type == FieldDescriptor.TYPE_MESSAGE:
                if field.is_repeated:
                    waiting.extend(getattr(message, field.name))
                elif message.HasField(field.name):
                    waiting.append(getattr(message, field.name))


def with_unique_node_names(model: onnx.ModelProto, path: Path) -> list[str]:
    """Rename all but the first node of a name, in the file too; returns a note about it if there were any."""
    renamed: dict[str, None] = {}
    for graph in every_graph(model):
        taken = {node.name for node in graph.node}
        seen: set[str] = set()
        for node in graph.node:
            if node.name and node.name in seen:
                renamed[node.name] = None
                node.name = _free_name(node.name, taken)
                taken.add(node.name)
            seen.add(node.name)
    if not renamed:
        return []
    path.write_bytes(model.SerializeToString(deterministic=True))
    return [f"several nodes were called {listed(renamed)}; all but the first got a number"]


def _free_name(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
