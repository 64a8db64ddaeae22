"""Random sets of DGL's graphs: what DGL's own collator makes of them, or refused by name."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Final, Iterator

import dgl
import numpy as np
import pytest
import random_sets
import torch
from dgl.dataloading import GraphCollator
from random_sets import Oddities, PeerFailed, Refused

import packhouse.dgl
from packhouse import Client, GraphTable, LocalServer, Padding

DTYPES: Final = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
NAMES: Final = ("x", "h", "feat", "_ID", "label", "source", "edge_index", "nodes.x", "x.1", "a/b")
TYPES: Final = ("user", "item", "a.b", "_N", "nodes", "edges")
RELATIONS: Final = ("likes", "by", "is.part", "_E", "likes.item", "nodes")
RESERVED: Final = ("lease", "loss_weight", "node_mask", "edge_mask", "graph_mask", "nodes", "edges")

Columns = dict[str, tuple[Any, tuple[int, ...]]]


@dataclasses.dataclass
class Set:
    """The items and how they are given."""

    items: list[Any]
    per_table: int
    given_as: str
    index_dtype: str


def tensor(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Any values that the type has, odd ones among them."""
    if dtype is torch.bool:
        return torch.from_numpy(np.asarray(rng.random(shape) < 0.5))
    if dtype.is_floating_point:
        made = torch.from_numpy(np.asarray(rng.standard_normal(shape))).to(dtype)
        for odd in (float("nan"), float("inf"), -0.0):
            if made.numel() and rng.random() < 0.2:
                made.view(-1)[int(rng.integers(made.numel()))] = odd
        return made
    bounds = torch.iinfo(dtype)
    whole = np.asarray(rng.integers(bounds.min, bounds.max, shape, np.int64, True))
    return torch.from_numpy(whole).to(dtype)


