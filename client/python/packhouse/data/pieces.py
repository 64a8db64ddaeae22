"""Graphs that were cut to fit a batch (OversizePolicy.PARTITION), whole again."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS, GraphSchema, Layout, TensorSpec

_OF_GRAPH = ("#piece", "#pieces", "#cut_edges")

_Rows = npt.NDArray[Any]


def whole_schema(schema: GraphSchema) -> GraphSchema:
    """`schema` without the tensors of pieces. Raises ValueError if it has none."""
    names = [tensor.name for tensor in schema.tensors]
    missing = [name for name in _OF_GRAPH if name not in names]
    if missing:
        raise ValueError(f"the schema has no tensor {missing[0]!r}: its graphs are not cut")
    return GraphSchema(schema.components, schema.tensors[: names.index(_OF_GRAPH[0])])


def join_pieces(tables: GraphTable | Iterable[GraphTable]) -> GraphTable:
    """The whole graphs of pieces, in the order in which a graph's first piece comes.

    `tables` are un-batched batches (`Batch.unbatch`) of a stream or an epoch with
    OversizePolicy.PARTITION; pieces of a graph may be in any of them. Graphs that were not cut pass
    through. The result has the schema that was sent, and each graph the bytes that it had.

    Raises ValueError naming the graph, if a piece is missing or there twice, or if pieces do not
    fit together. Cost: O(bytes); all graphs are in memory.
    """
    given = [tables] if isinstance(tables, GraphTable) else list(tables)
    if not given:
        raise ValueError("there are no tables")
    schema = given[0].schema
    whole = whole_schema(schema)
    pieces: dict[int, dict[int, dict[str, _Rows]]] = {}
    expected: dict[int, int] = {}
    for table in given:
        if table.schema != schema:
            raise ValueError("the tables have different schemas")
        for graph_id, number, count, rows in _graphs_of(table):
            of_graph = pieces.setdefault(graph_id, {})
            if number in of_graph:
                raise ValueError(f"graph {graph_id}: piece {number} is there twice")
            if expected.setdefault(graph_id, count) != count:
                raise ValueError(f"graph {graph_id}: has {expected[graph_id]} pieces, and {count}")
            of_graph[number] = rows
    graphs: list[dict[str, _Rows]] = []
    sizes: list[list[int]] = []
    for graph_id, of_graph in pieces.items():
        missing = [number for number in range(expected[graph_id]) if number not in of_graph]
        if missing:
            raise ValueError(
                f"graph {graph_id}: piece {missing[0]} of {expected[graph_id]} is missing"
            )
        graph, size = _Joining(whole, graph_id, [of_graph[n] for n in sorted(of_graph)]).join()
        graphs.append(graph)
        sizes.append(size)
    return GraphTable.from_graphs(
        whole, graphs, np.array(sizes, np.int64).reshape(len(sizes), -1), list(pieces)
    )


def _graphs_of(table: GraphTable) -> Iterable[tuple[int, int, int, dict[str, _Rows]]]:
    ends: dict[str, npt.NDArray[np.int64]] = {
        component: np.concatenate([[0], np.cumsum(table.sizes[:, k], dtype=np.int64)])
        for k, component in enumerate(table.schema.components)
    }
    ends[GRAPHS] = np.arange(len(table.sizes) + 1)
    for i, graph_id in enumerate(table.graph_ids):
        rows = {}
        for spec in table.schema.tensors:
            begin, end = ends[spec.component][i : i + 2]
            column = table.tensors[spec.name]
            rows[spec.name] = (
                column[begin:end] if spec.layout is Layout.ROWS_FIRST else column[..., begin:end]
            )
        yield int(graph_id), int(rows["#piece"][0]), int(rows["#pieces"][0]), rows


class _Joining:
    """The pieces of one graph."""

    def __init__(self, schema: GraphSchema, graph_id: int, pieces: list[dict[str, _Rows]]) -> None:
        self._schema = schema
        self._graph_id = graph_id
        self._pieces = pieces
        # Of each component with rows of its own: for each piece which of its rows are owned, and
        # their numbers.
        self._owned: dict[str, list[tuple[_Rows, _Rows]]] = {}
        self._counts: dict[str, int] = {GRAPHS: 1}
        # Of ragged features: for each piece the steps that are owned, and all in their order.
        self._steps: dict[str, tuple[list[_Rows], _Rows]] = {}

    def join(self) -> tuple[dict[str, _Rows], list[int]]:
        """The tensors of the whole, and its size tuple."""
        for component in self._schema.components:
            if f"{component}.#row" in self._pieces[0]:
                self._own_rows(component)
        for component in self._schema.components:
            self._own_steps(component)
        graph = {spec.name: self._tensor(spec) for spec in self._schema.tensors}
        return graph, [self._counts[component] for component in self._schema.components]

    def _own_rows(self, component: str) -> None:
        owned = []
        for piece in self._pieces:
            inner = np.flatnonzero(piece[f"{component}.#inner"])
            owned.append((inner, piece[f"{component}.#row"][inner].astype(np.int64)))
        numbers = np.sort(np.concatenate([rows for _, rows in owned]))
        if not np.array_equal(numbers, np.arange(len(numbers))):
            raise ValueError(f"graph {self._graph_id}: its pieces lack rows of {component!r}")
        self._owned[component] = owned
        self._counts[component] = len(numbers)

    def _lengths_of(self, component: str) -> TensorSpec:
        """The lengths along which the steps of a ragged feature lie: `F.d2` before `F.d1`."""
        feature, dot, number = component.rpartition(".d")
        of = int(number) if dot and number.isdigit() else None
        feature = component if of is None else feature
        best: TensorSpec | None = None
        best_number = 0
        for spec in self._schema.tensors:
            name, dot, number = spec.name.rpartition(".d")
            if name != feature or not number.isdigit() or spec.component == component:
                continue
            if (of is None or int(number) < of) and int(number) > best_number:
                best, best_number = spec, int(number)
        if best is None:
            raise ValueError(f"the ragged feature {component!r} has no lengths")
        return best

    def _own_steps(self, component: str) -> None:
        if component in self._owned or component in self._steps:
            return
        lengths = self._lengths_of(component)
        if lengths.component not in self._owned:
            self._own_steps(lengths.component)
        places: list[_Rows] = []
        # The whole's lengths in the order of its rows, to know where each row's steps go.
        of_rows = self._tensor(lengths)
        totals = _totals(of_rows)
        starts = np.concatenate([[0], np.cumsum(totals)])
        targets: list[_Rows] = []
        for i, piece in enumerate(self._pieces):
            own = piece[lengths.name]
            own_totals = _totals(own)
            own_starts = np.concatenate([[0], np.cumsum(own_totals)])
            inner, numbers = self._rows_of(lengths.component, i)
            places.append(_ranges(own_starts[inner], own_totals[inner]))
            targets.append(_ranges(starts[numbers], own_totals[inner]))
        self._steps[component] = (places, np.concatenate(targets))
        self._counts[component] = int(starts[-1])

    def _rows_of(self, component: str, piece: int) -> tuple[_Rows, _Rows]:
        if component in self._owned:
            return self._owned[component][piece]
        places, targets = self._steps[component]
        before = sum(len(each) for each in places[:piece])
        return places[piece], targets[before : before + len(places[piece])]

    def _tensor(self, spec: TensorSpec) -> _Rows:
        if spec.component == GRAPHS:
            return self._pieces[0][spec.name]
        out = np.empty(spec.array_shape(self._counts[spec.component]), spec.dtype.numpy)
        for i, piece in enumerate(self._pieces):
            inner, numbers = self._rows_of(spec.component, i)
            rows = piece[spec.name]
            rows = rows[inner] if spec.layout is Layout.ROWS_FIRST else rows[..., inner]
            if spec.index_into is not None:
                rows = piece[f"{spec.index_into}.#row"][rows.astype(np.int64)]
            if spec.layout is Layout.ROWS_FIRST:
                out[numbers] = rows
            else:
                out[..., numbers] = rows
        return out


def _totals(lengths: _Rows) -> _Rows:
    """The sum of each row, also where there is none."""
    return np.asarray(lengths.sum(axis=tuple(range(1, lengths.ndim)), dtype=np.int64))


def _ranges(starts: _Rows, lengths: _Rows) -> _Rows:
    """The numbers of all ranges [start, start + length), one range after the other."""
    total = int(lengths.sum())
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(total) - np.repeat(before - starts, lengths))
