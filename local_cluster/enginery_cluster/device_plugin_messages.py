"""Messages of the kubelet's device plugin API (deviceplugin v1beta1), built at run time: no protoc, no generated file.

Only the fields that the fake plugin uses; the rest of the protocol is optional on the wire. Used by `device_plugin`.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "v1beta1"
"""Package of the messages and version of the API."""

_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": (1, "bool"), "get_preferred_allocation_available": (2, "bool")},
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "Device": {"ID": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "*Device")},
    "ContainerAllocateRequest": {"devices_ids": (1, "*string")},
    "AllocateRequest": {"container_requests": (1, "*ContainerAllocateRequest")},
    "Pair": {"key": (1, "string"), "value": (2, "string")},  # map<string, string> is a repeated pair on the wire
    "ContainerAllocateResponse": {"envs": (1, "*Pair"), "annotations": (4, "*Pair")},
    "AllocateResponse": {"container_responses": (1, "*ContainerAllocateResponse")},
}
"""message: {field: (number, type)}; a star marks a repeated field."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"bool": _Field.TYPE_BOOL, "string": _Field.TYPE_STRING}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="deviceplugin.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field_name, (number, written) in fields.items():
            kind = written.removeprefix("*")
            label = _Field.LABEL_REPEATED if kind != written else _Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=number, label=label)
            field.type = _SCALARS.get(kind, _Field.TYPE_MESSAGE)
            if field.type == _Field.TYPE_MESSAGE:
                field.type_name = f".{PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _FIELDS}


MESSAGES = _classes()
"""Class of each message by its name."""
