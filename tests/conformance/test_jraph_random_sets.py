"""Random sets of GraphsTuples: what jraph makes of them, or refused by name."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Final, Iterator

import jax
import jraph
import ml_dtypes
import numpy as np
import random_sets
from random_sets import Oddities, PeerFailed, Refused

import packhouse.jraph
from packhouse import Client, GraphTable, LocalServer, Padding

DTYPES: Final = tuple(
    np.dtype(name)
    for name in (
        *("float32", "float64", "float16", ml_dtypes.bfloat16, "int64", "int32", "int16", "int8"),
        *("uint8", "uint16", "uint32", "uint64", "bool"),
    )
)
NAMES: Final = (
    "x",
    "f",
    "pos",
    "label",
    "source",
    "edge_index",
    "nodes.x",
    "x.1",
    "a/b",
    "graph.y",
)
TAKEN: Final = ("nodes", "edges", "globals", "senders", "receivers")


@dataclasses.dataclass
class Set:
    """The tuples and how they are given."""

    tuples: list[jraph.GraphsTuple]
    per_table: int
    given_as: str


def array(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Any values that the type has, odd ones among them."""
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return rng.integers(bounds.min, bounds.max, shape, dtype, True)
    made = rng.standard_normal(shape).astype(dtype)
    for odd in (np.nan, np.inf, -0.0):
        if made.size and rng.random() < 0.2:
            made.reshape(-1)[int(rng.integers(made.size))] = odd
    return made


