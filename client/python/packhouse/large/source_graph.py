"""What a source graph is: node sets, edge sets, their columns. See `SourceGraphs`."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Final, Mapping, Sequence

from packhouse.base.arguments import Choice
from packhouse.data.schema import DType
from packhouse.v1 import graphs_pb2, source_graph_pb2

_INTEGER: Final = source_graph_pb2.NODE_ID_KIND_INTEGER
_TEXT: Final = source_graph_pb2.NODE_ID_KIND_TEXT
_LOOKUPS: Final = {
    (True, True): source_graph_pb2.EDGE_LOOKUP_BOTH,
    (True, False): source_graph_pb2.EDGE_LOOKUP_BY_SOURCE,
    (False, True): source_graph_pb2.EDGE_LOOKUP_BY_TARGET,
}


@dataclasses.dataclass(frozen=True)
class SourceColumn:
    """A feature of every node or edge of a set; `SourceColumn("x", "float32", (128,))`.

    `ragged`: rows have different lengths, and row i has shape [length of i, *row_shape]. `text`:
    a row is a string of bytes; the other fields are not needed then.
    """

    name: str
    dtype: DType | str = DType.UINT8
    row_shape: Sequence[int] = ()
    ragged: bool = False
    text: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", DType.of(self.dtype))
        object.__setattr__(self, "row_shape", tuple(self.row_shape))
        if self.text:
            object.__setattr__(self, "ragged", True)

    @property
    def element(self) -> DType:
        """The type of its elements."""
        return DType.of(self.dtype)

    def to_proto(self) -> Any:
        """As `packhouse.v1.SourceColumn`."""
        return source_graph_pb2.SourceColumn(
            name=self.name,
            dtype=graphs_pb2.DataType.Name(self.element.value),
            row_shape=self.row_shape,
            ragged=self.ragged,
            text=self.text,
        )

    @staticmethod
    def from_proto(proto: Any) -> SourceColumn:
        """The column of a `packhouse.v1.SourceColumn`."""
        return SourceColumn(
            proto.name, DType(proto.dtype), tuple(proto.row_shape), proto.ragged, proto.text
        )


@dataclasses.dataclass(frozen=True)
class SourceNodeSet:
    """Nodes of one kind, with ids that you choose: int64 numbers, or text if `text_ids`.

    An edge may end at a node that nobody appended: it has zeros, or empty rows, in every column.
    With `appended_only`, sealing refuses such edges.
    """

    name: str
    columns: Sequence[SourceColumn] = ()
    text_ids: bool = False
    appended_only: bool = False


@dataclasses.dataclass(frozen=True)
class SourceEdgeSet:
    """Edges of one kind, from nodes of the set `source` to nodes of the set `target`.

    With `reverse_of` they are those of another edge set with the ends exchanged, and have no rows
    of their own. `by_source` and `by_target`: by which end edges can be looked up.
    """

    name: str
    source: str
    target: str
    columns: Sequence[SourceColumn] = ()
    reverse_of: str = ""
    by_source: bool = True
    by_target: bool = True


@dataclasses.dataclass(frozen=True)
class SourceGraphSchema:
    """The sets of a source graph."""

    node_sets: Sequence[SourceNodeSet]
    edge_sets: Sequence[SourceEdgeSet] = ()

    def node_set(self, name: str) -> SourceNodeSet:
        """The node set of this name. Raises ValueError if there is none."""
        for each in self.node_sets:
            if each.name == name:
                return each
        raise ValueError(f"there is no node set {name!r}")

    def edge_set(self, name: str) -> SourceEdgeSet:
        """The edge set of this name. Raises ValueError if there is none."""
        for each in self.edge_sets:
            if each.name == name:
                return each
        raise ValueError(f"there is no edge set {name!r}")

    def to_proto(self) -> Any:
        """As `packhouse.v1.SourceGraphSchema`. Raises ValueError for edges without a lookup."""
        proto = source_graph_pb2.SourceGraphSchema()
        for nodes in self.node_sets:
            proto.node_sets.add(
                name=nodes.name,
                id_kind=_TEXT if nodes.text_ids else _INTEGER,
                columns=[column.to_proto() for column in nodes.columns],
                appended_only=nodes.appended_only,
            )
        for edges in self.edge_sets:
            lookup = _LOOKUPS.get((edges.by_source, edges.by_target))
            if lookup is None:
                raise ValueError(f"edge set {edges.name!r}: neither by_source nor by_target")
            proto.edge_sets.add(
                name=edges.name,
                source=edges.source,
                target=edges.target,
                columns=[column.to_proto() for column in edges.columns],
                reverse_of=edges.reverse_of,
                lookup=lookup,
            )
        return proto

    @staticmethod
    def from_proto(proto: Any) -> SourceGraphSchema:
        """The schema of a `packhouse.v1.SourceGraphSchema`."""
        lookups = {lookup: ends for ends, lookup in _LOOKUPS.items()}
        return SourceGraphSchema(
            tuple(
                SourceNodeSet(
                    each.name,
                    tuple(map(SourceColumn.from_proto, each.columns)),
                    each.id_kind == _TEXT,
                    each.appended_only,
                )
                for each in proto.node_sets
            ),
            tuple(
                SourceEdgeSet(
                    each.name,
                    each.source,
                    each.target,
                    tuple(map(SourceColumn.from_proto, each.columns)),
                    each.reverse_of,
                    *lookups.get(each.lookup, (True, True)),
                )
                for each in proto.edge_sets
            ),
        )


class SourceGraphState(enum.Enum):
    """Whether a source graph takes rows."""

    OPEN = 1
    SEALING = 2
    SEALED = 3
    DAMAGED = 4


class DuplicateNodes(Choice):
    """What sealing does with a node that was appended more than once."""

    REFUSE = 1
    """Raises FAILED_PRECONDITION naming the node, unless its rows are equal."""
    FIRST = 2
    """Takes the first in ascending order of (producer, sequence, row)."""
    LAST = 3


@dataclasses.dataclass(frozen=True)
class SourceGraph:
    """A source graph as it was when it was asked for.

    `num_nodes` and `num_edges` are by the names of sets; before the graph is sealed they count
    rows, and a node may be there twice.
    """

    name: str
    state: SourceGraphState
    schema: SourceGraphSchema
    num_nodes: Mapping[str, int]
    num_edges: Mapping[str, int]
    num_bytes: int
    max_bytes: int
    version: int
    """Drawn when the graph is sealed; 0 before. The same version: the same graph."""
    id: int
    """Drawn when the graph is created."""

    @staticmethod
    def from_proto(proto: Any) -> SourceGraph:
        """The graph of a `packhouse.v1.SourceGraph`."""
        schema = SourceGraphSchema.from_proto(proto.schema)
        return SourceGraph(
            name=proto.name,
            state=SourceGraphState(proto.state),
            schema=schema,
            num_nodes=dict(zip((each.name for each in schema.node_sets), proto.num_nodes)),
            num_edges=dict(zip((each.name for each in schema.edge_sets), proto.num_edges)),
            num_bytes=proto.num_bytes,
            max_bytes=proto.max_bytes,
            version=proto.version,
            id=proto.id,
        )