class _Maker:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.oddities: Oddities = []

    def make(self) -> Set:
        rng = self.rng
        count = int(rng.integers(1, 9))
        is_typed = rng.random() < 0.5
        if is_typed:
            types = sorted({str(rng.choice(TYPES)) for _ in range(int(rng.integers(1, 4)))})
            keys = sorted(
                {
                    (str(rng.choice(types)), str(rng.choice(RELATIONS)), str(rng.choice(types)))
                    for _ in range(int(rng.integers(1, 4)))
                }
            )
            self._note_names(types, keys)
        else:
            types, keys = ["_N"], [("_N", "_E", "_N")]
        node_columns = {name: self._columns(NAMES) for name in types}
        edge_columns = {key: self._columns(NAMES) for key in keys}
        label_columns = self._columns(("label", "y", "x", "graph.y"))
        kind = str(rng.choice(["none", "dict", "tensor", "float", "int", "bool", "numpy"]))
        idtype = torch.int32 if rng.random() < 0.2 else torch.int64
        items = []
        for _ in range(count):
            sizes = {name: int(rng.integers(0, 6)) * int(rng.random() < 0.8) for name in types}
            ends = {}
            for key in keys:
                edges = int(rng.integers(0, 8)) if sizes[key[0]] and sizes[key[2]] else 0
                ends[key] = tuple(
                    torch.from_numpy(rng.integers(0, max(sizes[end], 1), edges)).to(idtype)
                    for end in (key[0], key[2])
                )
            if is_typed:
                graph = dgl.heterograph(ends, sizes, idtype=idtype)
            else:
                graph = dgl.graph(ends[keys[0]], num_nodes=sizes["_N"], idtype=idtype)
            for name, columns in node_columns.items():
                for feature, (dtype, shape) in columns.items():
                    rows = tensor(rng, dtype, (sizes[name], *shape))
                    graph.nodes[name].data[feature] = rows
            for key, columns in edge_columns.items():
                for feature, (dtype, shape) in columns.items():
                    rows = tensor(rng, dtype, (len(ends[key][0]), *shape))
                    graph.edges[key].data[feature] = rows
            items.append(self._item(graph, kind, label_columns))
        if rng.random() < 0.35:
            self._make_odd(items, types, keys)
        given_as = str(rng.choice(["list", "iterator", "stored"], p=[0.7, 0.2, 0.1]))
        index_dtype = "int32" if idtype is torch.int32 else "int64"
        return Set(items, int(rng.integers(0, 4)), given_as, index_dtype)

    def _note_names(self, types: list[str], keys: list[Any]) -> None:
        """What would come back as something else."""
        if {"_N"} == set(types) and [key[1] for key in keys] == ["_E"]:
            return
        for name in types:
            if name in ("nodes", "edges"):
                self.oddities.append((name, "a type called as that of graphs without types"))
        for key in keys:
            if key[1] in ("nodes", "edges"):
                self.oddities.append((key, "a type called as that of graphs without types"))

    def _item(self, graph: Any, kind: str, columns: Columns) -> Any:
        rng = self.rng
        if kind == "none":
            return graph
        dtype, shape = next(iter(columns.values()), (torch.float32, (1,)))
        label: Any = {
            "dict": lambda: {name: tensor(rng, *column) for name, column in columns.items()},
            "tensor": lambda: tensor(rng, dtype, shape),
            "float": lambda: float(rng.standard_normal()),
            "int": lambda: int(rng.integers(-(1 << 62), 1 << 62)),
            "bool": lambda: bool(rng.random() < 0.5),
            "numpy": lambda: rng.standard_normal(shape).astype(np.float32),
        }[kind]()
        return (graph, label) if rng.random() < 0.5 else [graph, label]

    def _columns(self, names: tuple[str, ...]) -> Columns:
        rng = self.rng
        chosen = rng.choice(names, int(rng.integers(0, 4)), replace=False)
        columns: Columns = {}
        for name in chosen:
            shape = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3))))
            if shape and rng.random() < 0.02:
                shape = (0, *shape[1:])
                self.oddities.append((str(name), "rows without elements"))
                self.oddities.append(("label", "rows without elements"))
            columns[str(name)] = (DTYPES[int(rng.integers(len(DTYPES)))], shape)
        return columns

    def _make_odd(self, items: list[Any], types: list[str], keys: list[Any]) -> None:
        rng = self.rng
        here = int(rng.integers(len(items)))
        graphs = [item[0] if isinstance(item, (tuple, list)) else item for item in items]
        graph = graphs[here]
        frames = [graph.nodes[name].data for name in types]
        frames += [graph.edges[key].data for key in keys]
        frame = frames[int(rng.integers(len(frames)))]
        name = str(rng.choice(sorted(frame))) if len(frame) else None
        kind = int(rng.integers(9))
        many = len(items) > 1
        if kind < 3:
            if name and many:
                self._change_column(kind, frame, name)
        elif kind < 6:
            self._add_odd_column(kind, graphs, types[0])
        elif kind == 6:
            self._add_odd_labels(items, graphs)
        elif kind == 7 and many:
            source = dgl.heterograph({("extra", "to", "extra"): ([], [])})
            items[here] = (
                (source, items[here][1]) if isinstance(items[here], (tuple, list)) else source
            )
            self.oddities += [(kind, "a type that some graphs lack") for kind in types + ["extra"]]
        elif kind == 8 and isinstance(items[here], (tuple, list)) and many:
            self._change_label(items, here, graph)

    def _change_column(self, kind: int, frame: Any, name: str) -> None:
        """Of one graph."""
        if kind == 0:
            del frame[name]
            self.oddities.append((name, "missing in some graphs"))
        elif kind == 1:
            other = torch.int16 if frame[name].dtype is not torch.int16 else torch.int64
            frame[name] = frame[name].to(other)
            self.oddities.append((name, "another dtype in some graphs"))
        else:
            frame[name] = torch.stack([frame[name]] * 2, 1)
            self.oddities.append((name, "another shape in some graphs"))

    def _add_odd_column(self, kind: int, graphs: list[Any], of: str) -> None:
        """To the nodes of a type in all graphs."""
        dtype = torch.float32
        if kind == 3:
            name, why = str(self.rng.choice(RESERVED)), "a name that batches use"
        elif kind == 4:
            name = str(self.rng.choice(["größe", "my feature"]))
            why = "a name with a blank or letters that a schema lacks"
        else:
            name, why, dtype = "wave", "complex numbers", torch.complex64
        for each in graphs:
            each.nodes[of].data[name] = torch.zeros(each.num_nodes(of), dtype=dtype)
        self.oddities.append((name, why))

    def _add_odd_labels(self, items: list[Any], graphs: list[Any]) -> None:
        labels: Any = ("CCO", [1, 2], None, {"y": "a"}, {"y": {"deep": 1}})
        label = labels[int(self.rng.integers(5))]
        for number, each in enumerate(graphs):
            items[number] = (each, label)
        name = "y" if isinstance(label, dict) else "label"
        self.oddities.append((name, "a label that is no tensor and no number"))

    def _change_label(self, items: list[Any], here: int, graph: Any) -> None:
        """Of one graph."""
        label = items[here][1]
        if isinstance(label, dict) and label:
            name = next(iter(label))
            items[here] = (graph, {k: v for k, v in label.items() if k != name})
            self.oddities.append((name, "missing in some graphs"))
        elif not isinstance(label, dict):
            items[here] = (graph, torch.zeros(7, dtype=torch.float16))
            self.oddities.append(("label", "another shape in some graphs"))


