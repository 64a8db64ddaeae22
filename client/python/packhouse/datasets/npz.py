"""Whole graphs from .npz files: molecules and the TU sets.

Layout: `node_offsets` and `edge_offsets`, int64 [graphs + 1]; `edge_index` [2, edges] with row
numbers local to each graph; `x` [nodes, ...] or `node_tag` [nodes]; `edge_attr` [edges, ...];
`y` [graphs]. Only the offsets are required.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from packhouse.graphs import Array, GraphTable
from packhouse.schema import GRAPHS, DType, GraphSchema, TensorSpec

_COMPONENTS: Final = {
    "x": "nodes",
    "node_tag": "nodes",
    "edge_attr": "edges",
    "y": GRAPHS,
}


def load(path: str | os.PathLike[str]) -> GraphTable:
    """The graphs of a file, ids from 0; `edge_index` becomes int32 `senders` and `receivers`.

    Raises OSError, or ValueError naming an array that is missing, unknown or of a wrong length.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    counts = []
    for name in ("node_offsets", "edge_offsets"):
        if name not in arrays:
            raise ValueError(f"{os.fspath(path)}: no array {name!r}")
        counts.append(np.diff(arrays.pop(name)))
    if len(counts[0]) != len(counts[1]):
        raise ValueError(f"{os.fspath(path)}: node_offsets and edge_offsets differ in length")

    specs: list[TensorSpec] = []
    columns: dict[str, Array] = {}
    for name, array in arrays.items():
        if name == "edge_index":
            if len(array) != 2:
                raise ValueError(f"{os.fspath(path)}: edge_index has shape {array.shape}")
            for end, column in zip(("senders", "receivers"), array):
                specs.append(TensorSpec(end, DType.INT32, "edges", index_into="nodes"))
                columns[end] = column
        elif name in _COMPONENTS:
            specs.append(
                TensorSpec(name, DType.of(array.dtype), _COMPONENTS[name], array.shape[1:])
            )
            columns[name] = array
        else:
            raise ValueError(f"{os.fspath(path)}: unknown array {name!r}")
    return GraphTable(GraphSchema(("nodes", "edges"), specs), np.stack(counts, axis=1), columns)
