"""A user's change of single graphs, made in place in a batch."""

from __future__ import annotations

from typing import Callable, Mapping, Optional, TypeVar

import numpy as np
import numpy.typing as npt

from packhouse.data.batch import Batch
from packhouse.data.graphs import Array, row_offsets, rows_of, shift_of_rows

# Takes a graph's tensors; may change them, or return those that take their place.
GraphTransform = Callable[[dict[str, Array]], Optional[Mapping[str, npt.ArrayLike]]]

_AnyBatch = TypeVar("_AnyBatch", bound=Batch)


def transform_graphs(batch: _AnyBatch, transform: GraphTransform) -> _AnyBatch:
    """The batch with each real graph as `transform` leaves it; its arrays must be writable.

    `transform` gets a graph's tensors by name, as they were stored: index tensors number the
    graph's own rows. It may write to them, or return a mapping of tensors that replace them. These
    must have the same shape: a graph cannot grow, because its batch is packed. Derived tensors and
    padding stay as they are. Raises ValueError naming the graph and the tensor. Cost: some
    microseconds a graph and tensor.
    """
    schema, sizes = batch.schema, batch.sizes
    offsets = {name: row_offsets(schema, sizes, name) for name in schema.all_components}
    shifts = {
        spec.name: shift_of_rows(schema, sizes, spec).astype(spec.dtype.numpy)
        for spec in schema.tensors
        if spec.index_into is not None
    }
    rows = {
        spec.name: rows_of(batch[spec.name], spec, 0, int(offsets[spec.component][-1]))
        for spec in schema.tensors
    }
    for name, shift in shifts.items():
        rows[name] -= shift
    for position, graph_id in enumerate(batch.graph_ids):
        graph = {
            spec.name: rows_of(
                rows[spec.name],
                spec,
                int(offsets[spec.component][position]),
                int(offsets[spec.component][position + 1]),
            )
            for spec in schema.tensors
        }
        given = dict(graph)
        returned = transform(given)
        for name, tensor in (given if returned is None else returned).items():
            if name not in graph:
                raise ValueError(f"graph {graph_id}: tensor {name!r} is not in the schema")
            if tensor is graph[name]:
                continue
            if np.shape(tensor) != graph[name].shape:
                raise ValueError(
                    f"graph {graph_id}: {name!r} has shape {np.shape(tensor)} after the transform, "
                    f"{graph[name].shape} before: a packed graph keeps its size"
                )
            graph[name][...] = tensor
    for name, shift in shifts.items():
        rows[name] += shift
    return batch
