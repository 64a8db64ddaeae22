"""What a source graph is: node sets, edge sets, their columns; rows as arrays and as messages.

See `SourceGraphs`, and `SourceGraphs.append` for rows.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Final, Iterator, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import Choice, Uint32, names_arguments
from packhouse.data.graphs import array_of
from packhouse.data.schema import DType
from packhouse.v1 import graphs_pb2, source_graph_pb2

_INTEGER: Final = source_graph_pb2.NODE_ID_KIND_INTEGER
_TEXT: Final = source_graph_pb2.NODE_ID_KIND_TEXT
_LOOKUPS: Final = {
    (True, True): source_graph_pb2.EDGE_LOOKUP_BOTH,
    (True, False): source_graph_pb2.EDGE_LOOKUP_BY_SOURCE,
    (False, True): source_graph_pb2.EDGE_LOOKUP_BY_TARGET,
}


@names_arguments
@dataclasses.dataclass(frozen=True)
class SourceColumn:
    """A feature of every node or edge of a set; `SourceColumn("x", "float32", (128,))`.

    `ragged`: rows have different lengths, and row i has shape [length of i, *row_shape]. `text`:
    a row is a string of bytes; the other fields are not needed then.
    """

    name: str
    dtype: DType | str = DType.UINT8
    row_shape: Sequence[Uint32] = ()
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


@names_arguments
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


@names_arguments
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


@names_arguments
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


_LENGTH: Final = np.dtype("<u4")
_ID: Final = np.dtype("<i8")
# Rows of one message: the server's bound is 2^24.
_MOST_ROWS: Final = 1 << 22

Texts = Sequence[Union[str, bytes]]


@names_arguments
@dataclasses.dataclass(frozen=True)
class NodeRows:
    """Nodes of one set: their ids, and an array for each column, with a row for each node.

    Ids are integers, or texts (`str` or `bytes`) if the set has such. A ragged column is a sequence
    of arrays, or `(values, lengths)`; a text column a sequence of `str` or `bytes`.
    """

    node_set: str
    ids: npt.ArrayLike | Texts
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@names_arguments
@dataclasses.dataclass(frozen=True)
class EdgeRows:
    """Edges of one set, by the ids of the nodes at their ends; columns as those of `NodeRows`."""

    edge_set: str
    sources: npt.ArrayLike | Texts
    targets: npt.ArrayLike | Texts
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class _Values:
    """Rows of equal or different lengths, as bytes that can be cut between rows."""

    def __init__(self, data: npt.NDArray[Any], lengths: npt.NDArray[Any] | None) -> None:
        self._data = data
        self._lengths = lengths
        self._offsets: npt.NDArray[np.int64] | None = None
        if lengths is not None:
            self._offsets = np.zeros(len(lengths) + 1, np.int64)
            np.cumsum(lengths, out=self._offsets[1:])
        self.num_rows = len(data) if lengths is None else len(lengths)

    def row_bytes(self) -> float:
        """The mean of a row."""
        return self._data.nbytes / max(1, self.num_rows) + (0 if self._lengths is None else 4)

    def cut(self, start: int, stop: int) -> tuple[bytes, bytes]:
        """The data and the lengths of the rows [start, stop)."""
        if self._offsets is None or self._lengths is None:
            return np.ascontiguousarray(self._data[start:stop]).tobytes(), b""
        first, last = self._offsets[start], self._offsets[stop]
        return (
            np.ascontiguousarray(self._data[first:last]).tobytes(),
            self._lengths[start:stop].tobytes(),
        )


def _texts(values: Any, what: str) -> _Values:
    if isinstance(values, (str, bytes)):
        raise ValueError(f"{what}: {values!r} is one text, not a sequence of them")
    raw = []
    for value in values:
        if isinstance(value, str):
            raw.append(value.encode())
        elif isinstance(value, (bytes, np.bytes_)):
            raw.append(bytes(value))
        else:
            raise ValueError(f"{what}: {value!r} is neither str nor bytes")
    lengths = np.fromiter(map(len, raw), _LENGTH, len(raw))
    return _Values(np.frombuffer(b"".join(raw), np.uint8), lengths)


def exact_array(values: Any, dtype: np.dtype[Any], what: str) -> npt.NDArray[Any]:
    """`values` as an array of `dtype`, each with the same value.

    Floating-point numbers may be rounded to fewer digits, but finite ones stay finite. Raises
    ValueError naming `what` and the first number that does not fit.
    """
    array = array_of(values, what)
    if array.dtype == dtype:
        return array
    if array.size == 0 or np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    # A number may fit all the same.
    if array.dtype.kind not in "biuf" or dtype.kind not in "biuf":
        raise ValueError(f"{what}: {array.dtype} does not fit into {dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(dtype)
    if array.dtype.kind == "f" and dtype.kind == "f":
        fits = np.isfinite(converted) | ~np.isfinite(array)
    else:
        fits = converted == array
    if not fits.all():
        raise ValueError(f"{what}: {array[~fits][0]} ({array.dtype}) does not fit into {dtype}")
    return converted


def _ids(values: Any, text: bool, what: str) -> _Values:
    if text:
        return _texts(values, what)
    array = exact_array(values, _ID, what)
    if array.ndim != 1:
        raise ValueError(f"{what}: shape {array.shape}, needs one axis")
    return _Values(array, None)


def _column(values: Any, column: SourceColumn, what: str) -> _Values:
    if column.text:
        return _texts(values, what)
    dtype = column.element.numpy
    shape = tuple(column.row_shape)
    lengths: npt.NDArray[Any] | None = None
    if column.ragged:
        if isinstance(values, tuple) and len(values) == 2:
            flat, given = values
            data = exact_array(flat, dtype, what)
            lengths = exact_array(given, _LENGTH, f"{what}: lengths")
        else:
            rows = [exact_array(row, dtype, what).reshape((-1, *shape)) for row in values]
            lengths = np.fromiter(map(len, rows), _LENGTH, len(rows))
            data = np.concatenate(rows) if rows else np.zeros((0, *shape), dtype)
        if data.shape[0] != lengths.sum():
            raise ValueError(
                f"{what}: {data.shape[0]} steps, the lengths add up to {lengths.sum()}"
            )
    else:
        data = exact_array(values, dtype, what)
    if data.shape[1:] != shape:
        raise ValueError(f"{what}: rows have shape {data.shape[1:]}, the schema says {shape}")
    return _Values(data, lengths)


def _columns(
    given: Mapping[str, Any], columns: Sequence[SourceColumn], where: str
) -> dict[str, _Values]:
    if unknown := given.keys() - {column.name for column in columns}:
        raise ValueError(f"{where} has no column {min(unknown)!r}")
    made = {}
    for column in columns:
        what = f"column {column.name!r} of {where}"
        if column.name not in given:
            raise ValueError(f"{what} is missing")
        made[column.name] = _column(given[column.name], column, what)
    return made


def _set_ids(values: _Values, start: int, stop: int, text: bool, proto: Any) -> None:
    data, lengths = values.cut(start, stop)
    if text:
        proto.text.data = data
        proto.text.lengths = lengths
    else:
        proto.integers = data


def requests_of(
    rows: NodeRows | EdgeRows, schema: SourceGraphSchema, request_bytes: int
) -> Iterator[Any]:
    """The rows as `packhouse.v1.AppendSourceGraphRequest`s of about `request_bytes` each.

    Raises ValueError naming the set and the column.
    """
    ids: dict[str, tuple[_Values, bool]] = {}
    if isinstance(rows, NodeRows):
        nodes = schema.node_set(rows.node_set)
        where = f"node set {nodes.name!r}"
        ids["ids"] = _ids(rows.ids, nodes.text_ids, f"ids of {where}"), nodes.text_ids
        columns = _columns(rows.columns, nodes.columns, where)
    else:
        edges = schema.edge_set(rows.edge_set)
        where = f"edge set {edges.name!r}"
        for end, given, of in (
            ("sources", rows.sources, edges.source),
            ("targets", rows.targets, edges.target),
        ):
            text = schema.node_set(of).text_ids
            ids[end] = _ids(given, text, f"{end} of {where}"), text
        columns = _columns(rows.columns, edges.columns, where)
    num_rows = next(iter(ids.values()))[0].num_rows
    parts = {**{name: values for name, (values, _) in ids.items()}, **columns}
    for name, values in parts.items():
        if values.num_rows != num_rows:
            raise ValueError(f"{where}: {name} has {values.num_rows} rows of {num_rows}")
    row_bytes = sum(values.row_bytes() for values in parts.values())
    step = int(min(_MOST_ROWS, max(1, request_bytes // max(1.0, row_bytes))))
    for start in range(0, num_rows, step):
        stop = min(start + step, num_rows)
        request = source_graph_pb2.AppendSourceGraphRequest()
        if isinstance(rows, NodeRows):
            part = request.nodes.add(node_set=rows.node_set)
        else:
            part = request.edges.add(edge_set=rows.edge_set)
        for name, (values, text) in ids.items():
            _set_ids(values, start, stop, text, getattr(part, name))
        for name, values in columns.items():
            data, lengths = values.cut(start, stop)
            part.columns.add(name=name, data=data, lengths=lengths)
        yield request


def ids_to_proto(ids: npt.ArrayLike | Texts, text: bool, proto: Any) -> None:
    """Sets a `packhouse.v1.NodeIds`."""
    values = _ids(ids, text, "ids")
    _set_ids(values, 0, values.num_rows, text, proto)


def column_bytes(values: Any, column: SourceColumn, what: str) -> bytes:
    """Rows of a column that is neither ragged nor text. Raises ValueError naming `what`."""
    rows = _column(values, column, what)
    return rows.cut(0, rows.num_rows)[0]


def ids_of(proto: Any) -> npt.NDArray[np.int64] | list[bytes]:
    """The ids of a `packhouse.v1.NodeIds`."""
    if proto.HasField("text"):
        return _split_bytes(proto.text.data, proto.text.lengths)
    return np.frombuffer(proto.integers, _ID)


def _split_bytes(data: bytes, lengths: bytes) -> list[bytes]:
    ends = np.cumsum(np.frombuffer(lengths, _LENGTH), dtype=np.int64).tolist()
    return [data[start:stop] for start, stop in zip([0, *ends], ends)]


def columns_of(
    protos: Any, columns: Sequence[SourceColumn]
) -> dict[str, npt.NDArray[Any] | list[npt.NDArray[Any]] | list[bytes]]:
    """Columns by name: an array; a list of arrays if ragged; a list of bytes if text."""
    specs = {column.name: column for column in columns}
    made: dict[str, Any] = {}
    for proto in protos:
        column = specs[proto.name]
        if column.text:
            made[proto.name] = _split_bytes(proto.data, proto.lengths)
            continue
        data = np.frombuffer(proto.data, column.element.numpy).reshape((-1, *column.row_shape))
        if column.ragged:
            ends = np.cumsum(np.frombuffer(proto.lengths, _LENGTH), dtype=np.int64)
            made[proto.name] = np.split(data, ends[:-1]) if len(ends) else []
        else:
            made[proto.name] = data
    return made
