"""TF-GNN's and TensorFlow's messages, without TensorFlow and beside it.

They are in a pool of their own: where TensorFlow is imported as well, two definitions of one name
never meet. Only the fields that are read are defined; all others are skipped.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from packhouse.base.messages import parse_whole

_Field = descriptor_pb2.FieldDescriptorProto

# By number in tensorflow.DataType.
_DTYPES: Final = {
    "DT_INVALID": 0,
    "DT_FLOAT": 1,
    "DT_DOUBLE": 2,
    "DT_INT32": 3,
    "DT_UINT8": 4,
    "DT_INT16": 5,
    "DT_INT8": 6,
    "DT_STRING": 7,
    "DT_COMPLEX64": 8,
    "DT_INT64": 9,
    "DT_BOOL": 10,
    "DT_QINT8": 11,
    "DT_QUINT8": 12,
    "DT_QINT32": 13,
    "DT_BFLOAT16": 14,
    "DT_QINT16": 15,
    "DT_QUINT16": 16,
    "DT_UINT16": 17,
    "DT_COMPLEX128": 18,
    "DT_HALF": 19,
    "DT_RESOURCE": 20,
    "DT_VARIANT": 21,
    "DT_UINT32": 22,
    "DT_UINT64": 23,
    "DT_FLOAT8_E5M2": 24,
    "DT_FLOAT8_E4M3FN": 25,
    "DT_INT4": 29,
    "DT_UINT4": 30,
}

# Message: its fields with number and type; a type in braces is that of a map's values, one in
# brackets is repeated.
_SCHEMA: Final = {
    "Dim": {"size": (1, "int64")},
    "Shape": {"dim": (2, "[Dim]"), "unknown_rank": (3, "bool")},
    "Feature": {"dtype": (2, "DataType"), "shape": (3, "Shape")},
    "Context": {"features": (1, "{Feature}")},
    "NodeSet": {"features": (2, "{Feature}")},
    "EdgeSet": {"features": (2, "{Feature}"), "source": (3, "string"), "target": (4, "string")},
    "GraphSchema": {
        "context": (1, "Context"),
        "node_sets": (2, "{NodeSet}"),
        "edge_sets": (3, "{EdgeSet}"),
    },
}
_EXAMPLE: Final = {
    "BytesList": {"value": (1, "[bytes]")},
    "FloatList": {"value": (1, "[float]")},
    "Int64List": {"value": (1, "[int64]")},
    "FeatureList": {
        "bytes_list": (1, "BytesList"),
        "float_list": (2, "FloatList"),
        "int64_list": (3, "Int64List"),
    },
    "Features": {"feature": (1, "{FeatureList}")},
    "Example": {"features": (1, "Features")},
}
_SCALARS: Final = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "float": _Field.TYPE_FLOAT,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
}
_PACKAGE: Final = "packhouse.tfgnn"
_SHOWN: Final = 300


def _add_field(message: Any, name: str, number: int, kind: str) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind[0] in "[{":
        field.label = _Field.LABEL_REPEATED
    inner = kind.strip("[]{}")
    if kind[0] == "{":
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, inner)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
    elif inner in _SCALARS:
        field.type = _SCALARS[inner]
    else:
        field.type = _Field.TYPE_ENUM if inner == "DataType" else _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{inner}"


def _classes() -> tuple[Any, Any, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="packhouse/tfgnn.proto", package=_PACKAGE, syntax="proto3"
    )
    dtypes = file.enum_type.add(name="DataType")
    for name, number in _DTYPES.items():
        dtypes.value.add(name=name, number=number)
    messages: dict[str, dict[str, tuple[int, str]]] = {**_SCHEMA, **_EXAMPLE}
    for message_name, fields in messages.items():
        message = file.message_type.add(name=message_name)
        for name, (number, kind) in fields.items():
            _add_field(message, name, number, kind)
        if message_name == "FeatureList":
            message.oneof_decl.add(name="kind")
            for field in message.field:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())

    def class_of(name: str) -> Any:
        descriptor = pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(pool).GetPrototype(descriptor)

    return pool, class_of("GraphSchema"), class_of("Example")


_pool, GraphSchemaMessage, ExampleMessage = _classes()
_dtype_names: Final = {number: name for name, number in _DTYPES.items()}


def parse_graph_schema(data: str | bytes) -> Any:
    """The `tensorflow_gnn.GraphSchema` of its text or its binary form. Raises ValueError."""
    schema = GraphSchemaMessage()
    try:
        if isinstance(data, bytes):
            parse_whole(schema, data)
        else:
            text_format.Parse(data, schema, allow_unknown_extension=True, allow_unknown_field=True)
    except Exception as error:  # Each implementation of protobuf has errors of its own.
        # Some show the whole line.
        told = str(error)
        told = told if len(told) <= _SHOWN else f"{told[:_SHOWN]}..."
        raise ValueError(f"graph schema: {told}") from None
    return schema


def dtype_name(number: int) -> str:
    """`DT_FLOAT` and so on."""
    return _dtype_names.get(number, str(number))
