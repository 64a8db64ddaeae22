"""Columns of lists, one row a graph, as a table of graphs. See `packhouse.files.arrow`.

What a column is, all graphs of a file decide together (`Observed`), before any is sent: parts of a
file that were looked at alone could be read in other ways than the whole.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Mapping

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec

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

    def rows(self, depth: int, known_shape: tuple[int | None, ...] | None) -> Array:
        """The entries of the lists at that depth, their inner lists as extents of a shape.

        Without entries it is `known_shape`. Raises ValueError if they differ in length, and if
        there is nothing to tell the shape from.
        """
        shape = []
        for number, inner in enumerate(self.lengths[depth:]):
            known = known_shape[number] if known_shape and number < len(known_shape) else None
            extent = int(inner[0]) if len(inner) else known
            if extent is None:
                raise ValueError(
                    f"column {self.name!r} has no entry in any graph, so that the length of its "
                    "entries is not known: leave it out"
                )
            if (inner != extent).any():
                raise ValueError(
                    f"column {self.name!r} has lists of {inner.min()} to {inner.max()} entries "
                    "where all must be of one length"
                )
            shape.append(extent)
        num_rows = len(self.lengths[depth]) if len(self.lengths) > depth else len(self.numbers)
        return self.numbers.reshape(num_rows, *shape)


@dataclasses.dataclass(frozen=True)
class Reading:
    """What the columns of a file are, by names alone or by all of its graphs.

    `two_lists`: columns of edges that have a list of sources and one of targets in each graph; the
    others have pairs. `owners`: the component of each column that no name tells of, or GRAPHS.
    `extents`: how long the lists of a column are at each depth, where the first graphs have none.
    """

    is_plain: bool
    two_lists: frozenset[str] = frozenset()
    owners: Mapping[str, str] = dataclasses.field(default_factory=dict)
    extents: Mapping[str, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)


class Names:
    """What the names of a file's columns say, and which of them say too little."""

    def __init__(self, depths: Mapping[str, int]) -> None:
        """`depths`: how deep the lists of each column are; 0 for numbers."""
        counted = [
            name[len(_COUNT) :]
            for name, depth in depths.items()
            if name.startswith(_COUNT) and name != _COUNT and not depth
        ]
        # What only graphs of one kind of nodes and edges have. Other counts are then the graph's own.
        has_edges = any(name in depths for name in (_EDGE_INDEX, *_ENDS))
        self.is_plain = has_edges or set(counted) <= {_NODES, _EDGES}
        self.components = [
            one for one in counted if not self.is_plain or one in (_NODES, _EDGES)
        ]
        self._depths = depths

    def __contains__(self, name: str) -> bool:
        return name in self._depths

    def is_count(self, name: str) -> bool:
        return name.startswith(_COUNT) and name[len(_COUNT) :] in self.components

    def counted(self) -> tuple[str, ...]:
        """The components that there are."""
        return (_NODES, _EDGES) if self.is_plain else tuple(self.components)

    def is_edge_index(self, name: str) -> bool:
        if self.is_plain:
            return name == _EDGE_INDEX
        return any(name == f"{one}.{_EDGE_INDEX}" for one in self.components)

    def owner(self, name: str) -> str | None:
        """The component that a column's name says, or GRAPHS; None if it says nothing."""
        owners = [one for one in self.components if name.startswith(one + ".")]
        if owners:
            return max(owners, key=len)
        if not self._depths[name]:
            return GRAPHS
        named = _named(name)
        if named == GRAPHS or named in self.components or (self.is_plain and named is not None):
            return named
        return None

    def unclear(self) -> list[str]:
        """The columns that only all graphs together tell of."""
        return [
            name
            for name in self._depths
            if self.is_edge_index(name) or (not self.is_count(name) and self.owner(name) is None)
        ]

    def nested(self) -> list[str]:
        """The columns whose rows are lists, of which the first graphs may have none."""
        return [
            name
            for name, depth in self._depths.items()
            if depth > 1 and not self.is_edge_index(name)
        ]

    def needed(self) -> list[str]:
        """Those, and what they are compared with. Empty if names tell everything."""
        unclear = self.unclear()
        return [name for name in self._depths if unclear and self._tells(name, unclear)]

    def _tells(self, name: str, unclear: list[str]) -> bool:
        is_row_of = self.is_plain and self._depths[name] and _named(name) in (_NODES, _EDGES)
        return name in unclear or self.is_count(name) or bool(is_row_of)


