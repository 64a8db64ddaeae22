"""Graphs from Parquet and Arrow files, one row a graph. Needs pyarrow.

A column has the graph's value, or a list of its rows' values; a row's value may be a list again, of
the same length in all rows. What belongs to what follows from names and lengths:

- `num_nodes`, `num_edges`: counts, no tensor. Without them columns of nodes and edges say how many.
- `edge_index`: two lists, or as many pairs as there are edges. It becomes int32 `senders` and
  `receivers`, as two columns of these names do.
- `x`, `node_feat`, `node_*`: a list with one entry a node; `edge_attr`, `edge_*`: an edge; `y`,
  `graph_*`: the graph's own. Any other list has one entry for each of what its lengths fit.
- Heterogeneous graphs: `num_COMPONENT` for each component, also where there is only one.
  `COMPONENT.edge_index` makes it a set of edges SOURCE.RELATION.TARGET and becomes int32
  `COMPONENT.source` and `COMPONENT.target`; `COMPONENT.NAME` has a list entry for each row.

These are the columns that graph data sets have on public hubs. `.parquet` files are read by parts;
`.arrow`, `.feather` and `.ipc` are Arrow's file or stream format.
"""

from __future__ import annotations

import os
from typing import Any, Collection, Final, Iterator

import numpy as np

from packhouse.datasets.list_columns import Columns
from packhouse.graphs import GraphTable
from packhouse.schema import GraphSchema

DEFAULT_GRAPHS_PER_TABLE: Final = 1 << 14

ENDINGS: Final = (".parquet", ".arrow", ".feather", ".ipc")


def tables(
    path: str | os.PathLike[str],
    *,
    exclude_columns: Collection[str] = (),
    graphs_per_table: int = DEFAULT_GRAPHS_PER_TABLE,
) -> Iterator[GraphTable]:
    """The graphs of a file, ids from 0, in parts, of which one is held at a time.

    The first part decides the schema. Raises OSError, ImportError without pyarrow, and ValueError
    naming file and column for what cannot be sent (text, null, structs), differs in length, or fits
    nothing.
    """
    name = os.fspath(path)
    schema: GraphSchema | None = None
    first_id = 0
    for batch in _batches(name, graphs_per_table):
        try:
            table = _table(batch, exclude_columns, first_id, schema)
            if schema is not None and table.schema != schema:
                raise ValueError(_difference(schema, table.schema, first_id))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        schema = table.schema
        first_id += len(table)
        yield table


def load(path: str | os.PathLike[str], *, exclude_columns: Collection[str] = ()) -> GraphTable:
    """All graphs of a file, ids from 0; see `tables`. Raises ValueError if there is none."""
    parts = list(tables(path, exclude_columns=exclude_columns))
    if not parts:
        raise ValueError(f"{os.fspath(path)}: there is no graph")
    return GraphTable.concatenate(parts)


def _batches(name: str, most: int) -> Iterator[Any]:
    """Record batches, of at most so many rows each."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{name}: pyarrow is needed to read it (pip install pyarrow)") from error
    try:
        yield from _opened(name, most)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{name}: {error}") from error


def _opened(name: str, most: int) -> Iterator[Any]:
    import pyarrow

    if name.endswith(".parquet"):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(name) as file:
            yield from file.iter_batches(batch_size=most)
        return
    with pyarrow.memory_map(name) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if is_file:
            with pyarrow.ipc.open_file(source) as reader:
                for number in range(reader.num_record_batches):
                    yield from _cut(reader.get_batch(number), most)
        else:
            with pyarrow.ipc.open_stream(source) as reader:
                for batch in reader:
                    yield from _cut(batch, most)


def _cut(batch: Any, most: int) -> Iterator[Any]:
    for start in range(0, batch.num_rows, most):
        yield batch.slice(start, most)


def _table(
    batch: Any, exclude_columns: Collection[str], first_id: int, like: GraphSchema | None
) -> GraphTable:
    columns = Columns(batch.num_rows, like)
    for name, column in zip(batch.schema.names, batch.columns):
        if name in exclude_columns:
            continue
        try:
            columns.add(name, *_flat(column))
        except ValueError as error:
            raise ValueError(f"column {name!r} {error}") from None
    return columns.table(first_id)


def _flat(column: Any) -> tuple[list[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """The lengths of the lists at each depth, outermost first, and the numbers in them."""
    import pyarrow

    lengths = []
    while True:
        kind = column.type
        if column.null_count:
            raise ValueError("has a null: fill it, or leave the column out")
        if pyarrow.types.is_fixed_size_list(kind):
            lengths.append(np.full(len(column), kind.list_size, np.int64))
        elif pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            lengths.append(np.diff(np.asarray(column.offsets, np.int64)))
        else:
            break
        column = column.flatten()
    if not (pyarrow.types.is_primitive(kind) and not pyarrow.types.is_temporal(kind)):
        raise ValueError(f"has type {kind}, which cannot be sent: leave it out")
    return lengths, column.to_numpy(zero_copy_only=False)


def _difference(schema: GraphSchema, other: GraphSchema, first_id: int) -> str:
    here = {spec.name: spec for spec in other.tensors}
    for spec in schema.tensors:
        if here.get(spec.name) != spec:
            return (
                f"column {spec.name!r}: the first graphs have it as {spec}, those from graph "
                f"{first_id} on as {here.get(spec.name)}"
            )
    return f"the graphs from {first_id} on have other columns than the first: {list(here)}"
