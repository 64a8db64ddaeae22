"""Graph sizes from CSV files, plain or gzipped.

The first line names the columns: `num_<component>` each, one row a graph; a last column `count`
makes it a histogram, one row a size tuple.
"""

from __future__ import annotations

import gzip
import os
from typing import Final, TextIO

import numpy as np

from packhouse.graphs import GraphTable
from packhouse.schema import GraphSchema

_PREFIX: Final = "num_"


def load(path: str | os.PathLike[str], seed: int = 0) -> GraphTable:
    """The sizes of a file, ids from 0, no tensors.

    A histogram has no order of graphs: its graphs come shuffled by `seed`. Raises OSError, or
    ValueError if there are other columns.
    """
    name = os.fspath(path)
    with gzip.open(path, "rt") if name.endswith(".gz") else open(path, encoding="utf-8") as file:
        return _read(file, name, seed)


def _read(file: TextIO, name: str, seed: int) -> GraphTable:
    columns = file.readline().strip().split(",")
    has_counts = columns[-1] == "count"
    components = columns[:-1] if has_counts else columns
    for column in components:
        if not column.startswith(_PREFIX):
            raise ValueError(f"{name}: column {column!r} is neither num_<component> nor count")
    table = np.loadtxt(file, np.int64, delimiter=",", ndmin=2).reshape(-1, len(columns))
    sizes = table[:, : len(components)]
    if has_counts:
        sizes = np.repeat(sizes, table[:, -1], axis=0)
        np.random.default_rng(seed).shuffle(sizes)
    return GraphTable(GraphSchema([column[len(_PREFIX) :] for column in components]), sizes)