class Observed:
    """Looks at all graphs of a file, some at a time, and says what its columns are."""

    def __init__(self, names: Names) -> None:
        self._names = names
        # Of columns of edges, the readings that no graph contradicts so far.
        self._pairs: dict[str, bool] = {}
        self._two_lists: dict[str, bool] = {}
        self._has_edges: set[str] = set()
        # Of columns that no name tells of: the components whose counts its lengths are in all graphs,
        # where edges are counted in two ways; and the one length that it has, None for several.
        self._fitting: dict[str, set[tuple[str, bool | None]]] = {}
        self._length: dict[str, int | None] = {}

    def add(self, columns: Columns) -> None:
        """Some graphs, by `Names.needed()` of their columns."""
        counts = columns.told_counts(self._names)
        for name in self._names.unclear():
            column = columns.column(name)
            if self._names.is_edge_index(name):
                self._add_edges(column, counts)
            else:
                self._add_lengths(column, counts)

    def _add_edges(
        self, column: _Column, counts: Mapping[tuple[str, bool | None], Counts]
    ) -> None:
        name = column.name
        if len(column.lengths) != 2:
            raise ValueError(f"column {name!r} is no list of two lists")
        component = name[: -len(_EDGE_INDEX) - 1] or _EDGES
        told = counts.get((component, None))
        pairs, lists = _pairs_fit(column), _lists_fit(column)
        if told is not None:
            pairs &= column.lengths[0] == told
            lists &= _listed_edges(column) == told
        both = bool(pairs.all()), bool(lists.all())
        self._pairs[name] = self._pairs.get(name, True) and both[0]
        self._two_lists[name] = self._two_lists.get(name, True) and both[1]
        if len(column.lengths[1]):
            self._has_edges.add(name)
        if not self._pairs[name] and not self._two_lists[name]:
            graph = int(np.argmin(lists if self._two_lists.get(name) else pairs | lists))
            raise ValueError(
                f"column {name!r} has neither two lists of equal length nor pairs in each graph"
                f"{_of_counted(column, told, graph)}"
            )

    def _add_lengths(
        self, column: _Column, counts: Mapping[tuple[str, bool | None], Counts]
    ) -> None:
        lengths = column.lengths[0]
        fitting = {key for key, count in counts.items() if np.array_equal(count, lengths)}
        known = self._fitting.get(column.name)
        self._fitting[column.name] = fitting if known is None else known & fitting
        if not len(lengths):
            return
        own = int(lengths[0]) if (lengths == lengths[0]).all() else None
        if self._length.setdefault(column.name, own) != own:
            self._length[column.name] = None

    def reading(self) -> Reading:
        """Raises ValueError for a column that can be read in two ways, and says how to tell."""
        two_lists = {name for name in self._two_lists if self._is_two_lists(name)}
        owners = {name: self._owner(name, two_lists) for name in self._fitting}
        return Reading(self._names.is_plain, frozenset(two_lists), owners)

    def _is_two_lists(self, name: str) -> bool:
        if self._pairs[name] and self._two_lists[name] and name in self._has_edges:
            raise ValueError(
                f"column {name!r} has two lists of two entries in each graph that has edges: these "
                "can be two edges as pairs, or as sources and targets. Write senders and receivers "
                "as two columns"
            )
        return self._two_lists[name] and not self._pairs[name]

    def _owner(self, name: str, two_lists: set[str]) -> str:
        keys = {(_EDGES, _EDGE_INDEX in two_lists)} | {(one, None) for one in self._names.counted()}
        fits = {component for component, _ in self._fitting[name] & keys}
        fitting = [component for component in self._names.counted() if component in fits]
        if self._length.get(name) is not None:
            fitting.append(f"{self._length[name]} in each graph")
        if len(fitting) > 1:
            raise ValueError(
                f"column {name!r} has as many entries as {' and as '.join(fitting)}: say "
                "which by a name that begins with node_, edge_ or graph_"
            )
        return fitting[0] if fitting and fitting[0] in self._names.counted() else GRAPHS


def _named(name: str) -> str | None:
    if name in _KNOWN:
        return _KNOWN[name]
    return next((one for prefix, one in _PREFIXES.items() if name.startswith(prefix)), None)


