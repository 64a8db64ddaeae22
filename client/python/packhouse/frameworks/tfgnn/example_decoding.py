"""TF-GNN's serialized tf.Examples as tables, without a server. See `packhouse.tfgnn`."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Final, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.data.examples import TfgnnSchema, check_examples
from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.frameworks.layout import Layout, RowSet
from packhouse.frameworks.tfgnn.examples_at_once import (
    MAX_COUNT,
    MAX_GRAPH_BYTES,
    MAX_LENGTH,
    Records,
    Unusual,
    converted,
    is_float,
    range_of,
)
from packhouse.frameworks.tfgnn.schemas import (
    ExampleMessage,
    Ragged,
    check_all_told,
    graph_schema,
    ragged_of,
)

_KINDS: Final = {"bytes_list": "bytes", "float_list": "floats", "int64_list": "int64s"}
# Records are read at once, so many at first, and then about so many bytes.
_FIRST_RECORDS: Final = 64
_MOST_RECORDS: Final = 8192
_BYTES_AT_ONCE: Final = 16 << 20
_NO_NUMBERS: Final = np.zeros(0, np.int64)


def table_from_examples(
    schema: GraphSchema | TfgnnSchema,
    examples: Iterable[bytes],
    graph_ids: npt.ArrayLike | None = None,
    first_id: int = 0,
) -> GraphTable:
    """Graphs that TF-GNN wrote, each a serialized tf.Example. Needs no server or TensorFlow.

    `schema` is TF-GNN's own, as `read_schema` gives it, or that of a data set made of it
    (`Dataset.schema`). The table is the one that the server makes of the examples; see
    docs/tfgnn.md for what is refused. To store examples send them as they are
    (`Client.datasets.append_examples`): the server is much faster.

    Raises ValueError naming the record by its position, the key, the value and the bound;
    TypeError for a single example, or the name of a file.
    """
    check_examples(examples)
    if isinstance(schema, TfgnnSchema):
        schema = graph_schema(schema)
    if not isinstance(schema, GraphSchema):
        raise TypeError(
            f"schema: a {type(schema).__name__} is neither a GraphSchema nor what"
            " packhouse.tfgnn.read_schema gives"
        )
    decoder = _Decoder(schema)
    rest = iter(examples)
    number, count = 0, _FIRST_RECORDS
    while part := list(itertools.islice(rest, count)):
        nbytes = decoder.add(number, part)
        number += len(part)
        count = min(max(_BYTES_AT_ONCE * len(part) // max(nbytes, 1), 1), _MOST_RECORDS)
    return decoder.table(graph_ids, first_id)


class _Decoder:
    """What the keys of a schema mean, and the rows so far."""

    def __init__(self, schema: GraphSchema) -> None:
        layout = Layout.of(schema)
        check_all_told(layout)
        _check_indices(layout)
        self._schema = schema
        self._layout = layout
        self._columns: dict[str, list[Array]] = {spec.name: [] for spec in schema.tensors}
        self._tuples: list[Array] = []
        # What reads a part of a record, or of many, in the order of the service's.
        self._readers: list[Callable[[_Record | Records], None]] = []
        self._keys: list[str] = []
        sets = [(rows, "node") for rows in layout.node_sets.values()]
        sets += [(rows, "edge") for rows in layout.edge_sets.values()]
        self._size_keys = [
            (rows.component, f"{kind}s/{rows.component}.#size") for rows, kind in sets
        ]
        self._keys += [key for _, key in self._size_keys]
        for edges in layout.edge_sets.values():
            for end, spec in (("source", edges.ends.source), ("target", edges.ends.target)):
                self._add_end(f"edges/{edges.component}.#{end}", spec)
        self._add_features(layout.graphs, "context/", "the context")
        for rows, kind in sets:
            self._add_features(
                rows, f"{kind}s/{rows.component}.", f"{kind} set {rows.component!r}"
            )

    def add(self, first: int, examples: Sequence[bytes]) -> int:
        """Graphs; returns their bytes. Raises ValueError, after which the table is of no use."""
        try:
            many = Records(examples, self._keys)
            self._read(many)
        except Unusual:
            for number, example in enumerate(examples, first):
                record = _Record(number, example, self._columns)
                self._read(record)
                counts = [record.counts.get(name, 0) for name in self._schema.components]
                self._tuples.append(np.array([counts], np.int64))
        else:
            for name, rows in many.columns.items():
                self._columns[name].append(rows)
            self._tuples.append(many.tuples(self._schema.components))
        return sum(map(len, examples))

    def _read(self, record: _Record | Records) -> None:
        for component, key in self._size_keys:
            record.counts[component] = record.size(key)
        for read in self._readers:
            read(record)

    def table(self, graph_ids: npt.ArrayLike | None, first_id: int) -> GraphTable:
        """All graphs."""
        columns = {
            spec.name: np.concatenate(
                [np.empty(spec.array_shape(0), spec.dtype.numpy), *self._columns[spec.name]]
            )
            for spec in self._schema.tensors
        }
        none = np.zeros((0, len(self._schema.components)), np.int64)
        sizes = np.concatenate([none, *self._tuples]).astype("<u4")
        return GraphTable(self._schema, sizes, columns, graph_ids, first_id)

    def _add_end(self, key: str, spec: TensorSpec) -> None:
        self._keys.append(key)
        self._readers.append(lambda record: record.append_ends(key, spec))

    def _add_features(self, rows: RowSet, prefix: str, text: str) -> None:
        ragged = {each.name: each for each in ragged_of(self._layout, rows)}
        hidden = {each.lengths[0].name for each in ragged.values()}
        plain = {name: spec for name, spec in rows.features.items() if spec.name not in hidden}
        for name in sorted({*ragged, *plain}):
            if name in ragged:
                self._add_ragged(prefix + name, rows.component, ragged[name])
            else:
                self._add_values(prefix + name, plain[name], text)

    def _add_values(self, key: str, spec: TensorSpec, text: str) -> None:
        def read(record: _Record | Records) -> None:
            record.append_values(key, spec, record.rows(spec.component), f"the size of {text}")

        self._keys.append(key)
        self._readers.append(read)

    def _add_ragged(self, key: str, component: str, ragged: Ragged) -> None:
        values = ragged.values
        *lengths, last = ragged.lengths
        if not ragged.is_text:
            lengths.append(last)
        places = [place for place, dim in enumerate(ragged.dims, 1) if dim is None]
        keys = [f"{key}.d{place}" for place in places]
        inner = [spec.component for spec in ragged.lengths[1:]] + [values.component]
        self._keys += [key, *keys]

        def read(record: _Record | Records) -> None:
            rows = record.rows(component)
            # A ragged feature of which nothing is there has empty rows.
            nothing = bool(keys) and record.has_nothing([key, *keys])
            for each, spec, counted in zip(keys, lengths, inner):
                rows = record.append_lengths(each, spec, rows, nothing)
                record.counts[counted] = rows
            if ragged.is_text:
                record.append_text(key, last, values, rows)
            else:
                record.append_values(key, values, rows, f"the sum of {keys[-1]!r}")

        self._readers.append(read)


class _Record:
    """One tf.Example while it is read."""

    def __init__(self, number: int, example: bytes, columns: dict[str, list[Array]]) -> None:
        self.counts: dict[str, Any] = {}
        self._number = number
        self._columns = columns
        self._bytes = 0
        message = ExampleMessage()
        try:
            message.ParseFromString(example)
        except Exception:  # Each implementation of protobuf has errors of its own.
            raise ValueError(
                f"record {number}: its {len(example)} bytes are no tf.Example"
            ) from None
        self._features = message.features.feature

    def wrong(self, key: str, text: str) -> ValueError:
        """An error that names the record and the key."""
        return ValueError(f"record {self._number}: key {key!r}: {text}")

    def rows(self, component: str) -> int:
        """Rows of a set; 1 of the context."""
        return 1 if component == GRAPHS else int(self.counts[component])

    def has_nothing(self, keys: Sequence[str]) -> bool:
        """Whether none of the keys has a value."""
        return not any(self._has_values(key) for key in keys)

    def _has_values(self, key: str) -> bool:
        feature = self._features[key] if key in self._features else None
        kind = None if feature is None else feature.WhichOneof("kind")
        return kind is not None and len(getattr(feature, kind).value) != 0

    def size(self, key: str) -> int:
        """The value of a `#size`; 0 without one."""
        values = self._list(key, "int64_list")
        if values is None:
            return 0
        if len(values) != 1:
            raise self.wrong(
                key, f"{len(values)} values; a record has one graph, so a size has one value"
            )
        if not 0 <= values[0] <= MAX_COUNT:
            raise self.wrong(key, f"value {values[0]} is not in [0, {MAX_COUNT}]")
        return int(values[0])

    def numbers(self, key: str) -> npt.NDArray[np.int64]:
        """A list of int64s."""
        values = self._list(key, "int64_list")
        return _NO_NUMBERS if values is None else np.array(values, np.int64)

    def append_ends(self, key: str, spec: TensorSpec) -> None:
        """The rows in which edges end."""
        edges, nodes = spec.component, str(spec.index_into)
        ends = self.numbers(key)
        count, bound = self.counts[edges], min(self.counts[nodes], MAX_LENGTH + 1)
        if len(ends) != count:
            raise self.wrong(key, f"{len(ends)} values; the size of edge set {edges!r} is {count}")
        bad = np.flatnonzero((ends < 0) | (ends >= bound))
        if len(bad):
            raise self.wrong(
                key,
                f"value {ends[bad[0]]} at position {bad[0]} is not in [0, {bound}), the rows "
                f"of node set {nodes!r}",
            )
        self.append(key, spec, ends.astype(np.int32))

    def append(self, key: str, spec: TensorSpec, rows: Array) -> None:
        """More rows of a tensor."""
        self._grow(key, rows.nbytes)
        self._columns[spec.name].append(rows)

    def append_lengths(self, key: str, spec: TensorSpec, rows: int, nothing: bool) -> int:
        """The lengths of a ragged dimension; returns their sum."""
        needed = rows * math.prod(spec.row_shape)
        if nothing:
            self._grow(key, 4 * needed)
            self._columns[spec.name].append(np.zeros(spec.array_shape(rows), np.int32))
            return 0
        lengths = self.numbers(key)
        if len(lengths) != needed:
            raise self.wrong(key, f"{len(lengths)} lengths; {needed} are needed")
        bad = np.flatnonzero((lengths < 0) | (lengths > MAX_LENGTH))
        if len(bad):
            raise self.wrong(
                key, f"value {lengths[bad[0]]} at position {bad[0]} is not in [0, {MAX_LENGTH}]"
            )
        total = int(lengths.sum())
        if total > MAX_COUNT:
            raise self.wrong(key, f"the sum {total} is above {MAX_COUNT}")
        self.append(key, spec, lengths.astype(np.int32).reshape(spec.array_shape(rows)))
        return total

    def append_text(self, key: str, lengths: TensorSpec, values: TensorSpec, rows: int) -> None:
        """The strings of a feature, and the lengths of each."""
        needed = rows * math.prod(lengths.row_shape)
        strings = self._list(key, "bytes_list") or ()
        if len(strings) != needed:
            raise self.wrong(key, f"{len(strings)} strings; {needed} are needed")
        of_strings = np.array([len(string) for string in strings], np.int32)
        self.append(key, lengths, of_strings.reshape(lengths.array_shape(rows)))
        text = b"".join(strings)
        self.append(key, values, np.frombuffer(text, np.uint8))
        self.counts[values.component] = len(text)

    def append_values(self, key: str, spec: TensorSpec, rows: int, because: str) -> None:
        """The numbers of a feature."""
        values = self._floats(key) if is_float(spec.dtype) else self.numbers(key)
        needed = rows * math.prod(spec.row_shape)
        if len(values) != needed:
            raise self.wrong(
                key,
                f"{len(values)} values; {needed} are needed: {rows} rows of "
                f"{list(spec.row_shape)}, {because}",
            )
        if not is_float(spec.dtype):
            self._check_range(key, spec, values)
        self.append(key, spec, converted(values, spec.dtype).reshape(spec.array_shape(rows)))

    def _check_range(self, key: str, spec: TensorSpec, values: Array) -> None:
        bounds = range_of(spec.dtype)
        if bounds is None:
            return
        bad = np.flatnonzero((values < bounds[0]) | (values > bounds[1]))
        if len(bad):
            raise self.wrong(
                key,
                f"value {values[bad[0]]} at position {bad[0]} is not in [{bounds[0]}, "
                f"{bounds[1]}], the range of {spec.dtype.name.lower()}",
            )

    def _floats(self, key: str) -> Array:
        values = self._list(key, "float_list")
        if not values:
            return np.zeros(0, "<f4")
        # Serialized again they are one field of packed numbers, much faster than one by one.
        data = self._features[key].float_list.SerializeToString()
        return np.frombuffer(data, "<f4", offset=len(data) - 4 * len(values))

    def _list(self, key: str, wanted: str) -> Any:
        """The values of a list, None without one; refused if it has values of another kind."""
        if key not in self._features:
            return None
        feature = self._features[key]
        kind = feature.WhichOneof("kind")
        if kind is None:
            return None
        values = getattr(feature, kind).value
        if kind == wanted:
            return values
        if not values:
            return None
        raise self.wrong(key, f"a list of {_KINDS[kind]}; the schema wants {_KINDS[wanted]}")

    def _grow(self, key: str, nbytes: int) -> None:
        self._bytes += nbytes
        if self._bytes > MAX_GRAPH_BYTES:
            raise self.wrong(key, f"the graph's rows would take more than {MAX_GRAPH_BYTES} bytes")


def _check_indices(layout: Layout) -> None:
    """Raises ValueError for a schema that no tf.Example can fill."""
    ends = set()
    for edges in layout.edge_sets.values():
        if edges.ends.are_joined or any(
            spec.dtype is not DType.INT32 for spec in (edges.ends.source, edges.ends.target)
        ):
            raise ValueError(
                f"schema: tensor {edges.ends.source.name!r}: the ends of edges come from "
                "tf.Examples as two tensors of int32, source and target"
            )
        ends |= {edges.ends.source.name, edges.ends.target.name}
    for spec in layout.schema.tensors:
        if spec.index_into is not None and spec.name not in ends:
            raise ValueError(
                f"schema: tensor {spec.name!r}: an index tensor that is no end of edges does not "
                "come from tf.Examples"
            )
        if spec.rows_axis:
            raise ValueError(
                f"schema: tensor {spec.name!r}: the layout rows last does not come from tf.Examples"
            )
