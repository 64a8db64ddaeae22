"""Graphs of TF-GNN as tables of graphs. See `packhouse.tfgnn`."""

from __future__ import annotations

from typing import Any, Final, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from packhouse.client.facade import Client
from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.ingest import PaddingValues, ingest_tables, joined_tables, sizes_by_name
from packhouse.frameworks.layout import NODES, Layout, RowSet
from packhouse.frameworks.tfgnn.schemas import BYTES, ragged_of
from packhouse.stored.dataset import Dataset

DEFAULT_TENSORS_PER_TABLE: Final = 1 << 10


def table(graphs: Iterable[Any], *, first_id: int = 0) -> GraphTable:
    """The graphs of some `tfgnn.GraphTensor`s, of one component or of several each, in their order.

    Each component is a graph. Node and edge sets become components of the schema by their names,
    with tensors `SET.FEATURE`, the context's features tensors of `graphs`; an edge set's ends are
    its int32 tensors `SET.source` and `SET.target` (`SET.#source` and `SET.#target` if a feature
    has such a name). A ragged feature F of a set S has its values in a tensor `S.F` along a
    component of that name. Lengths are as in a tf.Example: `S.F.dI` for the ragged dimension I,
    where 1 is the first after that of the rows; the first of them grows along S, others along
    components of their own; fixed dimensions between are the row shape of what follows them.
    Strings are ragged rows of bytes, `S.F.bytes`. Sets and features are in the order of their names,
    so the schema is the one that the service makes of TF-GNN's own. Padding components are graphs:
    take the graphs before they are padded.

    Raises ValueError naming a feature that cannot be sent; naming an edge set with a HyperAdjacency;
    naming the GraphTensor and the set or feature that it or the first one lacks, or whose rows have
    another shape or dtype than in the first one; and for no graph at all.
    """
    (whole,) = joined_tables(graphs, _Parts().part, "GraphTensor", 0, first_id)
    return whole


def tables(
    graphs: Iterable[Any], *, tensors_per_table: int = DEFAULT_TENSORS_PER_TABLE
) -> Iterator[GraphTable]:
    """As `table`, in parts of so many GraphTensors, of which one is held at a time.

    `graphs` may be a `tf.data.Dataset`.
    """
    return joined_tables(graphs, _Parts().part, "GraphTensor", tensors_per_table)


def ingest(
    client: Client,
    name: str,
    graphs: Iterable[Any],
    *,
    seal: bool = True,
    padding_values: PaddingValues | None = None,
) -> Dataset:
    """Stores the graphs under that name, and seals the data set. Errors: those of `table`;
    see `packhouse.frameworks.ingest.ingest_tables` for `padding_values`, by the names of tensors that
    `table` gives, and for what a second call does."""
    return ingest_tables(client, name, tables(graphs), seal=seal, padding_values=padding_values)


def batch_sampler(
    address: str, graphs: Iterable[Any], limits: Mapping[str, int], **options: Any
) -> BatchSampler:
    """Which of the GraphTensors share a batch: lists of numbers, for code that merges the
    GraphTensors.

    Each is one graph here. `limits` bound the sets by name and `graphs`, and the merged ones can be
    padded to `size_constraints` of these limits: a component and a node of each set are kept free
    for that. Options: those of BatchSampler except `padding`.
    """
    kept_free = {GRAPHS, NODES}

    def rows() -> Iterator[dict[str, int]]:
        for graph in graphs:
            kept_free.update(graph.node_sets)
            sets = {**graph.node_sets, **graph.edge_sets}
            yield {name: int(each.total_size) for name, each in sets.items()}

    sizes, components = sizes_by_name(rows(), "GraphTensor")
    real = {name: most - (name in kept_free) for name, most in limits.items()}
    return BatchSampler(address, sizes, real, components=components, **options)


class _Parts:
    """Makes a part of each GraphTensor, and looks whether the schema means what it was made of."""

    def __init__(self) -> None:
        self._schema: GraphSchema | None = None

    def part(self, graph: Any) -> _Part:
        """Raises ValueError naming a set or feature that a batch would not have under its name."""
        part = _Part(graph)
        if part.schema != self._schema:
            layout = Layout.of(part.schema)
            for kind, sets, found in (
                ("node set", graph.node_sets, layout.node_sets),
                ("edge set", graph.edge_sets, layout.edge_sets),
            ):
                for name, rows in sets.items():
                    if name not in found:
                        raise ValueError(f"{kind} {name!r}: a batch would not have it: rename it")
                    _check_features(layout, found[name], rows.features)
            _check_features(layout, layout.graphs, graph.context.features)
            self._schema = part.schema
        return part


def _check_features(layout: Layout, rows: RowSet, wanted: Iterable[str]) -> None:
    ragged = ragged_of(layout, rows)
    lengths = {each.lengths[0].name for each in ragged}
    found = {each.name for each in ragged}
    found.update(name for name, spec in rows.features.items() if spec.name not in lengths)
    for name in wanted:
        if name not in found:
            raise ValueError(
                f"feature {name!r} of {rows.component!r}: a batch would have it under another name, "
                "as that of a text or of lengths: rename it"
            )