class Columns:
    """Takes the columns of some graphs, and makes them a table as they are read."""

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

    def column(self, name: str) -> _Column:
        return self._columns[name]

    def extents(self, name: str) -> tuple[int | None, ...]:
        """How long the first list of a column is at each depth; None where there is none."""
        lengths = self._columns[name].lengths
        return tuple(int(inner[0]) if len(inner) else None for inner in lengths)

    def told_counts(self, names: Names) -> dict[tuple[str, bool | None], Counts]:
        """The counts of components that columns tell of.

        By the component, and None; where only `edge_index` tells of edges, by whether it has two
        lists. Raises ValueError for a count that is none.
        """
        told: dict[tuple[str, bool | None], Counts] = {
            (component, None): self._count(_COUNT + component) for component in names.components
        }
        if not names.is_plain:
            return told
        for name, column in self._columns.items():
            component = _named(name)
            if component in (_NODES, _EDGES) and name != _EDGE_INDEX and column.lengths:
                told.setdefault((str(component), None), column.lengths[0])
        if (_EDGES, None) not in told and _EDGE_INDEX in self._columns:
            column = self._columns[_EDGE_INDEX]
            if len(column.lengths) == 2:
                told[_EDGES, False] = column.lengths[0]
                told[_EDGES, True] = _listed_edges(column)
        return told

    def table(self, names: Names, reading: Reading, first_id: int) -> GraphTable:
        """The graphs. Raises ValueError naming a column."""
        for component in names.components:
            self._counts[component] = self._count(_COUNT + component)
        if reading.is_plain:
            self._count_plain(reading)
        for name, column in self._columns.items():
            if names.is_count(name):
                continue
            if names.is_edge_index(name):
                component = _EDGES if reading.is_plain else name[: -len(_EDGE_INDEX) - 1]
                ends = dict.fromkeys(_ENDS, _NODES) if reading.is_plain else (
                    self._named_ends(component)
                )
                self._add_ends(column, component, ends, name in reading.two_lists)
                continue
            owner = names.owner(name) or reading.owners[name]
            index_into = _NODES if reading.is_plain and name in _ENDS else None
            self._add(column, owner, index_into, reading.extents)
        sizes = np.stack(list(self._counts.values()), axis=1)
        schema = GraphSchema(tuple(self._counts), self._specs)
        return GraphTable(schema, sizes, self._tensors, first_id=first_id)

    def _count(self, name: str) -> Counts:
        counts = self._columns[name].numbers
        if counts.dtype.kind not in "iu" or (len(counts) and counts.min() < 0):
            raise ValueError(f"column {name!r} is no count: it has {counts.dtype}")
        return counts.astype(np.int64)

    def _count_plain(self, reading: Reading) -> None:
        """Nodes and edges, in this order, by what tells of them."""
        given = self._counts
        self._counts = {
            component: given[component] if component in given else self._told(component, reading)
            for component in (_NODES, _EDGES)
        }

    def _told(self, component: str, reading: Reading) -> Counts:
        for name, column in self._columns.items():
            if not column.lengths:
                continue
            if name == _EDGE_INDEX and component == _EDGES:
                is_listed = name in reading.two_lists
                return _listed_edges(column) if is_listed else column.lengths[0]
            if _named(name) == component and name != _EDGE_INDEX:
                return column.lengths[0]
        if component == _EDGES:
            return np.zeros(self._num_graphs, np.int64)
        raise ValueError("no column says how many nodes a graph has: add num_nodes")

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

    def _add(
        self,
        column: _Column,
        component: str,
        index_into: str | None,
        extents: Mapping[str, tuple[int | None, ...]],
    ) -> None:
        known = self._like.get(column.name)
        shape: tuple[int | None, ...] | None = None if known is None else known.row_shape
        if known is None and column.name in extents:
            shape = extents[column.name][component != GRAPHS :]
        if component == GRAPHS:
            rows = column.rows(0, shape)
        else:
            self._check_lengths(column, column.lengths[0] if column.lengths else None, component)
            rows = column.rows(1, shape)
        dtype = DType.INT32 if index_into is not None else DType.of(rows.dtype)
        self._specs.append(TensorSpec(column.name, dtype, component, rows.shape[1:], index_into))
        self._tensors[column.name] = rows

    def _add_ends(
        self, column: _Column, component: str, ends: dict[str, str], is_two_lists: bool
    ) -> None:
        outer = column.lengths[0]
        lengths = _listed_edges(column) if is_two_lists else outer
        self._check_lengths(column, lengths, component)
        if is_two_lists:
            # Of graph after graph the sources, then the targets; nothing where there is no edge.
            is_source = np.repeat(np.arange(len(column.lengths[1])) % 2 == 0, column.lengths[1])
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


def _begins(outer: Counts) -> Counts:
    """Where the inner lists of each graph begin."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(outer)[:-1])) if len(outer) else outer


def _pairs_fit(column: _Column) -> npt.NDArray[np.bool_]:
    """Of each graph, whether its edges can be pairs: [edges, 2]."""
    outer, inner = column.lengths
    graphs = np.repeat(np.arange(len(outer)), outer)
    others = np.bincount(graphs[inner != 2], minlength=len(outer))
    return np.equal(others, 0)


def _lists_fit(column: _Column) -> npt.NDArray[np.bool_]:
    """Of each graph, whether its edges can be two lists: [2, edges], or nothing for no edge."""
    outer, inner = column.lengths
    fits: npt.NDArray[np.bool_] = np.isin(outer, (0, 2))
    begins = _begins(outer)[outer == 2]
    fits[outer == 2] &= inner[begins] == inner[begins + 1]
    return fits


def _listed_edges(column: _Column) -> Counts:
    """The edges of each graph as two lists; what has other lists has any number."""
    outer, inner = column.lengths
    edges = np.zeros(len(outer), np.int64)
    has_lists = outer == 2
    edges[has_lists] = inner[_begins(outer)[has_lists]]
    return edges


def _of_counted(column: _Column, told: Counts | None, graph: int) -> str:
    if told is None:
        return ""
    return (
        f", as many as are counted: row {graph} has {column.lengths[0][graph]} lists, and is said to "
        f"have {told[graph]} edges"
    )
