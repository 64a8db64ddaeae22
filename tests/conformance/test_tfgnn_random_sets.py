"""Random sets of GraphTensors: what TF-GNN merges them into, or refused by name."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Final, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import random_sets
import tensorflow as tf
import tensorflow_gnn as tfgnn
from random_sets import Oddities, PeerFailed, Refused
from test_tfgnn import assert_same_graph, merged

import packhouse.tfgnn
from packhouse import Client, GraphTable, LocalServer, Padding

DTYPES: Final = (
    *(tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.int32, tf.int16, tf.int8),
    *(tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.string),
)
NAMES: Final = (
    "x",
    "h",
    "#id",
    "source",
    "size",
    "edge_index",
    "paper.x",
    "x.d1",
    "x.bytes",
    "a/b",
)
NODE_SETS: Final = ("paper", "author", "a.b", "nodes", "context")
EDGE_SETS: Final = ("writes", "paper.cites", "edges", "author.writes.paper")


@dataclasses.dataclass
class Set:
    """The GraphTensors and how they are given."""

    graphs: list[Any]
    per_table: int
    given_as: str


@dataclasses.dataclass
class Column:
    """A feature: its type, and after the rows fixed extents or None for ragged ones."""

    dtype: Any
    dims: list[int | None]

    def value(self, rng: np.random.Generator, rows: int) -> Any:
        return self._of(rng, [rows], self.dims)

    def _of(self, rng: np.random.Generator, shape: list[int], dims: list[int | None]) -> Any:
        if None not in dims:
            return tf.constant(flat(rng, self.dtype, [*shape, *dims]), self.dtype)
        place = dims.index(None)
        outer = [*shape, *(int(dim or 0) for dim in dims[:place])]
        lengths = rng.integers(0, 4, int(np.prod(outer)))
        inner = self._of(rng, [int(lengths.sum())], dims[place + 1 :])
        ragged = tf.RaggedTensor.from_row_lengths(inner, tf.constant(lengths, tf.int32))
        for extent, rows in zip(outer[:0:-1], np.cumprod(outer)[-2::-1]):
            ragged = tf.RaggedTensor.from_uniform_row_length(
                ragged, tf.constant(extent, tf.int32), nrows=tf.constant(int(rows), tf.int32)
            )
        return ragged


def flat(rng: np.random.Generator, dtype: Any, shape: list[int]) -> Any:
    """Any values that the type has, odd ones among them."""
    if dtype is tf.string:
        words = [b"", b"a", "größe".encode(), b"\xff\x00", b"a longer text"]
        made = np.empty(int(np.prod(shape)), object)
        made[:] = [words[int(n)] for n in rng.integers(len(words), size=made.size)]
        return made.reshape(shape)
    kind = dtype.as_numpy_dtype
    if dtype is tf.bool:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        bounds = np.iinfo(kind)
        return rng.integers(bounds.min, bounds.max, shape, kind, True)
    numbers = rng.standard_normal(shape).astype(kind)
    if numbers.size and rng.random() < 0.2:
        numbers.reshape(-1)[0] = np.inf
    return numbers


class _Maker:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.oddities: Oddities = []

    def make(self) -> Set:
        rng = self.rng
        types = [str(n) for n in rng.choice(NODE_SETS, int(rng.integers(1, 4)), replace=False)]
        edges = [str(n) for n in rng.choice(EDGE_SETS, int(rng.integers(0, 3)), replace=False)]
        ends = {name: (str(rng.choice(types)), str(rng.choice(types))) for name in edges}
        context = self._columns()
        node_columns = {name: self._columns() for name in types}
        edge_columns = {name: self._columns() for name in edges}
        graphs = []
        for _ in range(int(rng.integers(1, 7))):
            components = int(rng.choice([1, 1, 1, 2]))
            sizes = {
                name: rng.integers(0, 5, components) * (rng.random(components) < 0.8)
                for name in types
            }
            graphs.append(
                tfgnn.GraphTensor.from_pieces(
                    tfgnn.Context.from_fields(
                        features=self._values(context, components),
                        sizes=tf.ones([components], tf.int32),
                    ),
                    {
                        name: tfgnn.NodeSet.from_fields(
                            features=self._values(node_columns[name], int(sizes[name].sum())),
                            sizes=tf.constant(sizes[name], tf.int32),
                        )
                        for name in types
                    },
                    {name: self._edge_set(edge_columns[name], ends[name], sizes) for name in edges},
                )
            )
        if rng.random() < 0.35:
            self._make_odd(graphs, types, edges)
        self._note_meetings(graphs)
        given_as = str(rng.choice(["list", "iterator", "stored"], p=[0.7, 0.2, 0.1]))
        return Set(graphs, int(rng.integers(0, 4)), given_as)

    def _edge_set(self, columns: dict[str, Column], ends: Any, sizes: Any) -> Any:
        rng = self.rng
        source, target = (sizes[name] for name in ends)
        edges = np.where((source > 0) & (target > 0), rng.integers(0, 6, len(source)), 0)

        def index(of: Any) -> Any:
            starts = np.repeat(np.cumsum(of) - of, edges)
            return tf.constant(
                starts + rng.integers(0, np.repeat(np.maximum(of, 1), edges)), tf.int32
            )

        return tfgnn.EdgeSet.from_fields(
            features=self._values(columns, int(edges.sum())),
            sizes=tf.constant(edges, tf.int32),
            adjacency=tfgnn.Adjacency.from_indices(
                (ends[0], index(source)), (ends[1], index(target))
            ),
        )

    def _columns(self) -> dict[str, Column]:
        rng = self.rng
        chosen = rng.choice(NAMES, int(rng.integers(0, 3)), replace=False)
        columns = {}
        for name in chosen:
            dims = [
                None if rng.random() < 0.25 else int(rng.integers(1, 4))
                for _ in range(int(rng.integers(0, 3)))
            ]
            if rng.random() < 0.01:
                dims = [0]
                self.oddities.append((str(name), "rows without elements"))
            columns[str(name)] = Column(DTYPES[int(rng.integers(len(DTYPES)))], dims)
        return columns

    def _values(self, columns: dict[str, Column], rows: int) -> dict[str, Any]:
        return {name: column.value(self.rng, rows) for name, column in columns.items()}

    def _make_odd(self, graphs: list[Any], types: list[str], edges: list[str]) -> None:
        rng = self.rng
        here = int(rng.integers(len(graphs)))
        many = len(graphs) > 1
        set_name = str(rng.choice(types))
        features = dict(graphs[here].node_sets[set_name].features)
        name = str(rng.choice(sorted(features))) if features else None
        kind = int(rng.integers(6))

        def replace(new: dict[str, Any], at: int) -> None:
            graphs[at] = graphs[at].replace_features(node_sets={set_name: new})

        if kind == 0 and name and many:
            features.pop(name)
            replace(features, here)
            self.oddities.append((name, "missing in some graphs"))
        elif kind == 1 and name and many:
            value = features[name]
            if value.dtype not in (tf.string, tf.bool):
                other = tf.float32 if value.dtype != tf.float32 else tf.int32
                replace({**features, name: tf.cast(value, other)}, here)
                self.oddities.append((name, "another dtype in some graphs"))
        elif kind == 2 and many:
            rows = int(graphs[here].node_sets[set_name].total_size)
            replace({**features, "more": tf.zeros([rows, 2])}, here)
            self.oddities.append(("more", "missing in some graphs"))
        elif kind == 3:
            name = str(rng.choice(["größe", "my feature"]))
            for at, each in enumerate(graphs):
                rows = int(each.node_sets[set_name].total_size)
                replace({**each.node_sets[set_name].features, name: tf.zeros([rows])}, at)
            self.oddities.append((name, "a name with a blank or letters that a schema lacks"))
        elif kind == 4:
            for at, each in enumerate(graphs):
                rows = int(each.node_sets[set_name].total_size)
                wave = tf.zeros([rows], tf.complex64)
                replace({**each.node_sets[set_name].features, "wave": wave}, at)
            self.oddities.append(("wave", "complex numbers"))
        elif kind == 5 and edges:
            name = edges[0]
            for at, each in enumerate(graphs):
                adjacency = each.edge_sets[name].adjacency
                hyper = tfgnn.HyperAdjacency.from_indices(
                    {0: (adjacency.source_name, adjacency.source)}
                )
                edge_sets = {key: value for key, value in each.edge_sets.items()}
                edge_sets[name] = tfgnn.EdgeSet.from_fields(
                    features=edge_sets[name].features, sizes=edge_sets[name].sizes, adjacency=hyper
                )
                graphs[at] = tfgnn.GraphTensor.from_pieces(
                    each.context, dict(each.node_sets), edge_sets
                )
            self.oddities.append((name, "edges of more or fewer ends than two"))

    def _note_meetings(self, graphs: list[Any]) -> None:
        """Names that would be those of the lengths or the bytes of another feature, and the like."""
        graph = graphs[0]
        rows = [graph.context, *graph.node_sets.values(), *graph.edge_sets.values()]
        for each in rows:
            for name in each.features:
                if name.startswith("x.") or "." in name or name == "#source":
                    self.oddities.append((name, "a name that means something else with its set"))
        for name in (*graph.node_sets, *graph.edge_sets):
            if "." in name or name in ("edges", "nodes", "context"):
                self.oddities.append((name, "a name that means something else with its set"))


def make(seed: int) -> tuple[Set, Oddities]:
    maker = _Maker(np.random.default_rng([34, seed]))
    return maker.make(), maker.oddities


def batches(client: Client, server: LocalServer, made: Set, padding: Padding) -> Iterator[Any]:
    """Every graph once. Raises Refused."""
    source: Any = iter(made.graphs) if made.given_as == "iterator" else made.graphs
    sets = {*made.graphs[0].node_sets, *made.graphs[0].edge_sets}

    def give() -> list[GraphTable]:
        if made.given_as == "stored":
            packhouse.tfgnn.ingest(client, "random", source)
            return []
        return list(packhouse.tfgnn.tables(source, tensors_per_table=made.per_table))

    return random_sets.batches(client, server, give, padding, sets.__contains__)


def single(graph: Any) -> list[Any]:
    """Its components as graphs of their own."""
    count = int(graph.num_components)
    if count == 1:
        return [graph]
    return [component(graph, number) for number in range(count)]


def component(graph: Any, number: int) -> Any:
    def rows(each: Any) -> tuple[int, int]:
        stops = np.cumsum(each.sizes.numpy())
        return int(stops[number] - each.sizes.numpy()[number]), int(stops[number])

    def part(each: Any) -> tuple[dict[str, Any], Any]:
        start, stop = rows(each)
        features = {name: value[start:stop] for name, value in each.features.items()}
        return features, each.sizes[number : number + 1]

    features, sizes = part(graph.context)
    node_sets = {}
    for name, each in graph.node_sets.items():
        of_set, of_sizes = part(each)
        node_sets[name] = tfgnn.NodeSet.from_fields(features=of_set, sizes=of_sizes)
    edge_sets = {}
    for name, each in graph.edge_sets.items():
        of_set, of_sizes = part(each)
        start, stop = rows(each)
        adjacency = each.adjacency
        ends = [
            (key, index[start:stop] - rows(graph.node_sets[key])[0])
            for key, index in (
                (adjacency.source_name, adjacency.source),
                (adjacency.target_name, adjacency.target),
            )
        ]
        edge_sets[name] = tfgnn.EdgeSet.from_fields(
            features=of_set, sizes=of_sizes, adjacency=tfgnn.Adjacency.from_indices(*ends)
        )
    context = tfgnn.Context.from_fields(features=features, sizes=sizes)
    return tfgnn.GraphTensor.from_pieces(context, node_sets, edge_sets)


def compare(client: Client, server: LocalServer, made: Set) -> None:
    padding = Padding.TFGNN if made.per_table == 1 and made.given_as != "stored" else Padding.NONE
    try:
        graphs = [part for graph in made.graphs for part in single(graph)]
        merged(graphs)
    except Exception as error:
        try:
            list(batches(client, server, made, padding))
        except Refused:
            raise PeerFailed("and is refused") from error
        raise PeerFailed(f"{type(error).__name__}, not refused") from error
    num_seen = 0
    for batch in batches(client, server, made, padding):
        ours = packhouse.tfgnn.to_graph_tensor(batch, padding=False)
        assert_same_graph(ours, merged([graphs[number] for number in batch.graph_ids]))
        num_seen += len(batch)
    assert num_seen == len(graphs)


def test_random_sets(client: Client, server: LocalServer) -> None:
    random_sets.run("TF-GNN", 400, make, lambda made: compare(client, server, made))