def make(seed: int) -> tuple[Set, Oddities]:
    maker = _Maker(np.random.default_rng([32, seed]))
    return maker.make(), maker.oddities


def assert_equal(ours: Any, theirs: Any, name: str) -> None:
    """Dtypes, shapes, and all bits of all values."""
    assert ours.dtype == theirs.dtype, f"{name}: {ours.dtype}, DGL has {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{name}: {ours.shape}, DGL has {theirs.shape}"
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    mine, other = (
        each.contiguous().reshape(-1).view(widths[each.element_size()]) for each in (ours, theirs)
    )
    assert torch.equal(mine, other), f"{name}: {ours.tolist()}, DGL has {theirs.tolist()}"


def assert_same_frame(ours: Any, theirs: Any, name: str) -> None:
    assert set(ours) == set(theirs), f"{name}: {set(ours)}, DGL has {set(theirs)}"
    for feature, value in theirs.items():
        assert_equal(ours[feature], value, f"{name} {feature}")


def assert_same_graph(ours: Any, theirs: Any) -> None:
    assert ours.ntypes == theirs.ntypes, f"{ours.ntypes}, DGL has {theirs.ntypes}"
    etypes = theirs.canonical_etypes
    assert ours.canonical_etypes == etypes, f"{ours.canonical_etypes}, DGL has {etypes}"
    assert ours.idtype == theirs.idtype and ours.batch_size == theirs.batch_size
    for name in theirs.ntypes:
        assert ours.num_nodes(name) == theirs.num_nodes(name), name
        assert_equal(ours.batch_num_nodes(name), theirs.batch_num_nodes(name), name)
        assert_same_frame(ours.nodes[name].data, theirs.nodes[name].data, name)
    for key in theirs.canonical_etypes:
        for end in (0, 1):
            mine, other = (each.edges(order="eid", etype=key)[end] for each in (ours, theirs))
            assert_equal(mine, other, f"{key} end {end}")
        assert_equal(ours.batch_num_edges(key), theirs.batch_num_edges(key), str(key))
        assert_same_frame(ours.edges[key].data, theirs.edges[key].data, str(key))


def batches(client: Client, server: LocalServer, made: Set, padding: Padding) -> Iterator[Any]:
    """Every graph once. Raises Refused."""
    source: Any = iter(made.items) if made.given_as == "iterator" else made.items

    def give() -> list[GraphTable]:
        if made.given_as == "stored":
            packhouse.dgl.ingest(client, "random", source)
            return []
        return list(packhouse.dgl.tables(source, graphs_per_table=made.per_table))

    return random_sets.batches(client, server, give, padding, stored={"padding": padding})


def joined(items: list[Any]) -> tuple[Any, dict[str, Any]]:
    """As a GraphDataLoader has them: a graph, and labels by name."""
    made = GraphCollator().collate(items)
    if not isinstance(items[0], (tuple, list)):
        return made, {}
    graph, label = made
    return graph, label if isinstance(label, dict) else {"label": label}


def compare(client: Client, server: LocalServer, made: Set) -> None:
    try:
        joined(made.items)
    except Exception as error:
        try:
            list(batches(client, server, made, Padding.NONE))
        except Refused:
            raise PeerFailed("and is refused") from error
        raise PeerFailed(f"{type(error).__name__}, not refused") from error
    num_seen = 0
    padding = Padding.GRAPH if made.per_table == 1 and made.given_as != "stored" else Padding.NONE
    for batch in batches(client, server, made, padding):
        ours, data = packhouse.dgl.to_batch(batch, index_dtype=made.index_dtype)
        theirs, labels = joined([made.items[number] for number in batch.graph_ids])
        assert_same_graph(ours, theirs)
        assert_same_frame(data, labels, "labels")
        num_seen += len(batch)
    assert num_seen == len(made.items)


@pytest.mark.filterwarnings("ignore")
def test_random_sets(client: Client, server: LocalServer) -> None:
    warnings.simplefilter("ignore")
    random_sets.run("DGL", 3000, make, lambda made: compare(client, server, made))
