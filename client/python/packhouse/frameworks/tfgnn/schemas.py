"""TF-GNN's schemas, without TensorFlow and beside it: its messages, and the schema made of them.

The messages are in a pool of their own: where TensorFlow is imported as well, two definitions of
one name never meet. Only the fields that are read are defined; all others are skipped. The service
makes the same schema of TF-GNN's: see `docs/tfgnn.md`. Some of its tensors are a ragged feature or
text: see `packhouse.tfgnn.table`.
"""

from __future__ import annotations

from typing import Any, Final, Mapping, Sequence

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from packhouse.base.arguments import parse_whole
from packhouse.data.examples import TfgnnSchema
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.frameworks.layout import Layout, RowSet

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


# The ending of a feature that holds text: its innermost lengths are those of the strings.
BYTES: Final = ".bytes"


class Ragged:
    """A ragged or text feature: the tensors of its lengths, from the outermost, and its values.

    `dims` is its shape in TF-GNN after the dimension of the rows: None for a ragged one.
    """

    def __init__(self, values: TensorSpec, name: str, lengths: Sequence[TensorSpec]) -> None:
        self.values = values
        self.lengths = lengths
        self.is_text = name.endswith(BYTES)
        self.name = name[: -len(BYTES)] if self.is_text else name
        self.dims: list[int | None] = []
        for spec in lengths:
            self.dims += [*spec.row_shape, None]
        if self.is_text:
            self.dims.pop()
        else:
            self.dims += values.row_shape

    @property
    def ragged_rank(self) -> int:
        """How many dimensions a RaggedTensor of it partitions: up to its last ragged one."""
        return max((place for place, dim in enumerate(self.dims, 1) if dim is None), default=0)


def ragged_of(layout: Layout, rows: RowSet) -> list[Ragged]:
    """The ragged and text features of a set."""
    attributes = {
        attribute.name: attribute.spec
        for attribute in layout.attributes.values()
        if attribute.owner == rows.component
    }
    found = []
    for name, values in attributes.items():
        lengths = [
            (int(number), spec)
            for whole, spec in (*rows.features.items(), *attributes.items())
            if whole.startswith(name + ".d") and (number := whole[len(name) + 2 :]).isdecimal()
        ]
        lengths.sort(key=lambda level: level[0])
        if lengths and lengths[0][1].component == rows.component:
            found.append(Ragged(values, name, [spec for _, spec in lengths]))
    return found


def check_all_told(layout: Layout) -> None:
    """Raises ValueError for rows that belong to no set and to no ragged feature."""
    told = set()
    for rows in (*layout.node_sets.values(), *layout.edge_sets.values(), layout.graphs):
        for ragged in ragged_of(layout, rows):
            told |= {ragged.values.component, *(spec.component for spec in ragged.lengths)}
    for component in layout.attributes:
        if component not in told:
            raise ValueError(
                f"the rows of {component!r} belong to no node set, edge set or ragged feature"
            )


_TYPES: Final = {
    "DT_BOOL": DType.BOOL,
    "DT_INT8": DType.INT8,
    "DT_INT16": DType.INT16,
    "DT_INT32": DType.INT32,
    "DT_INT64": DType.INT64,
    "DT_UINT8": DType.UINT8,
    "DT_UINT16": DType.UINT16,
    "DT_UINT32": DType.UINT32,
    "DT_UINT64": DType.UINT64,
    "DT_HALF": DType.FLOAT16,
    "DT_BFLOAT16": DType.BFLOAT16,
    "DT_FLOAT": DType.FLOAT32,
    "DT_DOUBLE": DType.FLOAT64,
}


def graph_schema(schema: TfgnnSchema) -> GraphSchema:
    """What the server makes of TF-GNN's own schema, made here. The server checks more, such as
    read-outs.

    Raises ValueError naming the set and the feature that is wrong.
    """
    message = parse_graph_schema(schema.data)
    maker = _Maker([*sorted(message.node_sets), *sorted(message.edge_sets)])
    for name in message.edge_sets:
        if name in message.node_sets:
            raise ValueError(
                f"graph schema: there are a node set and an edge set {name!r}, which would be one "
                "component"
            )
    maker.add_features("context", "", GRAPHS, message.context.features)
    for name, nodes in sorted(message.node_sets.items()):
        maker.add_features(f"node set {name!r}", f"{name}.", name, nodes.features)
    for name, edges in sorted(message.edge_sets.items()):
        mark = "#" if {"source", "target"} & set(edges.features) else ""
        for end, nodes in (("source", edges.source), ("target", edges.target)):
            if nodes not in message.node_sets:
                raise ValueError(
                    f"graph schema: edge set {name!r}: there is no node set {nodes!r}"
                )
            tensor = TensorSpec(f"{name}.{mark}{end}", DType.INT32, name, index_into=nodes)
            maker.tensors.append(tensor)
        maker.add_features(f"edge set {name!r}", f"{name}.", name, edges.features)
    return GraphSchema(maker.components, maker.tensors)


class _Maker:
    """The components and tensors so far."""

    def __init__(self, components: list[str]) -> None:
        self.components = components
        self.tensors: list[TensorSpec] = []

    def add_features(
        self, where: str, prefix: str, component: str, features: Mapping[str, Any]
    ) -> None:
        """The features of a set, or of the context."""
        for name, feature in sorted(features.items()):
            self._add(f"{where}: feature {name!r}", prefix + name, component, feature)

    def _add(self, where: str, name: str, component: str, feature: Any) -> None:
        dims = [dim.size for dim in feature.shape.dim]
        if feature.shape.unknown_rank:
            raise ValueError(f"graph schema: {where}: the rank is unknown")
        dtype_text = dtype_name(feature.dtype)
        if dtype_text == "DT_STRING":
            dtype = DType.UINT8
            name += BYTES
            dims.append(-1)
        elif dtype_text in _TYPES:
            dtype = _TYPES[dtype_text]
        else:
            raise ValueError(f"graph schema: {where}: packhouse has no dtype {dtype_text}")
        fixed: list[int] = []
        names = [f"{name}.d{place}" for place, dim in enumerate(dims, 1) if dim == -1]
        names.append(name)
        for dim in dims:
            if dim < -1 or dim == 0:
                raise ValueError(
                    f"graph schema: {where}: a dimension of {dim} is neither -1 (ragged) nor at "
                    "least 1"
                )
            if dim != -1:
                fixed.append(dim)
                continue
            self.tensors.append(TensorSpec(names.pop(0), DType.INT32, component, fixed))
            fixed = []
            component = names[0]
            self.components.append(component)
        self.tensors.append(TensorSpec(name, dtype, component, fixed))
