"""Many graphs in columns: the container that is sent, and that un-batching returns."""

from __future__ import annotations

import math
from typing import Any, Final, Iterable, Iterator, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import names_arguments
from packhouse.data.schema import GRAPHS, GraphSchema, Layout, TensorSpec
from packhouse.v1 import graphs_pb2, sizes_pb2

Array = npt.NDArray[Any]
# A table [n, l] of sizes, or several.
Sizes = Union[npt.NDArray[Any], Iterable[npt.ArrayLike]]

# Large enough that per-message cost vanishes, far below the server's message limit.
DEFAULT_CHUNK_BYTES: Final = 1 << 20
# A message of a server's has at most 64 MiB; names and numbers need a little of it.
MAX_CHUNK_BYTES: Final = (64 << 20) - (64 << 10)


@names_arguments
class GraphTable:
    """n graphs of one schema.

    `sizes` is uint32 [n, l], one size tuple a graph; `graph_ids` is uint64 [n]; `tensors` maps each
    name to the rows of all graphs concatenated, [rows, *row_shape], or [*row_shape, rows] if its
    spec's layout has rows last. Index tensors number rows within their own graph. Arrays of the
    right type are kept, not copied: treat a table as immutable. Constant, therefore safe to read
    from many threads.
    """

    def __init__(
        self,
        schema: GraphSchema,
        sizes: npt.ArrayLike,
        tensors: Mapping[str, npt.ArrayLike] | None = None,
        graph_ids: npt.ArrayLike | None = None,
        first_id: int = 0,
    ) -> None:
        """Without `graph_ids`, graphs are called first_id, first_id + 1, ...

        Raises ValueError naming the tensor, the rows it has and those it needs; also for values
        that the schema's integer types cannot hold. Index values are left to the server to check.
        Cost: O(tensors), more only for columns whose type must change.
        """
        self.schema = schema
        self.sizes: npt.NDArray[np.uint32] = as_sizes(sizes, len(schema.components))
        count = len(self.sizes)
        if graph_ids is None:
            self.graph_ids = np.arange(count, dtype="<u8") + np.uint64(first_id)
        else:
            self.graph_ids = convert_exactly(graph_ids, np.dtype("<u8"), "graph_ids")
        if self.graph_ids.shape != (count,):
            raise ValueError(f"graph_ids has shape {self.graph_ids.shape}, needs ({count},)")
        self._offsets: dict[str, npt.NDArray[np.int64]] = {}

        given = dict(tensors or {})
        self.tensors: dict[str, Array] = {}
        for spec in schema.tensors:
            if spec.name not in given:
                raise ValueError(f"tensor {spec.name!r} is missing")
            shape = spec.array_shape(self.rows(spec.component))
            column = convert_exactly(given.pop(spec.name), spec.dtype.numpy, spec.name)
            if column.size == 0 and 0 in shape:
                column = column.reshape(shape)
            if column.shape != shape:
                raise ValueError(f"tensor {spec.name!r} has shape {column.shape}, needs {shape}")
            # With rows last a part of a table is no run of bytes: it stays a view.
            if spec.layout is Layout.ROWS_FIRST:
                column = np.ascontiguousarray(column)
            self.tensors[spec.name] = column
        if given:
            raise ValueError(f"tensor {next(iter(given))!r} is not in the schema")

    @staticmethod
    def from_graphs(
        schema: GraphSchema,
        graphs: Iterable[Mapping[str, npt.ArrayLike]],
        sizes: npt.ArrayLike | None = None,
        graph_ids: npt.ArrayLike | None = None,
        first_id: int = 0,
    ) -> GraphTable:
        """Joins single graphs, each a mapping from tensor name to its rows.

        Sizes are read off the tensors; a schema with a component along which nothing grows needs
        `sizes`. Raises ValueError naming the graph's position and the tensor.
        """
        columns: dict[str, list[Array]] = {spec.name: [] for spec in schema.tensors}
        tuples: list[list[int]] = []
        for position, graph in enumerate(graphs):
            for name in graph:
                if name not in columns:
                    raise ValueError(f"graph {position}: tensor {name!r} is not in the schema")
            counts: dict[str, int] = {GRAPHS: 1}
            for spec in schema.tensors:
                if spec.name not in graph:
                    raise ValueError(f"graph {position}: tensor {spec.name!r} is missing")
                rows = convert_exactly(
                    graph[spec.name], spec.dtype.numpy, f"{spec.name} of graph {position}"
                )
                if rows.shape == spec.row_shape and spec.component == GRAPHS:
                    rows = rows.reshape(spec.array_shape(1))
                if rows.size == 0:
                    rows = rows.reshape(spec.array_shape(0))
                count = rows.shape[spec.rows_axis] if rows.ndim else 0
                if rows.shape != spec.array_shape(count):
                    raise ValueError(
                        f"graph {position}: {spec.name!r} has shape {rows.shape}, its rows need "
                        f"{spec.row_shape}, {spec.layout.name.lower().replace('_', ' ')}"
                    )
                if counts.setdefault(spec.component, count) != count:
                    raise ValueError(
                        f"graph {position}: {spec.name!r} has {count} rows, "
                        f"{spec.component!r} has {counts[spec.component]}"
                    )
                columns[spec.name].append(rows)
            tuples.append([counts.get(component, -1) for component in schema.components])
        if sizes is None:
            for column, component in enumerate(schema.components):
                if any(row[column] < 0 for row in tuples):
                    raise ValueError(f"no tensor grows along {component!r}: give sizes")
            sizes = np.array(tuples, np.int64).reshape(len(tuples), len(schema.components))
        joined = {
            spec.name: np.concatenate(
                [np.empty(spec.array_shape(0), spec.dtype.numpy), *columns[spec.name]],
                axis=spec.rows_axis,
            )
            for spec in schema.tensors
        }
        return GraphTable(schema, sizes, joined, graph_ids, first_id)

    @staticmethod
    def concatenate(tables: Sequence[GraphTable]) -> GraphTable:
        """Joins one or more tables of the same schema; keeps the graph ids."""
        if not tables:
            raise ValueError("nothing to concatenate")
        schema = tables[0].schema
        if any(table.schema != schema for table in tables):
            raise ValueError("tables have different schemas")
        return GraphTable(
            schema,
            np.concatenate([table.sizes for table in tables]),
            {
                spec.name: np.concatenate(
                    [table.tensors[spec.name] for table in tables], axis=spec.rows_axis
                )
                for spec in schema.tensors
            },
            np.concatenate([table.graph_ids for table in tables]),
        )

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """The tensors of one graph after the other, as `graph` gives them."""
        return map(self.graph, range(len(self)))

    def __repr__(self) -> str:
        rows = ", ".join(f"{self.rows(name):,} {name}" for name in self.schema.all_components)
        return f"GraphTable({rows}; {len(self.tensors)} tensors)"

    @property
    def nbytes(self) -> int:
        """Bytes of sizes, ids and tensors."""
        columns = sum(column.nbytes for column in self.tensors.values())
        return self.sizes.nbytes + self.graph_ids.nbytes + columns

    def rows(self, component: str) -> int:
        """Rows of all graphs together. Raises KeyError."""
        return int(self.offsets(component)[-1])

    def offsets(self, component: str) -> npt.NDArray[np.int64]:
        """int64 [n + 1]: the first row of each graph, then the end. Raises KeyError."""
        if component not in self._offsets:
            self._offsets[component] = row_offsets(self.schema, self.sizes, component)
        return self._offsets[component]

    def counts(self, component: str) -> npt.NDArray[np.int64]:
        """int64 [n]: rows of each graph. Raises KeyError."""
        return np.diff(self.offsets(component))

    def graph(self, position: int) -> dict[str, Array]:
        """The tensors of one graph, as views. Raises IndexError."""
        if not 0 <= position < len(self):
            raise IndexError(f"graph {position} of {len(self)}")
        part = self.slice(position, position + 1)
        return part.tensors

    def slice(self, start: int, stop: int) -> GraphTable:
        """Graphs [start, stop), as views; like Python's own slices, what lies beyond is empty."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        tensors = {
            spec.name: rows_of(
                self.tensors[spec.name],
                spec,
                int(self.offsets(spec.component)[start]),
                int(self.offsets(spec.component)[stop]),
            )
            for spec in self.schema.tensors
        }
        return GraphTable(self.schema, self.sizes[start:stop], tensors, self.graph_ids[start:stop])

    def take(self, positions: npt.ArrayLike) -> GraphTable:
        """A copy of the graphs at these positions, in that order. Cost: O(rows copied)."""
        chosen = np.asarray(array_of(positions, "positions"), np.int64)
        gathers: dict[str, npt.NDArray[np.int64]] = {}
        tensors = {}
        for spec in self.schema.tensors:
            if spec.component not in gathers:
                counts = self.counts(spec.component)[chosen]
                # Row r of the result is as far behind its graph's start as here.
                shift = self.offsets(spec.component)[chosen] - (np.cumsum(counts) - counts)
                rows = np.arange(int(counts.sum()), dtype=np.int64)
                gathers[spec.component] = np.repeat(shift, counts) + rows
            tensors[spec.name] = np.take(
                self.tensors[spec.name], gathers[spec.component], axis=spec.rows_axis
            )
        return GraphTable(self.schema, self.sizes[chosen], tensors, self.graph_ids[chosen])

    def with_counts(self, masks: Sequence[str]) -> GraphTable:
        """These graphs with a component more for each of the masks: how many of its rows are true.

        `masks` are tensors of one bool a row; the component has the mask's name, comes after the
        others, and nothing grows along it. Epochs of it know how many rows are true in each batch and
        in all: `LoadedBatch.loss_weights[mask]`. Where batches are padded the component needs a
        limit, as each: that of the mask's own component never binds. Raises KeyError if there is no
        such tensor, ValueError if it is no mask or there is a component of its name. Cost: O(rows).
        """
        columns = [self.sizes]
        for name in masks:
            spec = self.schema.tensor(name)
            if not spec.is_mask:
                raise ValueError(
                    f"counts of {name!r}: a mask has one bool a row; it is {spec.dtype.name} of "
                    f"row_shape {spec.row_shape}"
                )
            num_true = np.zeros(len(self.tensors[name]) + 1, np.int64)
            np.cumsum(self.tensors[name], out=num_true[1:])
            columns.append(np.diff(num_true[self.offsets(spec.component)])[:, None])
        schema = GraphSchema((*self.schema.components, *masks), self.schema.tensors)
        return GraphTable(schema, np.concatenate(columns, axis=1), self.tensors, self.graph_ids)

    def differing(self, other: GraphTable) -> npt.NDArray[np.bool_]:
        """bool [n]: which graphs are not byte for byte those of `other` at the same position.

        Ids, sizes and all tensors count. Raises ValueError unless schema and n agree.
        """
        if self.schema != other.schema or len(self) != len(other):
            raise ValueError(f"cannot compare {self!r} with {other!r}")
        differs: npt.NDArray[np.bool_] = np.any(self.sizes != other.sizes, axis=1)
        differs = np.logical_or(differs, self.graph_ids != other.graph_ids)
        if differs.any():
            # Only without graphs of differing sizes are the rows of the other graphs aligned.
            same = np.flatnonzero(~differs)
            differs[same] = self.take(same).differing(other.take(same))
            return differs
        for spec in self.schema.tensors:
            mine = _row_bytes(self.tensors[spec.name], spec)
            theirs = _row_bytes(other.tensors[spec.name], spec)
            if not np.array_equal(mine, theirs):
                rows = np.flatnonzero((mine != theirs).any(axis=1))
                owners = np.searchsorted(self.offsets(spec.component), rows, side="right") - 1
                differs[owners] = True
        return differs

    def equals(self, other: GraphTable) -> bool:
        """Whether both hold the same graphs in the same order, byte for byte."""
        return (
            self.schema == other.schema
            and len(self) == len(other)
            and not self.differing(other).any()
        )

    def to_chunks(self, max_bytes: int = DEFAULT_CHUNK_BYTES) -> Iterator[Any]:
        """`packhouse.v1.GraphChunk` messages, as `parts`."""
        for part in self.parts(max_bytes):
            yield part.to_chunk()

    def to_chunk(self) -> Any:
        """All as one `packhouse.v1.GraphChunk`, however large."""
        return graphs_pb2.GraphChunk(
            sizes=self.to_size_table(),
            tensors=[
                graphs_pb2.TensorData(name=name, data=column.tobytes())
                for name, column in self.tensors.items()
            ],
        )

    def parts(self, max_bytes: int = DEFAULT_CHUNK_BYTES) -> Iterator[GraphTable]:
        """Tables of at most about `max_bytes`, in order, as views.

        A graph is never split: a graph of more than `max_bytes` makes a larger part. Raises
        ValueError naming a graph that no message takes (`MAX_CHUNK_BYTES`).
        """
        for start, stop in self._parts(max_bytes):
            part = self.slice(start, stop)
            num_bytes = sum(column.nbytes for column in part.tensors.values())
            if num_bytes > MAX_CHUNK_BYTES:
                what = (
                    f"graph {part.graph_ids[0]} has {num_bytes:,} bytes: cut it (docs/partitioning.md)"
                    if len(part) == 1
                    else f"a chunk has {num_bytes:,} bytes: make chunk_bytes smaller"
                )
                raise ValueError(f"{what}; a message takes at most {MAX_CHUNK_BYTES:,}")
            yield part

    def to_size_tables(self, max_bytes: int = DEFAULT_CHUNK_BYTES) -> Iterator[Any]:
        """`packhouse.v1.SizeTable` messages: ids and sizes alone, split as in `to_chunks`."""
        sizes_only = GraphTable(
            GraphSchema(self.schema.components), self.sizes, graph_ids=self.graph_ids
        )
        for start, stop in sizes_only._parts(max_bytes):
            yield sizes_only.slice(start, stop).to_size_table()

    def to_size_table(self) -> Any:
        """Ids and sizes of all graphs as one `packhouse.v1.SizeTable`."""
        table = sizes_pb2.SizeTable(num_graphs=len(self), counts=self.sizes.tobytes())
        first = int(self.graph_ids[0]) if len(self) else 0
        consecutive = first + len(self) < 1 << 64 and np.array_equal(
            self.graph_ids, np.arange(len(self), dtype="<u8") + np.uint64(first)
        )
        if consecutive:
            table.first_id = first
        else:
            table.graph_ids = self.graph_ids.tobytes()
        return table

    def _parts(self, max_bytes: int) -> Iterator[tuple[int, int]]:
        if max_bytes < 1:
            raise ValueError(f"max_bytes {max_bytes} is below 1")
        graph_bytes = np.full(len(self), 4 * len(self.schema.components) + 8, np.int64)
        for spec in self.schema.tensors:
            graph_bytes += self.counts(spec.component) * spec.row_bytes
        ends = np.cumsum(graph_bytes)
        start, sent = 0, 0
        while start < len(self):
            fitting = int(np.searchsorted(ends, sent + max_bytes, side="right"))
            stop = max(start + 1, fitting)
            yield start, stop
            start, sent = stop, int(ends[stop - 1])


def row_offsets(
    schema: GraphSchema, sizes: npt.NDArray[np.uint32], component: str
) -> npt.NDArray[np.int64]:
    """int64 [n + 1]: where each graph's rows of a component begin, then the end."""
    if component == GRAPHS:
        return np.arange(len(sizes) + 1, dtype=np.int64)
    if component not in schema.components:
        raise KeyError(component)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes[:, list(schema.components).index(component)], out=offsets[1:])
    return offsets


