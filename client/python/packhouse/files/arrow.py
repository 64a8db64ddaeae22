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

All graphs of a file together decide what a column is: a file is read twice where names do not tell
it. What can be read in two ways is refused: edges of which each graph has two, as pairs or as two
lists; a list that is as long as the nodes, the edges, or the same in all graphs. `num_COMPONENT`
beside `edge_index`, `senders` or `receivers` is a graph's own value, but for nodes and edges.

These are the columns that graph data sets have on public hubs. `.parquet` files are read by parts;
`.arrow`, `.feather` and `.ipc` are Arrow's file or stream format.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Collection, Final, Iterator

import numpy as np

from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GraphSchema
from packhouse.files.list_columns import Columns, Names, Observed, Reading

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
    try:
        names, reading = _decided(name, exclude_columns, graphs_per_table)
    except ValueError as error:
        raise _of_file(name, error) from error
    for batch in _batches(name, graphs_per_table):
        try:
            columns = _columns(batch, [one for one in batch.schema.names if one in names], schema)
            table = columns.table(names, reading, first_id)
            if schema is not None and table.schema != schema:
                raise ValueError(_difference(schema, table.schema, first_id))
        except ValueError as error:
            raise _of_file(name, error) from error
        schema = table.schema
        first_id += len(table)
        yield table


def _of_file(name: str, error: ValueError) -> ValueError:
    text = str(error)
    return error if text.startswith(f"{name}: ") else ValueError(f"{name}: {text}")


def _decided(name: str, exclude_columns: Collection[str], most: int) -> tuple[Names, Reading]:
    """What the columns are: by their names, or by reading those that need it once more."""
    names = Names(
        {one: depth for one, depth in _depths(name).items() if one not in exclude_columns}
    )
    needed = names.needed()
    observed = Observed(names)
    if needed:
        for batch in _batches(name, most, needed):
            observed.add(_columns(batch, needed, None))
    reading = observed.reading()
    return names, dataclasses.replace(reading, extents=_extents(name, names.nested(), most))


def _extents(name: str, nested: list[str], most: int) -> dict[str, tuple[int | None, ...]]:
    """Of columns of nested lists, their lengths in the first graphs that have any."""
    found: dict[str, tuple[int | None, ...]] = {}
    for batch in _batches(name, most, nested) if nested else ():
        columns = _columns(batch, nested, None)
        found.update((one, columns.extents(one)) for one in nested)
        nested = [one for one in nested if None in found[one]]
        if not nested:
            break
    return found


def load(path: str | os.PathLike[str], *, exclude_columns: Collection[str] = ()) -> GraphTable:
    """All graphs of a file, ids from 0; see `tables`. Raises ValueError if there is none."""
    parts = list(tables(path, exclude_columns=exclude_columns))
    if not parts:
        raise ValueError(f"{os.fspath(path)}: there is no graph")
    return GraphTable.concatenate(parts)


def _batches(name: str, most: int, columns: list[str] | None = None) -> Iterator[Any]:
    """Record batches, of at most so many rows each, of some columns or of all."""
    with _naming(name):
        yield from _opened(name, most, columns)


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Errors of pyarrow, and that it is missing, with the file's name."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{name}: pyarrow is needed to read it (pip install pyarrow)") from error
    try:
        yield
    except pyarrow.ArrowException as error:
        raise ValueError(f"{name}: {error}") from error


def _depths(name: str) -> dict[str, int]:
    """Of each column, how deep its lists are."""
    with _naming(name):
        import pyarrow

        if name.endswith(".parquet"):
            import pyarrow.parquet

            schema = pyarrow.parquet.read_schema(name)
        else:
            with pyarrow.memory_map(name) as source, _reader(source) as reader:
                schema = reader.schema
        return {field.name: _depth(field.type) for field in schema}


def _depth(kind: Any) -> int:
    import pyarrow.types

    is_list = (
        pyarrow.types.is_list(kind)
        or pyarrow.types.is_large_list(kind)
        or pyarrow.types.is_fixed_size_list(kind)
    )
    return 1 + _depth(kind.value_type) if is_list else 0


def _reader(source: Any) -> Any:
    """Of Arrow's file format, or of its stream format."""
    import pyarrow.ipc

    is_file = source.read(6) == b"ARROW1"
    source.seek(0)
    return pyarrow.ipc.open_file(source) if is_file else pyarrow.ipc.open_stream(source)


def _opened(name: str, most: int, columns: list[str] | None) -> Iterator[Any]:
    import pyarrow

    if name.endswith(".parquet"):
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(name) as file:
            yield from file.iter_batches(batch_size=most, columns=columns)
        return
    with pyarrow.memory_map(name) as source, _reader(source) as reader:
        if hasattr(reader, "num_record_batches"):
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        else:
            batches = iter(reader)
        for batch in batches:
            for start in range(0, batch.num_rows, most):
                yield batch.slice(start, most)


def _columns(batch: Any, names: list[str], like: GraphSchema | None) -> Columns:
    columns = Columns(batch.num_rows, like)
    for name in names:
        try:
            columns.add(name, *_flat(batch.column(name)))
        except ValueError as error:
            raise ValueError(f"column {name!r} {error}") from None
    return columns


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
