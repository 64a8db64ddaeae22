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

import contextlib
import os
import zipfile
import zlib
from typing import Any, Final, Iterator

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.files.npz_archive import ArchivedArray, NpzArchive

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
    with NpzGraphs(path) as graphs:
        parts = list(graphs.tables())
        return GraphTable.concatenate(parts) if parts else graphs.empty()


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a zip archive of numpy's arrays, whatever it is called."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


class NpzGraphs:
    """An open file of graphs, read some at a time: memory is bounded by what is asked for at once.

    Raises as `load`; damage of what is compressed is found when it is read. Not for several threads.
    """

    def __init__(self, path: str | os.PathLike[str], groups: str = "") -> None:
        """`groups` names the array with the group id of each graph, if there is one."""
        self._path = os.fspath(path)
        with self._named():
            self._archive = NpzArchive(path)
        try:
            with self._named():
                self._archive.check()
                arrays = {array.name: array for array in self._archive.arrays}
                self.group_ids = None
                if groups:
                    if groups not in arrays:
                        raise ValueError(f"has no array {groups!r} for --groups")
                    self.group_ids = _ids(arrays.pop(groups))
                layout = _Layout(arrays)
                is_heterogeneous = any(_is_offsets(name) for name in arrays)
                if is_heterogeneous:
                    layout.heterogeneous()
                else:
                    layout.homogeneous()
                self._sizes = layout.sizes()
                self._columns = layout.columns
                if self.group_ids is not None and len(self.group_ids) != len(self._sizes):
                    raise ValueError(
                        f"array {groups!r}: has {len(self.group_ids)} group ids for "
                        f"{len(self._sizes)} graphs"
                    )
                self.schema = layout.schema()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> NpzGraphs:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._archive.close()

    @property
    def num_graphs(self) -> int:
        """Graphs in the file."""
        return len(self._sizes)

    @property
    def sizes(self) -> npt.NDArray[np.uint32]:
        """[graphs, components]."""
        return self._sizes.astype(np.uint32)

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._archive.arrays)

    @property
    def checksums(self) -> list[tuple[str, int, int]]:
        """Of each array its name, bytes, and checksum: equal ones are equal graphs."""
        return [(array.name, array.nbytes, array.crc) for array in self._archive.arrays]

    def empty(self) -> GraphTable:
        """No graphs of the schema."""
        columns = {
            spec.name: np.empty(spec.array_shape(0), spec.dtype.numpy) for spec in self.schema.tensors
        }
        return GraphTable(self.schema, self._sizes[:0], columns)

    def tables(self, max_bytes: int = 8 << 20) -> Iterator[GraphTable]:
        """All graphs in order, about so many bytes at a time. Columns of a mapped file are views; the
        memory of those of one table is let go when the next one is made.
        """
        counts = {name: self._sizes[:, k] for k, name in enumerate(self.schema.components)}
        counts[GRAPHS] = np.ones(len(self._sizes), np.int64)
        bytes_per_graph = np.full(len(self._sizes), 4 * len(self.schema.components) + 8, np.int64)
        for spec, array, _ in self._columns:
            bytes_per_graph += counts[spec.component] * (array.dtype.itemsize * spec.row_elements)
        ends = np.cumsum(bytes_per_graph)
        readers = [array.row_reader(first) for _, array, first in self._columns]
        start = 0
        while start < len(self._sizes):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
            columns = {}
            with self._named():
                for (spec, _, _), reader in zip(self._columns, readers):
                    rows = int(counts[spec.component][start:stop].sum())
                    read = reader.read(rows * spec.row_elements)
                    columns[spec.name] = read.reshape(spec.array_shape(rows))
                yield GraphTable(self.schema, self._sizes[start:stop], columns, first_id=start)
            self._archive.forget()
            start = stop

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            raise ValueError(f"{self._path}: {error}") from error


