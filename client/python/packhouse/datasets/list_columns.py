"""Columns of lists, one row a graph, as a table of graphs. See `packhouse.datasets.arrow`."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from packhouse.graphs import Array, GraphTable
from packhouse.schema import GRAPHS, DType, GraphSchema, TensorSpec

_NODES: Final = "nodes"
_EDGES: Final = "edges"
_EDGE_INDEX: Final = "edge_index"
_ENDS: Final = ("senders", "receivers")
_COUNT: Final = "num_"
_KNOWN: Final = {"x": _NODES, "y": GRAPHS, **{name: _EDGES for name in _ENDS}}
_PREFIXES: Final = {"node_": _NODES, "edge_": _EDGES, "graph_": GRAPHS}

Counts = npt.NDArray[np.int64]


@dataclasses.dataclass
class _Column:
    """Numbers in lists: `lengths[0]` has one entry a graph, `lengths[1]` one an entry of these."""

    name: str
    lengths: list[Counts]
    numbers: Array

    def rows(self, depth: int, known_shape: tuple[int, ...] | None) -> Array:
        """The entries of the lists at that depth, their inner lists as extents of a shape.

        Without entries it is `known_shape`. Raises ValueError if they differ in length, and if
        there is nothing to tell the shape from.
        """
        shape = []
        for number, inner in enumerate(self.lengths[depth:]):
            if len(inner):
                extent = int(inner[0])
            elif known_shape is not None and number < len(known_shape):
                extent = known_shape[number]
            else:
                raise ValueError(
                    f"column {self.name!r} has no entry in the first graphs, so that the length of "
                    "its entries is not known: leave it out"
                )
            if (inner != extent).any():
                raise ValueError(
                    f"column {self.name!r} has lists of {inner.min()} to {inner.max()} entries "
                    "where all must be of one length"
                )
            shape.append(extent)
        num_rows = len(self.lengths[depth]) if len(self.lengths) > depth else len(self.numbers)
        return self.numbers.reshape(num_rows, *shape)


class Columns:
    """Takes the columns of some graphs, and finds out what they are."""

    def __init__(self, num_graphs: int, like: GraphSchema | None = None) -> None:
        """`like` is the schema of earlier graphs: it tells of columns that have no entry here."""
        self._num_graphs = num_graphs
        self._like = {spec.name: spec for spec in like.tensors} if like is not None else {}
        self._columns: dict[str, _Column] = {}
        self._counts: dict[str, Counts] = {}
        self._specs: list[TensorSpec] = []
        self._tensors: dict[str, Array] = {}

    def add(self, name: str, lengths: list[Any], numbers: Array) -> None:
        """A column: the lengths of its lists at each depth, outermost first, and their numbers."""
        self._columns[name] = _Column(name, lengths, numbers)

    def table(self, first_id: int) -> GraphTable:
        """The graphs. Raises ValueError naming a column."""
        components = [
            name[len(_COUNT) :]
            for name, column in self._columns.items()
            if name.startswith(_COUNT) and name != _COUNT and not column.lengths
        ]
        is_plain = set(components) <= {_NODES, _EDGES}
        for component in components:
            self._counts[component] = self._count(_COUNT + component)
        if is_plain:
            self._count_plain()
        for name, column in self._columns.items():
            if name.startswith(_COUNT) and name[len(_COUNT) :] in self._counts:
                continue
            component = self._component(column)
            if name == _EDGE_INDEX and is_plain:
                self._add_ends(column, _EDGES, dict.fromkeys(_ENDS, _NODES))
            elif component != GRAPHS and name == f"{component}.{_EDGE_INDEX}":
                self._add_ends(column, component, self._named_ends(component))
            else:
                self._add(column, component, _NODES if is_plain and name in _ENDS else None)
        sizes = np.stack(list(self._counts.values()), axis=1)
        schema = GraphSchema(tuple(self._counts), self._specs)
        return GraphTable(schema, sizes, self._tensors, first_id=first_id)

    def _count(self, name: str) -> Counts:
        counts = self._columns[name].numbers
        if counts.dtype.kind not in "iu" or (len(counts) and counts.min() < 0):
            raise ValueError(f"column {name!r} is no count: it has {counts.dtype}")
        return counts.astype(np.int64)

    def _count_plain(self) -> None:
        """Nodes and edges, in this order, by what tells of them."""
        given = self._counts
        self._counts = {
            component: given[component] if component in given else self._told(component)
            for component in (_NODES, _EDGES)
        }

    def _told(self, component: str) -> Counts:
        for name, column in self._columns.items():
            if not column.lengths:
                continue
            if name == _EDGE_INDEX and component == _EDGES:
                return _num_edges(column)
            if self._named(name) == component and name != _EDGE_INDEX:
                return column.lengths[0]
        if component == _EDGES:
            return np.zeros(self._num_graphs, np.int64)
        raise ValueError("no column says how many nodes a graph has: add num_nodes")

    def _named(self, name: str) -> str | None:
        if name in _KNOWN:
            return _KNOWN[name]
        return next((one for prefix, one in _PREFIXES.items() if name.startswith(prefix)), None)

    def _component(self, column: _Column) -> str:
        """Whose rows its outermost lists have."""
        owners = [one for one in self._counts if column.name.startswith(one + ".")]
        if owners:
            return max(owners, key=len)
        if column.name in self._like:
            return self._like[column.name].component
        if not column.lengths:
            return GRAPHS
        fitting = [
            one for one, counts in self._counts.items() if np.array_equal(counts, column.lengths[0])
        ]
        named = self._named(column.name)
        if named == GRAPHS or named in self._counts:
            return str(named)
        if len(fitting) > 1:
            raise ValueError(
                f"column {column.name!r} has as many entries as {' and as '.join(fitting)}: say "
                "which by a name that begins with node_, edge_ or graph_"
            )
        return fitting[0] if fitting else GRAPHS

    def _named_ends(self, component: str) -> dict[str, str]:
        sources = [one for one in self._counts if component.startswith(one + ".")]
        targets = [one for one in self._counts if component.endswith("." + one)]
        source, target = max(sources, key=len, default=""), max(targets, key=len, default="")
        # Two dots, and a relation between them.
        if not source or not target or len(source) + len(target) + 2 >= len(component):
            raise ValueError(
                f"column '{component}.{_EDGE_INDEX}': {component!r} must be "
                f"SOURCE.RELATION.TARGET, where {_COUNT}SOURCE and {_COUNT}TARGET are columns"
            )
        return {f"{component}.source": source, f"{component}.target": target}

    def _add(self, column: _Column, component: str, index_into: str | None) -> None:
        known = self._like.get(column.name)
        shape = None if known is None else known.row_shape
        if component == GRAPHS:
            rows = column.rows(0, shape)
        else:
            self._check_lengths(column, column.lengths[0] if column.lengths else None, component)
            rows = column.rows(1, shape)
        dtype = DType.INT32 if index_into is not None else DType.of(rows.dtype)
        self._specs.append(TensorSpec(column.name, dtype, component, rows.shape[1:], index_into))
        self._tensors[column.name] = rows

    def _add_ends(self, column: _Column, component: str, ends: dict[str, str]) -> None:
        if len(column.lengths) != 2:
            raise ValueError(f"column {column.name!r} is no list of two lists")
        self._check_lengths(column, _num_edges(column), component)
        outer = column.lengths[0]
        if _is_two_lists(column):
            # Of graph after graph the sources, then the targets.
            is_source = np.repeat(np.tile([True, False], len(outer)), column.lengths[1])
            rows = (column.numbers[is_source], column.numbers[~is_source])
        else:
            pairs = column.numbers.reshape(-1, 2)
            rows = (pairs[:, 0], pairs[:, 1])
        for row, (end, into) in zip(rows, ends.items()):
            self._specs.append(TensorSpec(end, DType.INT32, component, index_into=into))
            self._tensors[end] = row

    def _check_lengths(self, column: _Column, lengths: Counts | None, component: str) -> None:
        counts = self._counts[component]
        if lengths is None:
            raise ValueError(f"column {column.name!r} has no lists, one entry a row of {component}")
        if not np.array_equal(lengths, counts):
            graph = int(np.argmax(lengths != counts))
            raise ValueError(
                f"column {column.name!r} has {lengths[graph]} entries in row {graph}, which has "
                f"{counts[graph]} {component}"
            )


def _is_two_lists(column: _Column) -> bool:
    """Whether `edge_index` is [2, edges] in each graph, and not [edges, 2].

    It can be read as both only if every graph has two edges; PyG's way is meant then.
    """
    outer, inner = column.lengths
    return bool((outer == 2).all() and (inner[::2] == inner[1::2]).all())


def _num_edges(column: _Column) -> Counts:
    if len(column.lengths) != 2:
        raise ValueError(f"column {column.name!r} is no list of two lists")
    outer, inner = column.lengths
    if _is_two_lists(column):
        return inner[::2]
    if len(inner) and (inner != 2).any():
        raise ValueError(
            f"column {column.name!r} has neither two lists of equal length nor pairs in each graph"
        )
    return outer