class _Maker:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.oddities: Oddities = []

    def make(self) -> Set:
        rng = self.rng
        columns = {field: self._columns(field) for field in ("nodes", "edges", "globals")}
        index_dtype = np.int64 if rng.random() < 0.3 else np.int32
        tuples = []
        for _ in range(int(rng.integers(1, 9))):
            graphs = int(rng.choice([1, 1, 1, 2, 3]))
            n_node = rng.integers(0, 6, graphs) * (rng.random(graphs) < 0.8)
            n_edge = np.where(n_node > 0, rng.integers(0, 8, graphs), 0)
            starts = np.repeat(np.cumsum(n_node) - n_node, n_edge)
            within = np.repeat(np.maximum(n_node, 1), n_edge)
            ends = [
                (starts + rng.integers(0, within, len(within))).astype(index_dtype)
                for _ in range(2)
            ]
            tuples.append(
                jraph.GraphsTuple(
                    nodes=self._features(columns["nodes"], int(n_node.sum())),
                    edges=self._features(columns["edges"], int(n_edge.sum())),
                    globals=self._features(columns["globals"], graphs),
                    senders=ends[0],
                    receivers=ends[1],
                    n_node=n_node.astype(index_dtype),
                    n_edge=n_edge.astype(index_dtype),
                )
            )
        if rng.random() < 0.35:
            self._make_odd(tuples)
        given_as = str(rng.choice(["list", "iterator", "stored"], p=[0.7, 0.2, 0.1]))
        return Set(tuples, int(rng.integers(0, 4)), given_as)

    def _columns(self, field: str) -> Any:
        """None, a column, or columns by name."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.15:
            return None
        if kind < 0.4:
            return self._column(field)
        chosen = rng.choice(NAMES, int(rng.integers(1, 4)), replace=False)
        return {str(name): self._column(str(name)) for name in chosen}

    def _column(self, name: str) -> tuple[Any, tuple[int, ...]]:
        rng = self.rng
        shape = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3))))
        if shape and rng.random() < 0.02:
            shape = (0, *shape[1:])
            self.oddities.append((name, "rows without elements"))
        return DTYPES[int(rng.integers(len(DTYPES)))], shape

    def _features(self, columns: Any, rows: int) -> Any:
        if columns is None:
            return None
        if isinstance(columns, tuple):
            return array(self.rng, columns[0], (rows, *columns[1]))
        names = list(columns)
        if self.rng.random() < 0.3:
            names.reverse()
        return {
            name: array(self.rng, columns[name][0], (rows, *columns[name][1])) for name in names
        }

    def _make_odd(self, tuples: list[Any]) -> None:
        rng = self.rng
        here = int(rng.integers(len(tuples)))
        field = str(rng.choice(["nodes", "edges", "globals"]))
        features = getattr(tuples[here], field)
        kind = int(rng.integers(9))
        if kind in (0, 5, 7):
            self._odd_columns(kind, tuples, field)
        elif kind == 6:
            for at in range(len(tuples)):
                tuples[at] = tuples[at]._replace(**{field: {}})
            self.oddities.append((field, "an empty dict"))
        elif kind == 8:
            self._odd_rows(tuples, here)
        elif kind == 4:
            if isinstance(features, dict):
                for at, each in enumerate(tuples):
                    tuples[at] = each._replace(**{field: {"deep": getattr(each, field)}})
                self.oddities.append(("deep", "a nest"))
        elif len(tuples) > 1:
            self._change_one(kind, tuples, here, field)

    def _odd_columns(self, kind: int, tuples: list[Any], field: str) -> None:
        """One instead of those of a field, in all graphs."""
        rng = self.rng
        column: dict[Any, Any]
        if kind == 7:
            column = {"wave": np.zeros(1, np.complex64)} if rng.random() < 0.5 else {3: np.zeros(1)}
            why = "complex numbers, or a key that is no text"
        else:
            names = TAKEN if kind == 0 else ["größe", "my feature"]
            column = {str(rng.choice(names)): np.zeros(1)}
            why = (
                "a name of GraphsTuple's own"
                if kind == 0
                else "a name with a blank or letters that a schema lacks"
            )
        for at, each in enumerate(tuples):
            rows = {"nodes": each.n_node.sum(), "edges": each.n_edge.sum()}
            count = int(rows.get(field, len(each.n_node)))
            repeated = {name: np.repeat(value, count) for name, value in column.items()}
            tuples[at] = each._replace(**{field: repeated})
        self.oddities += [(name, why) for name in column]

    def _change_one(self, kind: int, tuples: list[Any], here: int, field: str) -> None:
        """A field of one graph: without it, or with another dtype or shape."""
        features = getattr(tuples[here], field)
        changed: Any = features
        if kind == 1 and features is not None:
            changed = None
            names = list(features) if isinstance(features, dict) else [field]
            self.oddities += [(name, "missing in some graphs") for name in names]
        elif kind == 2 and isinstance(features, np.ndarray):
            changed = features.astype(np.float16 if features.dtype != np.float16 else np.int8)
            self.oddities.append((field, "another dtype in some graphs"))
        elif kind == 3 and isinstance(features, dict):
            name = next(iter(features))
            changed = {**features, name: np.stack([features[name]] * 2, 1)}
            self.oddities.append((name, "another shape in some graphs"))
        tuples[here] = tuples[here]._replace(**{field: changed})
        if changed is not features and kind != 2:
            self._note_shared(tuples)

    def _odd_rows(self, tuples: list[Any], here: int) -> None:
        which = str(self.rng.choice(["senders", "n_node", "nodes"]))
        value = getattr(tuples[here], which)
        if which == "nodes":
            if not isinstance(value, np.ndarray) or not len(value):
                return
            changed = value[1:]
        else:
            changed = value + np.float32(0.5)
        tuples[here] = tuples[here]._replace(**{which: changed})
        self.oddities.append((which, "fractions, or rows that are missing"))

    def _note_shared(self, tuples: list[Any]) -> None:
        """Names that change with those of other fields may be told as well."""
        for each in tuples:
            for field in ("nodes", "edges", "globals"):
                features = getattr(each, field)
                if isinstance(features, dict):
                    self.oddities += [(name, "missing in some graphs") for name in features]


def make(seed: int) -> tuple[Set, Oddities]:
    maker = _Maker(np.random.default_rng([33, seed]))
    return maker.make(), maker.oddities


def assert_same(ours: Any, theirs: Any) -> None:
    """Structure, dtypes, shapes, all bits. Indices and counts are int32, as the docs have it."""
    for field in ("nodes", "edges", "globals", "senders", "receivers", "n_node", "n_edge"):
        mine, other = getattr(ours, field), getattr(theirs, field)
        assert jax.tree_util.tree_structure(mine) == jax.tree_util.tree_structure(other), field
        for a, b in zip(jax.tree_util.tree_leaves(mine), jax.tree_util.tree_leaves(other)):
            if field not in ("nodes", "edges", "globals"):
                b = b.astype(np.int32)
            assert a.dtype == b.dtype, f"{field}: {a.dtype}, jraph has {b.dtype}"
            assert a.shape == b.shape, f"{field}: {a.shape}, jraph has {b.shape}"
            same = np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
            assert same, f"{field}: {a.tolist()}, jraph has {b.tolist()}"


def batches(client: Client, server: LocalServer, made: Set, padding: Padding) -> Iterator[Any]:
    """Every graph once. Raises Refused."""
    source: Any = iter(made.tuples) if made.given_as == "iterator" else made.tuples

    def give() -> list[GraphTable]:
        if made.given_as == "stored":
            packhouse.jraph.ingest(client, "random", source)
            return []
        return list(packhouse.jraph.tables(source, tuples_per_table=made.per_table))

    stored = {"limits": {"nodes": 90, "edges": 120, "graphs": 5}, "padding": padding}
    return random_sets.batches(client, server, give, padding, stored=stored)


def compare(client: Client, server: LocalServer, made: Set) -> None:
    padding = Padding.NONE if made.per_table == 1 else Padding.GRAPH
    try:
        jraph.batch_np(made.tuples)
        # Of copies: it writes into the ends that it is given.
        copies = copy.deepcopy(made.tuples)
        graphs = [graph for each in copies for graph in jraph.unbatch_np(each)]
        jraph.batch_np(graphs)
    except Exception as error:
        try:
            list(batches(client, server, made, padding))
        except Refused:
            raise PeerFailed("and is refused") from error
        raise PeerFailed(f"{type(error).__name__}, not refused") from error
    num_seen = 0
    for batch in batches(client, server, made, padding):
        theirs = jraph.batch_np([graphs[number] for number in batch.graph_ids])
        assert_same(packhouse.jraph.to_graphs_tuple(batch, padding=False), theirs)
        if padding is Padding.GRAPH:
            rows = batch.rows
            padded = jraph.pad_with_graphs(theirs, rows["nodes"], rows["edges"], rows["graphs"])
            assert_same(packhouse.jraph.to_graphs_tuple(batch), padded)
        num_seen += len(batch)
    assert num_seen == len(graphs)


def test_random_sets(client: Client, server: LocalServer) -> None:
    random_sets.run("jraph", 3000, make, lambda made: compare(client, server, made))
