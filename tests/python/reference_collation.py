"""Joining and padding as the contract words it, one graph and one row at a time.

Slow and obvious on purpose: what the server and `Batch.unbatch` are held against.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from packhouse import GRAPHS, DerivedTensor, GraphTable, Padding
from packhouse.v1 import batch_pb2


def collate(
    graphs: GraphTable,
    limits: Mapping[str, int],
    padding: Padding,
    derived: Sequence[DerivedTensor] = (),
) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of the batch of these graphs: the schema's, then the derived ones."""
    schema = graphs.schema
    real = {name: graphs.rows(name) for name in schema.all_components}
    rows = real if padding is Padding.NONE else {name: limits[name] for name in real}

    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for spec in schema.tensors:
        joined = np.empty(spec.array_shape(rows[spec.component]), spec.dtype.numpy)
        # The same array, seen row by row.
        by_row = np.moveaxis(joined, spec.rows_axis, 0)
        row = 0
        for position in range(len(graphs)):
            shift = 0
            if spec.index_into is not None:
                shift = sum(int(graphs.counts(spec.index_into)[p]) for p in range(position))
            for values in np.moveaxis(graphs.graph(position)[spec.name], spec.rows_axis, 0):
                by_row[row] = values + shift if spec.index_into is not None else values
                row += 1
        if spec.index_into is None:
            by_row[row:] = spec.padding_value
        elif padding is Padding.TFGNN:
            first, last = real[spec.index_into], rows[spec.index_into] - 1
            count = len(by_row) - row
            for place, value in enumerate(spread(first, last, count)):
                by_row[row + place] = value
        elif row < len(by_row):
            by_row[row:] = min(real[spec.index_into], rows[spec.index_into] - 1)
        tensors[spec.name] = joined

    for kind in DerivedTensor:
        if kind in derived:
            for name in schema.components:
                tensors |= _derive(graphs, name, rows, kind, padding)
            if kind is DerivedTensor.MASKS:
                tensors[f"{GRAPHS}/mask"] = np.arange(rows[GRAPHS]) < len(graphs)
    return tensors


def spread(first: int, last: int, count: int) -> list[int]:
    """What padding rows of an index tensor are with Padding.TFGNN, as batch.proto words it."""
    values = []
    for place in range(count):
        value = np.float32(first)
        if count > 1:
            step = (np.float32(last + 1) - np.float32(first)) / np.float32(count - 1)
            value = np.float32(first) + step * np.float32(place)
        values.append(min(int(value), last))
    return values


def _derive(
    graphs: GraphTable,
    name: str,
    rows: Mapping[str, int],
    kind: DerivedTensor,
    padding: Padding,
) -> dict[str, np.ndarray[Any, Any]]:
    real = graphs.rows(name)
    if kind is DerivedTensor.MASKS:
        return {f"{name}/mask": np.arange(rows[name]) < real}
    # The graph each row belongs to; padding rows to the first padding graph, else to the last one.
    owners = [p for p in range(len(graphs)) for _ in range(int(graphs.counts(name)[p]))]
    owners += [min(len(graphs), rows[GRAPHS] - 1)] * (rows[name] - real)
    if kind is DerivedTensor.GRAPH_INDEX:
        return {f"{name}/graph": np.array(owners, np.int32)}
    if padding is Padding.MASKED:
        # Only a padding graph proper has spare rows; here they are in the graph index alone.
        owners = owners[:real]
    counts = np.array([owners.count(graph) for graph in range(rows[GRAPHS])], np.int32)
    if kind is DerivedTensor.ROW_COUNTS:
        return {f"{name}/counts": counts}
    offsets = [int(counts[:graph].sum()) for graph in range(rows[GRAPHS] + 1)]
    return {f"{name}/offsets": np.array(offsets, np.int32)}


def batch_message(
    graphs: GraphTable,
    limits: Mapping[str, int],
    padding: Padding,
    derived: Sequence[DerivedTensor] = (),
) -> Any:
    """The `packhouse.v1.Batch` that a server would send for these graphs."""
    components = graphs.schema.all_components
    real = [graphs.rows(name) for name in components]
    message = batch_pb2.Batch(
        graph_ids=graphs.graph_ids.tobytes(),
        sizes=graphs.sizes.tobytes(),
        real_rows=real,
        rows=real if padding is Padding.NONE else [limits[name] for name in components],
    )
    specs = {spec.name: spec.dtype.value for spec in graphs.schema.tensors}
    for name, tensor in collate(graphs, limits, padding, derived).items():
        dtype = specs.get(name, 1 if tensor.dtype == bool else 4)
        message.tensors.add(name=name, dtype=dtype, shape=tensor.shape, data=tensor.tobytes())
    return message
