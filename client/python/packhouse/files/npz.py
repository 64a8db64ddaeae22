"""Whole graphs from .npz files: molecules, the TU sets, or your own.

Graphs of one kind of nodes and edges: `node_offsets` and `edge_offsets`, int64 [graphs + 1], say
which rows of the other arrays are a graph's. `edge_index` [2, edges] has row numbers local to each
graph and becomes int32 `senders` and `receivers`. `x` and `node_tag` have a row for each node,
`edge_attr` for each edge, `y` for each graph; an array of any other name has a row for each of what
its length fits, and if that is more than one, of what its name begins with: `node_`, `edge_` or
`graph_`. Only the offsets are required.

Heterogeneous graphs: `COMPONENT.offsets` says the same of each component (`paper.offsets`,
`author.writes.paper.offsets`). `COMPONENT.edge_index` [2, rows] makes a component a set of edges
SOURCE.RELATION.TARGET, and becomes int32 `COMPONENT.source` and `COMPONENT.target`.
`COMPONENT.NAME` has a row for each row of the component, every other array one for each graph.

`packhouse ingest` reads the same files as the same graphs.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec

_NODES: Final = "nodes"
_EDGES: Final = "edges"
_EDGE_INDEX: Final = "edge_index"
_OFFSETS: Final = ".offsets"
# What numpy and zipfile raise for files that are cut or damaged, and this module for odd arrays.
_DAMAGED: Final = (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, SyntaxError)
_KNOWN: Final = {"x": _NODES, "node_tag": _NODES, "edge_attr": _EDGES, "y": GRAPHS}
_PREFIXES: Final = {"node_": _NODES, "edge_": _EDGES, "graph_": GRAPHS}


def load(path: str | os.PathLike[str]) -> GraphTable:
    """The graphs of a file, ids from 0.

    Raises OSError, or ValueError naming file and array if one is missing or of a wrong length.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("is one array: save all arrays of the graphs in one .npz")
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
        layout = _Layout(arrays)
        is_heterogeneous = any(_is_offsets(name) for name in arrays)
        return layout.heterogeneous() if is_heterogeneous else layout.homogeneous()
    except _DAMAGED as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _is_offsets(name: str) -> bool:
    return name.endswith(_OFFSETS) and name != _OFFSETS


class _Layout:
    """Finds out what the arrays of a file are."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays
        self._counts: dict[str, npt.NDArray[Any]] = {}
        self._specs: list[TensorSpec] = []
        self._columns: dict[str, Array] = {}

    def homogeneous(self) -> GraphTable:
        for component, name in ((_NODES, "node_offsets"), (_EDGES, "edge_offsets")):
            if name not in self._arrays:
                raise ValueError(f"no array {name!r}")
            self._counts[component] = np.diff(self._arrays.pop(name))
        for name, array in self._arrays.items():
            if name == _EDGE_INDEX:
                self._add_ends(name, _EDGES, {"senders": _NODES, "receivers": _NODES})
            else:
                self._add(name, self._component_by_rows(name, array))
        return self._table()

    def heterogeneous(self) -> GraphTable:
        for name in [name for name in self._arrays if _is_offsets(name)]:
            self._counts[name[: -len(_OFFSETS)]] = np.diff(self._arrays.pop(name))
        for name in self._arrays:
            component = max(
                (one for one in self._counts if name.startswith(one + ".")), key=len, default=GRAPHS
            )
            if component != GRAPHS and name == f"{component}.{_EDGE_INDEX}":
                self._add_named_ends(name, component)
            else:
                self._add(name, component)
        return self._table()

    def _num_graphs(self) -> int:
        return len(next(iter(self._counts.values())))

    def _rows(self, component: str) -> int:
        if component == GRAPHS:
            return self._num_graphs()
        return int(self._counts[component].sum())

    def _component_by_rows(self, name: str, array: Array) -> str:
        if name in _KNOWN:
            return _KNOWN[name]
        rows = len(array) if array.ndim else -1
        fitting = [one for one in (_NODES, _EDGES, GRAPHS) if rows == self._rows(one)]
        named = [one for prefix, one in _PREFIXES.items() if name.startswith(prefix)]
        both = [one for one in named if one in fitting] or fitting
        if len(both) == 1:
            return both[0]
        counts = ", ".join(f"{self._rows(one)} {one}" for one in (_NODES, _EDGES, GRAPHS))
        advice = ": say which by a name that begins with node_, edge_ or graph_" if both else ""
        raise ValueError(f"array {name!r} has shape {array.shape}; there are {counts}{advice}")

    def _add(self, name: str, component: str) -> None:
        array = self._arrays[name]
        if array.ndim == 0 or len(array) != self._rows(component):
            raise ValueError(
                f"array {name!r} has shape {array.shape}, needs one row for each of the "
                f"{self._rows(component)} {component}"
            )
        self._specs.append(TensorSpec(name, DType.of(array.dtype), component, array.shape[1:]))
        self._columns[name] = array

    def _add_named_ends(self, name: str, component: str) -> None:
        sources = [one for one in self._counts if component.startswith(one + ".")]
        targets = [one for one in self._counts if component.endswith("." + one)]
        source, target = max(sources, key=len, default=""), max(targets, key=len, default="")
        # Two dots, and a relation between them.
        if not source or not target or len(source) + len(target) + 2 >= len(component):
            raise ValueError(
                f"array {name!r}: {component!r} must be SOURCE.RELATION.TARGET, where SOURCE and "
                "TARGET have offsets"
            )
        self._add_ends(
            name, component, {f"{component}.source": source, f"{component}.target": target}
        )

    def _add_ends(self, name: str, component: str, ends: dict[str, str]) -> None:
        array = self._arrays[name]
        if array.shape != (2, self._rows(component)):
            raise ValueError(
                f"array {name!r} has shape {array.shape}, needs (2, {self._rows(component)})"
            )
        for row, (end, into) in enumerate(ends.items()):
            self._specs.append(TensorSpec(end, DType.INT32, component, index_into=into))
            self._columns[end] = array[row]

    def _table(self) -> GraphTable:
        lengths = {len(counts) for counts in self._counts.values()}
        if len(lengths) > 1:
            raise ValueError("the offsets differ in length")
        sizes = np.stack(list(self._counts.values()), axis=1)
        return GraphTable(GraphSchema(tuple(self._counts), self._specs), sizes, self._columns)