def _check_elements(name: str, extents: Sequence[int]) -> None:
    if 0 in extents:
        raise ValueError(f"feature {name!r}: its rows have no elements")


class _Part:
    """The schema, sizes and columns of one GraphTensor, its indices within each graph."""

    def __init__(self, graph: Any) -> None:
        if graph.rank:
            graph = graph.merge_batch_to_components()
        self._specs: list[TensorSpec] = []
        self._counts: dict[str, npt.NDArray[np.int64]] = {}
        self.columns: dict[str, Array] = {}
        for name, nodes in sorted(graph.node_sets.items()):
            self._counts[name] = nodes.sizes.numpy().astype(np.int64)
        for name, edges in sorted(graph.edge_sets.items()):
            self._counts[name] = edges.sizes.numpy().astype(np.int64)
        sets = tuple(self._counts)
        self._counts[GRAPHS] = np.ones(int(graph.num_components), np.int64)
        for name, feature in sorted(graph.context.features.items()):
            self._add_feature(name, feature, GRAPHS)
        for set_name, nodes in sorted(graph.node_sets.items()):
            for name, feature in sorted(nodes.features.items()):
                self._add_feature(f"{set_name}.{name}", feature, set_name)
        for set_name, edges in sorted(graph.edge_sets.items()):
            ends = edges.adjacency
            if not hasattr(ends, "source_name"):
                raise ValueError(
                    f"edge set {set_name!r} has a {type(ends).__name__}: "
                    "edges must have one source and one target"
                )
            mark = "#" if {"source", "target"} & set(edges.features) else ""
            for end, nodes, index in (
                ("source", ends.source_name, ends.source),
                ("target", ends.target_name, ends.target),
            ):
                name = f"{set_name}.{mark}{end}"
                self._specs.append(TensorSpec(name, DType.INT32, set_name, index_into=nodes))
                starts = np.cumsum(self._counts[nodes]) - self._counts[nodes]
                self.columns[name] = index.numpy() - np.repeat(starts, self._counts[set_name])
            for name, feature in sorted(edges.features.items()):
                self._add_feature(f"{set_name}.{name}", feature, set_name)
        own = tuple(name for name in self._counts if name not in sets and name != GRAPHS)
        self.schema = GraphSchema(sets + own, self._specs)
        counts = [self._counts[name] for name in self.schema.components]
        self.sizes: npt.NDArray[np.int64] = (
            np.stack(counts, axis=1)
            if counts
            else np.zeros((len(self._counts[GRAPHS]), 0), np.int64)
        )

    def _add_feature(self, name: str, feature: Any, component: str) -> None:
        import tensorflow as tf

        # The lengths of ragged dimensions with their numbers, and the fixed ones before each.
        lengths: list[tuple[int, Array]] = []
        fixed: list[int] = []
        number = 0
        values = feature
        while isinstance(values, tf.RaggedTensor):
            number += 1
            uniform = values.uniform_row_length
            if uniform is None:
                rows = values.row_lengths().numpy()
                lengths.append((number, rows.reshape(-1, *fixed)))
                fixed = []
            else:
                fixed.append(int(uniform))
            # numpy would not know how many rows these are.
            _check_elements(name, fixed)
            values = values.values
        array = values.numpy()
        _check_elements(name, array.shape[1:])
        if values.dtype == tf.string:
            name += BYTES
            fixed += array.shape[1:]
            text = array.reshape(-1)
            of_strings = np.array([len(string) for string in text], np.int64)
            number += array.ndim
            lengths.append((number, of_strings.reshape(-1, *fixed)))
            array = np.frombuffer(b"".join(text), np.uint8)
            dtype = DType.UINT8
        else:
            if fixed:
                array = array.reshape(-1, *fixed, *array.shape[1:])
            if values.dtype == tf.bfloat16:
                dtype, array = DType.BFLOAT16, array.view("<u2")
            else:
                try:
                    dtype = DType.of(array.dtype)
                except ValueError as error:
                    raise ValueError(f"feature {name!r}: {error}") from None
        for place, (level, part) in enumerate(lengths):
            spec = TensorSpec(f"{name}.d{level}", DType.INT32, component, part.shape[1:])
            self._add(spec, part)
            is_last = place == len(lengths) - 1
            inner = name if is_last else f"{name}.d{lengths[place + 1][0]}"
            self._counts[inner] = self._sums(part, component)
            component = inner
        self._add(TensorSpec(name, dtype, component, array.shape[1:]), array)

    def _add(self, spec: TensorSpec, column: Array) -> None:
        if spec.name in self.columns:
            raise ValueError(f"two features are called {spec.name!r}")
        self._specs.append(spec)
        self.columns[spec.name] = column

    def _sums(self, lengths: Array, component: str) -> npt.NDArray[np.int64]:
        """int64 [graphs]: the sum over each graph's rows of `component`."""
        of_rows = lengths.sum(axis=tuple(range(1, lengths.ndim)), dtype=np.int64)
        sums = np.concatenate([[0], np.cumsum(of_rows)])
        stops = np.cumsum(self._counts[component])
        of_graphs: npt.NDArray[np.int64] = sums[stops] - sums[stops - self._counts[component]]
        return of_graphs