def _ids(array: ArchivedArray) -> npt.NDArray[np.uint64]:
    if array.dtype.kind not in "iu" or len(array.shape) != 1:
        raise ValueError(f"array {array.name!r}: must be whole numbers, one for each graph")
    return array.whole().astype(np.uint64)


def _is_offsets(name: str) -> bool:
    return name.endswith(_OFFSETS) and name != _OFFSETS


class _Layout:
    """Finds out what the arrays of a file are."""

    def __init__(self, arrays: dict[str, ArchivedArray]) -> None:
        self._arrays = arrays
        self._counts: dict[str, npt.NDArray[Any]] = {}
        # Of each tensor its array, and which element is its first.
        self.columns: list[tuple[TensorSpec, ArchivedArray, int]] = []

    def homogeneous(self) -> None:
        """Graphs of one kind of nodes and edges."""
        for component, name in ((_NODES, "node_offsets"), (_EDGES, "edge_offsets")):
            if name not in self._arrays:
                raise ValueError(f"no array {name!r}, which graphs need")
            self._counts[component] = _counts(self._arrays.pop(name))
        for name, array in self._arrays.items():
            if name == _EDGE_INDEX:
                self._add_ends(name, _EDGES, {"senders": _NODES, "receivers": _NODES})
            else:
                self._add(name, self._component_by_rows(name, array))

    def heterogeneous(self) -> None:
        """Graphs of several kinds of nodes and edges."""
        for name in [name for name in self._arrays if _is_offsets(name)]:
            self._counts[name[: -len(_OFFSETS)]] = _counts(self._arrays.pop(name))
        for name in self._arrays:
            component = max(
                (one for one in self._counts if name.startswith(one + ".")), key=len, default=GRAPHS
            )
            if component != GRAPHS and name == f"{component}.{_EDGE_INDEX}":
                self._add_named_ends(name, component)
            else:
                self._add(name, component)

    def _num_graphs(self) -> int:
        return len(next(iter(self._counts.values())))

    def _rows(self, component: str) -> int:
        if component == GRAPHS:
            return self._num_graphs()
        return int(self._counts[component].sum())

    def _component_by_rows(self, name: str, array: ArchivedArray) -> str:
        if name in _KNOWN:
            return _KNOWN[name]
        rows = array.shape[0] if array.shape else -1
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
        if not array.shape or array.shape[0] != self._rows(component):
            raise ValueError(
                f"array {name!r} has shape {array.shape}, needs one row for each of the "
                f"{self._rows(component)} {component}"
            )
        spec = TensorSpec(name, DType.of(array.dtype), component, array.shape[1:])
        self.columns.append((spec, array, 0))

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
        rows = self._rows(component)
        if array.shape != (2, rows) or array.dtype.kind not in "iu":
            raise ValueError(
                f"array {name!r} has shape {array.shape} of {array.dtype}, needs whole numbers "
                f"(2, {rows})"
            )
        for row, (end, into) in enumerate(ends.items()):
            spec = TensorSpec(end, DType.INT32, component, index_into=into)
            self.columns.append((spec, array, row * rows))

    def sizes(self) -> npt.NDArray[np.int64]:
        """[graphs, components]."""
        lengths = {len(counts) for counts in self._counts.values()}
        if len(lengths) > 1:
            raise ValueError("the offsets differ in length")
        return np.stack(list(self._counts.values()), axis=1)

    def schema(self) -> GraphSchema:
        """Of the graphs."""
        return GraphSchema(tuple(self._counts), [spec for spec, _, _ in self.columns])


def _counts(offsets: ArchivedArray) -> npt.NDArray[np.int64]:
    """Rows of each graph. Raises ValueError naming the array."""
    read = offsets.whole()
    if read.ndim != 1 or not len(read) or read.dtype.kind not in "iu":
        raise ValueError(f"array {offsets.name!r}: must be whole numbers, one more than graphs")
    counts = np.diff(read.astype(np.int64))
    if read[0] != 0 or (counts < 0).any():
        raise ValueError(f"array {offsets.name!r}: must begin with 0 and never fall")
    return counts