def shift_of_rows(
    schema: GraphSchema, sizes: npt.NDArray[np.uint32], spec: TensorSpec
) -> npt.NDArray[np.int64]:
    """int64 [rows, 1, ...], [rows] with rows last: what joining graphs adds to an index tensor."""
    if spec.index_into is None:
        raise ValueError(f"tensor {spec.name!r} is no index tensor")
    starts = row_offsets(schema, sizes, spec.index_into)[:-1]
    counts = np.diff(row_offsets(schema, sizes, spec.component))
    shift = np.repeat(starts, counts)
    if spec.layout is Layout.ROWS_LAST:
        return shift
    return shift.reshape(-1, *(1 for _ in spec.row_shape))


def rows_of(column: Array, spec: TensorSpec, start: int, stop: int) -> Array:
    """Rows [start, stop) of a tensor's array, as a view."""
    return column[..., start:stop] if spec.layout is Layout.ROWS_LAST else column[start:stop]


def check_table(table: Any) -> None:
    """Raises TypeError if it is none."""
    if not isinstance(table, GraphTable):
        raise TypeError(
            f"tables: a {type(table).__name__} is no GraphTable; GraphTable.from_graphs(schema, "
            "graphs) makes one of graphs"
        )


def array_of(values: Any, name: str) -> Array:
    """`values` as an array. Raises ValueError naming `name` for rows of several lengths, and for a
    masked array with gaps, below which any value may stand.
    """
    if isinstance(values, np.ma.MaskedArray) and np.any(values.mask):
        raise ValueError(f"{name} has gaps, which a masked array hides: fill them")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def convert_exactly(values: npt.ArrayLike, dtype: np.dtype[Any], name: str) -> Array:
    """`values` as an array of `dtype`; the same array if it has that type already.

    Integers must keep their value; floating-point numbers may be rounded. Raises ValueError
    naming `name`.
    """
    array = array_of(values, name)
    if array.dtype == dtype:
        return array
    if array.size == 0:
        return array.astype(dtype)
    if array.dtype.kind in "iub" and dtype.kind in "iu":
        low, high = int(array.min()), int(array.max())
        bounds = np.iinfo(dtype)
        if low < bounds.min or high > bounds.max:
            raise ValueError(f"{name} has values from {low} to {high}, beyond {dtype}")
    elif not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ValueError(f"{name} has dtype {array.dtype}, needs {dtype}")
    return array.astype(dtype)


def tables_of_sizes(sizes: Sizes) -> Iterable[npt.ArrayLike]:
    """Each table; an array of two dimensions is one."""
    return (sizes,) if isinstance(sizes, np.ndarray) and sizes.ndim == 2 else sizes


def as_sizes(sizes: npt.ArrayLike, components: int) -> npt.NDArray[np.uint32]:
    """`sizes` as a contiguous table [n, components]. Raises ValueError."""
    table = convert_exactly(sizes, np.dtype("<u4"), "sizes")
    if table.size == 0 and table.ndim != 2:
        table = table.reshape(0, components)
    if table.ndim != 2 or table.shape[1] != components:
        raise ValueError(f"sizes has shape {table.shape}, needs (n, {components})")
    return np.ascontiguousarray(table)


def _row_bytes(column: Array, spec: TensorSpec) -> npt.NDArray[np.uint8]:
    column = np.moveaxis(column, spec.rows_axis, 0)
    width = math.prod(column.shape[1:]) * column.itemsize
    return np.ascontiguousarray(column).view(np.uint8).reshape(len(column), width)
