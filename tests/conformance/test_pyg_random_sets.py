"""Random sets of Data and HeteroData: what PyG makes of them, or refused by name."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import tempfile
import warnings
from typing import Any, Callable, Final, Iterator

import numpy as np
import pytest
import random_sets
import torch
from random_sets import Oddities, PeerFailed, Refused
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

import packhouse.pyg
from packhouse import Client, GraphTable, LocalServer, Padding
from packhouse.files import pickles

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
NODE_NAMES: Final = ("x", "pos", "feat", "node_type", "z", "train_mask", "h", "x.1", "n_id")
EDGE_NAMES: Final = ("edge_attr", "edge_weight", "edge_type", "e_id", "edge/label", "dist")
GRAPH_NAMES: Final = ("y", "target", "u", "graph.y", "smiles_hash", "scale/factor")
OWN_NAMES: Final = ("cell", "rings", "path", "rings.x")
RESERVED: Final = ("lease", "loss_weight", "node_mask", "edge_mask", "graph_mask", "nodes", "edges")
# What PyG takes for the number of nodes, or of edges, by name.
TELLS_NODES: Final = ("x", "pos", "feat", "node_type", "batch", "n_id", "tf")


class Ruled(Data):
    """With rules of its own, which are data of the class that a set makes."""

    cat_dims: dict[str, int | None] = {}
    incs: dict[str, Callable[[Any], Any]] = {}

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key in self.cat_dims:
            return self.cat_dims[key]
        return super().__cat_dim__(key, value, *args, **kwargs)

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key in self.incs:
            return self.incs[key](self)
        return super().__inc__(key, value, *args, **kwargs)


@dataclasses.dataclass
class Set:
    """The graphs and how they are given."""

    graphs: list[Any]
    options: dict[str, Any]
    data_class: Any
    per_table: int
    given_as: str
    # A data set in memory, of which the graphs are.
    source: Any = None
    # Each graph has its attributes in an order of its own; those of a batch are in the first one's.
    has_orders: bool = False


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
    return torch.from_numpy(
        np.asarray(rng.integers(bounds.min, bounds.max, shape, np.int64, True))
    ).to(dtype)


class _PlainMaker:
    """Graphs of one kind of nodes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.oddities: Oddities = []
        self.cat_dims: dict[str, int | None] = {}
        self.incs: dict[str, Callable[[Any], Any]] = {}
        self.options: dict[str, Any] = {}
        self.has_orders = bool(rng.random() < 0.3)
        largest = int(rng.integers(1, 8))
        count = int(rng.integers(1, 9))
        self.nodes = [int(rng.integers(0, largest + 1)) for _ in range(count)]
        if rng.random() < 0.1:
            self.nodes = [self.nodes[0]] * count
        self.edges = [
            int(rng.integers(0, 2 * largest)) if nodes and rng.random() < 0.8 else 0
            for nodes in self.nodes
        ]
        self.graphs: list[dict[str, Any]] = [{} for _ in self.nodes]

    def make(self) -> Set:
        rng = self.rng
        parts = [self.add_edges, self.add_nodes, self.add_edge_features, self.add_whole]
        parts += [
            part for part in (self.add_own, self.add_index, self.add_ruled) if rng.random() < 0.4
        ]
        for number in rng.permutation(len(parts)):
            parts[number]()
        if not self._tells_nodes():
            if rng.random() < 0.8:
                self.put("num_nodes", lambda i: self.nodes[i])
            else:
                self.oddities.append(("num_nodes", "the number of nodes is not told"))
        if rng.random() < 0.35:
            self._make_odd()
        self._note_ambiguous()
        self._order()
        kind = type(
            f"Ruled{rng.integers(1 << 60)}",
            (Ruled,),
            {"cat_dims": self.cat_dims, "incs": self.incs},
        )
        is_ruled = bool(self.cat_dims or self.incs)
        data_class = kind if is_ruled else Data
        graphs = []
        for attributes in self.graphs:
            graph = data_class()
            for name, value in attributes.items():
                if name == "num_nodes":
                    graph.num_nodes = value
                else:
                    graph[name] = value
            graphs.append(graph)
        per_table = int(rng.integers(0, 4))
        given_as = str(
            rng.choice(["list", "iterator", "in memory", "stored"], p=[0.6, 0.1, 0.2, 0.1])
        )
        if given_as in ("iterator", "in memory") and 0 < per_table < len(graphs):
            # The rows of the first part decide, and later ones need not agree with them.
            self.oddities += [(name, random_sets.DECIDED) for name in self.graphs[0]]
        return Set(
            graphs,
            self.options,
            data_class if is_ruled else None,
            per_table,
            given_as,
            has_orders=self.has_orders,
        )

    def _tells_nodes(self) -> bool:
        return any((name in TELLS_NODES or "node" in name) for name in self.graphs[0])

    def put(self, name: str, value: Callable[[int], Any]) -> None:
        for number, graph in enumerate(self.graphs):
            graph[name] = value(number)

    def rows(self, name: str, counts: list[int], dim: int = 0) -> None:
        """A tensor with so many rows in each graph, along `dim`."""
        rng = self.rng
        dtype = DTYPES[int(rng.integers(len(DTYPES)))]
        if not re.fullmatch(r"[A-Za-z0-9_.#/:%!^~@+=-]+", name):
            self.oddities.append((name, "a name with a blank or letters that a schema lacks"))
        rank = int(rng.choice([0, 1, 1, 2, 3]))
        shape = [
            int(rng.choice([1, 2, 3, 5, 0], p=[0.3, 0.3, 0.24, 0.15, 0.01])) for _ in range(rank)
        ]
        dim = min(dim, rank)
        if 0 in shape:
            self.oddities.append((name, "rows without elements"))

        def value(number: int) -> Any:
            return tensor(rng, dtype, (*shape[:dim], counts[number], *shape[dim:]))

        self.put(name, value)
        if dim:
            self.cat_dims[name] = int(rng.choice([dim, dim - rank - 1]))

    def add_edges(self) -> None:
        if self.rng.random() < 0.1 and not any(self.edges):
            return
        dtype = torch.int32 if self.rng.random() < 0.05 else torch.int64

        def ends(number: int) -> Any:
            pairs = self.rng.integers(0, max(self.nodes[number], 1), (2, self.edges[number]))
            made = torch.from_numpy(pairs).to(dtype)
            # Not contiguous, as after a transposition.
            return made.t().contiguous().t() if self.rng.random() < 0.3 else made

        self.put("edge_index", ends)

    def add_nodes(self) -> None:
        for name in self.rng.choice(NODE_NAMES, int(self.rng.integers(0, 4)), replace=False):
            self.rows(str(name), self.nodes)

    def add_edge_features(self) -> None:
        for name in self.rng.choice(EDGE_NAMES, int(self.rng.integers(0, 3)), replace=False):
            self.rows(str(name), self.edges)

    def add_whole(self) -> None:
        rng = self.rng
        for name in rng.choice(GRAPH_NAMES, int(rng.integers(0, 4)), replace=False):
            kind = str(rng.choice(["row", "scalar", "float", "int", "bool"]))
            if kind == "row":
                self.rows(str(name), [1] * len(self.graphs))
            elif kind == "scalar":
                dtype = DTYPES[int(rng.integers(len(DTYPES)))]
                self.put(str(name), lambda i: tensor(rng, dtype, ()))
            elif kind == "float":
                self.put(str(name), lambda i: float(rng.standard_normal()))
            elif kind == "int":
                self.put(str(name), lambda i: int(rng.integers(-(1 << 62), 1 << 62)))
            else:
                self.put(str(name), lambda i: bool(rng.random() < 0.5))

    def add_own(self) -> None:
        name = str(self.rng.choice(OWN_NAMES))
        if self.rng.random() < 0.4:
            self.rows(name, [3] * len(self.graphs))
        else:
            self.rows(name, [int(count) for count in self.rng.integers(0, 6, len(self.graphs))])

    def add_index(self) -> None:
        """What PyG adds the number of nodes to, by its name."""
        rng = self.rng
        name, rows = [("face", 3), ("tri_index", 3), ("master_index", 0), ("index", 1)][
            int(rng.integers(4))
        ]
        dtype = [torch.int64, torch.int32][int(rng.random() < 0.1)]

        def value(number: int) -> Any:
            nodes = self.nodes[number]
            shape = ((rows,) if rows else ()) + (int(rng.integers(0, 5)) if nodes else 0,)
            return torch.from_numpy(rng.integers(0, max(nodes, 1), shape)).to(dtype)

        self.put(name, value)

    def add_ruled(self) -> None:
        rng = self.rng
        kind = int(rng.integers(5))
        if kind == 0:  # A new dimension of graphs.
            self.rows("adjacency", [int(rng.integers(1, 4))] * len(self.graphs))
            self.cat_dims["adjacency"] = None
        elif kind == 1:  # Rows along a later dimension.
            self.rows("wide", self.nodes, int(rng.integers(1, 3)))
        elif kind == 2:  # Nodes of another kind, which no schema numbers.
            self.rows("x_t", [1 + int(rng.integers(0, 5)) for _ in self.graphs])
            self.put("atom_t", lambda i: torch.zeros(1, dtype=torch.long))
            self.incs["atom_t"] = lambda data: data.x_t.shape[0]
            self.oddities.append(("atom_t", "another increment than the number of nodes"))
        elif kind == 3:  # A number of nodes under another name.
            self.put("first_atom", lambda i: torch.zeros(1, dtype=torch.long))
            self.incs["first_atom"] = lambda data: data.num_nodes
            if not all(self.nodes):
                self.oddities.append(("first_atom", "a number of a node in a graph without any"))
        elif "edge_index" in self.graphs[0]:  # All graphs have the same nodes.
            self.incs["edge_index"] = lambda data: 0
            self.oddities.append(("edge_index", "edges of shared nodes"))

    def _make_odd(self) -> None:
        here = int(self.rng.integers(len(self.graphs)))
        kinds: tuple[Callable[[int], bool], ...] = (
            self._reserved_name,
            self._text,
            self._sparse,
            self._complex,
            self._list,
            self._batch_vector,
            self._missing,
            self._other_dtype,
            self._other_shape,
            self._index_of_floats,
            self._strange_name,
            self._no_number_of_nodes,
        )
        if kinds[int(self.rng.integers(12))](here) and self.oddities and self.rng.random() < 0.2:
            self._leave_out(self.oddities[-1][0])

    # Each: whether it has made the graphs odd, by graph `here` or by all.

    def _no_number_of_nodes(self, here: int) -> bool:
        if "num_nodes" not in self.graphs[here]:
            return False
        self.graphs[here]["num_nodes"] += (0.5, 0.0, -99)[int(self.rng.integers(3))]
        for name in ("num_nodes", *self.graphs[0]):
            self.oddities.append((name, "a number of nodes that is none"))
        return True

    def _strange_name(self, _here: int) -> bool:
        self.rows(str(self.rng.choice(["größe", "my node", "edge label"])), self.nodes)
        return True

    def _reserved_name(self, _here: int) -> bool:
        name = str(self.rng.choice(RESERVED))
        self.rows(name, self.nodes if self.rng.random() < 0.5 else [1] * len(self.graphs))
        self.oddities.append((name, "a name that batches use"))
        return True

    def _text(self, _here: int) -> bool:
        value = ("CCO", ["a"], {"a": 1}, "é", None)[int(self.rng.integers(4))]
        self.put("smiles", lambda i: value)
        self.oddities.append(("smiles", "text"))
        return True

    def _sparse(self, _here: int) -> bool:
        self.put("adj_t", lambda i: torch.eye(max(self.nodes[i], 1)).to_sparse())
        self.oddities.append(("adj_t", "a sparse matrix"))
        return True

    def _complex(self, _here: int) -> bool:
        self.put("wave", lambda i: torch.zeros(self.nodes[i], 2, dtype=torch.complex64))
        self.oddities.append(("wave", "complex numbers"))
        return True

    def _list(self, _here: int) -> bool:
        value = [1, 2.5] if self.rng.random() < 0.5 else np.ones(2)
        self.put("numbers", lambda i: value)
        self.oddities.append(("numbers", "a list or an array of numpy"))
        return True

    def _batch_vector(self, _here: int) -> bool:
        self.put("a_batch", lambda i: torch.zeros(self.nodes[i], dtype=torch.long))
        self.oddities.append(("a_batch", "a batch vector"))
        return True

    def _index_of_floats(self, _here: int) -> bool:
        self.put("price_index", lambda i: torch.from_numpy(self.rng.standard_normal(2)))
        self.oddities.append(("price_index", "floats that PyG takes for numbers of nodes"))
        return True

    def _some_name(self) -> str | None:
        names = [name for name in self.graphs[0] if name not in ("num_nodes", "edge_index")]
        return str(self.rng.choice(names)) if names else None

    def _missing(self, here: int) -> bool:
        name = self._some_name()
        if name and len(self.graphs) > 1:
            del self.graphs[here][name]
            self.oddities.append((name, "missing in some graphs"))
            if not self._tells_nodes():
                self.oddities.append(("num_nodes", "the number of nodes is not told"))
        return name is not None

    def _other_dtype(self, here: int) -> bool:
        name = self._some_name()
        value = self.graphs[here].get(name or "")
        if name and isinstance(value, torch.Tensor) and len(self.graphs) > 1:
            other = torch.float32 if value.dtype is not torch.float32 else torch.int64
            self.graphs[here][name] = value.to(other)
            self.oddities.append((name, "another dtype in some graphs"))
        return name is not None

    def _other_shape(self, here: int) -> bool:
        name = self._some_name()
        value = self.graphs[here].get(name or "")
        if name and isinstance(value, torch.Tensor) and len(self.graphs) > 1:
            twice = torch.cat([value, value], -1) if value.dim() else value[None]
            self.graphs[here][name] = twice
            self.oddities.append((name, "another shape in some graphs"))
        return name is not None

    def _leave_out(self, name: str) -> None:
        """Left out, it is not odd any more."""
        if name not in self.graphs[0] and name not in self.graphs[-1]:
            return
        self.options["exclude_keys"] = [name]
        self.oddities = [each for each in self.oddities if each[0] != name]
        if name in TELLS_NODES or "node" in name:
            self.oddities.append(("num_nodes", "the number of nodes is not told"))
            self.oddities += [
                (index, "numbers of nodes that some graphs do not have")
                for index in ("edge_index", "face", "tri_index", "master_index", "index")
            ]

    def _note_ambiguous(self) -> None:
        """Where rows alone decide, and do not: to be said, half of the time."""
        for name, value in self.graphs[0].items():
            values = [graph.get(name) for graph in self.graphs]
            if name in self.options.get("exclude_keys", ()) or not isinstance(value, torch.Tensor):
                continue
            dim = self.cat_dims.get(name, -1 if "index" in name or name == "face" else 0)
            if (
                name == "edge_index"
                or dim is None
                or not all(isinstance(each, torch.Tensor) and each.dim() for each in values)
            ):
                continue
            counts = [each.shape[dim] for each in values]
            fits = [counts == self.nodes, counts == self.edges and "edge_index" in self.graphs[0]]
            is_constant = len(set(counts)) == 1 and counts[0] != 1 and len(counts) > 1
            if sum(fits) + is_constant * any(fits) < 2:
                continue
            if self.rng.random() < 0.5:
                self.options.setdefault("components", {})[name] = name
            else:
                self.oddities.append((name, "fits several things"))

    def _order(self) -> None:
        """Each graph has its attributes in an order of its own."""
        if self.has_orders:
            for number, graph in enumerate(self.graphs):
                names = list(graph)
                self.graphs[number] = {
                    names[i]: graph[names[i]] for i in self.rng.permutation(len(names))
                }


class _TypedMaker:
    """Graphs of several kinds."""

    NODE_TYPES: Final = ("paper", "author", "field-of-study", "a.b", "nodes", "node")
    RELATIONS: Final = ("writes", "to", "is.part", "rev_to", "edges")

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.oddities: Oddities = []
        self.options: dict[str, Any] = {}

    def make(self) -> Set:
        rng = self.rng
        count = int(rng.integers(1, 7))
        types = [
            str(name)
            for name in rng.choice(self.NODE_TYPES, int(rng.integers(1, 4)), replace=False)
        ]
        if types == ["nodes"]:
            self.oddities.append(("nodes", "a type called as that of graphs without types"))
        keys = sorted(
            {
                (str(rng.choice(types)), str(rng.choice(self.RELATIONS)), str(rng.choice(types)))
                for _ in range(int(rng.integers(0, 4)))
            }
        )
        whole = [
            str(n) for n in rng.choice(GRAPH_NAMES[:3], int(rng.integers(0, 3)), replace=False)
        ]
        node_columns = {
            name: self._columns(("x", "pos", "year", "train_mask", "x.1")) for name in types
        }
        edge_columns = {key: self._columns(("edge_attr", "edge_weight", "time")) for key in keys}
        whole_columns = {name: self._columns((name,), at_least=1)[name] for name in whole}
        tells = {name: bool({"x", "pos"} & set(columns)) for name, columns in node_columns.items()}
        tells_not = {name for name in types if not tells[name]}
        told = {name for name in tells_not if rng.random() < 0.9}
        for name in tells_not - told:
            self.oddities.append((name, "the number of nodes is not told"))
        keep_order = rng.random() < 0.5
        columns = {**node_columns, **edge_columns}
        graphs = []
        for _ in range(count):
            graph = self._graph(types, keys, keep_order, columns, told)
            for name, (dtype, shape) in whole_columns.items():
                graph[name] = tensor(rng, dtype, (1, *shape))
            graphs.append(graph)
        if rng.random() < 0.35:
            self._make_odd(graphs, types, keys)
        given_as = str(
            rng.choice(["list", "iterator", "in memory", "stored"], p=[0.6, 0.1, 0.2, 0.1])
        )
        return Set(
            graphs,
            self.options,
            None,
            int(rng.integers(0, 4)),
            given_as,
            has_orders=not keep_order,
        )

    def _graph(
        self,
        types: list[str],
        keys: list[Any],
        keep_order: bool,
        columns: dict[Any, dict[str, Any]],
        told: set[str],
    ) -> Any:
        """Nodes and edges; types of `told` say how many nodes they have."""
        rng = self.rng
        graph = HeteroData()
        sizes = {name: int(rng.integers(0, 6)) * int(rng.random() < 0.8) for name in types}
        parts: list[Any] = [*types, *keys]
        order = range(len(parts)) if keep_order else rng.permutation(len(parts))
        for part in (parts[number] for number in order):
            if isinstance(part, str):
                rows = sizes[part]
                if part not in told and not columns[part]:
                    graph[part]  # A store with nothing in it.
            else:
                source, _, target = part
                rows = int(rng.integers(0, 8)) if sizes[source] and sizes[target] else 0
                ends = [rng.integers(0, max(sizes[end], 1), rows) for end in (source, target)]
                graph[part].edge_index = torch.from_numpy(np.stack(ends))
            for name, (dtype, shape) in columns[part].items():
                graph[part][name] = tensor(rng, dtype, (rows, *shape))
            if part in told:
                graph[part].num_nodes = rows
        return graph

    def _columns(self, names: tuple[str, ...], at_least: int = 0) -> dict[str, Any]:
        rng = self.rng
        chosen = rng.choice(
            names, int(rng.integers(at_least, min(len(names), 2) + 1)), replace=False
        )
        return {
            str(name): (
                DTYPES[int(rng.integers(len(DTYPES)))],
                tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))),
            )
            for name in chosen
        }

    def _make_odd(self, graphs: list[Any], types: list[str], keys: list[Any]) -> None:
        rng = self.rng
        here = graphs[int(rng.integers(len(graphs)))]
        kind = int(rng.integers(6))
        if kind == 0 and len(graphs) > 1:
            part: Any = [*types, *keys][int(rng.integers(len(types) + len(keys)))]
            del here[part]
            self.oddities.append((part, "a type that some graphs lack"))
        elif kind == 1 and len(graphs) > 1:
            here["extra type"].x = torch.zeros(2, 1)
            self.oddities.append(("extra type", "a type that some graphs lack"))
        elif kind == 2:
            store = here.stores[int(rng.integers(len(here.stores)))]
            names = [name for name in store.keys() if name not in ("edge_index", "num_nodes")]
            if names and len(graphs) > 1:
                name = str(rng.choice(names))
                if rng.random() < 0.5:
                    del store[name]
                    self.oddities.append((name, "missing in some graphs"))
                else:
                    other = torch.int16 if store[name].dtype is not torch.int16 else torch.int64
                    store[name] = store[name].to(other)
                    self.oddities.append((name, "another dtype in some graphs"))
        elif kind == 3 and keys:
            for graph in graphs:
                graph[keys[0]].edge_label_index = torch.zeros(2, 0, dtype=torch.long)
            self.oddities.append(("edge_label_index", "numbers of nodes of two types"))
        elif kind == 4:
            name = str(rng.choice(RESERVED))
            for graph in graphs:
                graph[types[0]][name] = torch.zeros(graph[types[0]].num_nodes or 0)
            self.oddities.append((name, "a name that batches use"))
        elif kind == 5:
            for graph in graphs:
                graph[types[0]].title = ["a"] * 2
            self.oddities.append(("title", "text"))


class InMemory(InMemoryDataset):  # type: ignore[misc]
    """Graphs that PyG has joined."""

    def __init__(self, graphs: list[Any]) -> None:
        super().__init__(None)
        self.data, self.slices = self.collate(graphs)


def make(seed: int) -> tuple[Set, Oddities]:
    rng = np.random.default_rng([31, seed])
    maker: Any = _PlainMaker(rng) if rng.random() < 0.65 else _TypedMaker(rng)
    made = maker.make()
    is_saved = made.data_class is None and "components" not in made.options and rng.random() < 0.15
    if is_saved and made.given_as in ("list", "in memory"):
        made.given_as = f"{made.given_as}, saved"
        # PyG reads a data set's attributes in an order of its own.
        made.has_orders = True
    return made, maker.oddities


def assert_equal(ours: Any, theirs: Any, name: str) -> None:
    """Types, dtypes, shapes, and all bits of all values."""
    assert type(ours) is type(theirs), f"{name}: {type(ours)}, PyG has {type(theirs)}"
    if isinstance(theirs, torch.Tensor):
        of_index = name.rpartition("/")[2]
        if ours.dtype != theirs.dtype and ("index" in of_index or of_index == "face"):
            # As the docs have it: numbers of nodes are int64.
            assert ours.dtype is torch.int64, name
            theirs = theirs.to(torch.int64)
        assert ours.dtype == theirs.dtype, f"{name}: {ours.dtype}, PyG has {theirs.dtype}"
        assert ours.shape == theirs.shape, f"{name}: {ours.shape}, PyG has {theirs.shape}"
        same = torch.equal(_bits(ours), _bits(theirs))
        assert same, f"{name}: {ours.tolist()}, PyG has {theirs.tolist()}"
    elif isinstance(theirs, dict):
        assert set(ours) == set(theirs), f"{name}: {list(ours)}, PyG has {list(theirs)}"
        for key, value in theirs.items():
            assert_equal(ours[key], value, f"{name}/{key}")
    else:
        assert ours == theirs, f"{name}: {ours!r}, PyG has {theirs!r}"


def _bits(value: Any) -> Any:
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return value.contiguous().view(-1).view(widths[value.element_size()])


def assert_same_batch(ours: Any, theirs: Any, has_orders: bool) -> None:
    assert type(ours) is type(theirs)
    order: Any = set if has_orders else list
    mine_by_key = {store._key: store for store in ours.stores}
    assert order(mine_by_key) == order(store._key for store in theirs.stores)
    for other in theirs.stores:
        mine = mine_by_key[other._key]
        names = list(mine.keys())
        assert order(names) == order(other.keys()), f"{names}, PyG has {list(other.keys())}"
        for key in other.keys():
            assert_equal(mine[key], other[key], f"{mine._key}/{key}")
        numbers = (getattr(each, "_num_nodes", None) for each in (mine, other))
        assert_equal(*numbers, "num_nodes")
    assert ours.num_graphs == theirs.num_graphs and ours.num_nodes == theirs.num_nodes
    for kind in ("_slice_dict", "_inc_dict"):
        noted = {
            key: value
            for key, value in getattr(ours, kind).items()
            if not (isinstance(value, dict) and not value)
        }
        assert_equal(noted, getattr(theirs, kind), kind)


def given(made: Set) -> Any:
    return iter(made.graphs) if made.given_as == "iterator" else made.source or made.graphs


def saved(made: Set, path: pathlib.Path) -> pathlib.Path:
    """A file as torch.save makes it of a list, and PyG of a data set."""
    if made.source is None:
        torch.save(made.graphs, path)
    else:
        torch.save((made.source._data.to_dict(), made.source.slices, type(made.source._data)), path)
    return path


def batches(client: Client, server: LocalServer, made: Set, padding: Padding) -> Iterator[Any]:
    """Every graph once. Raises Refused."""
    source = given(made)

    def give() -> list[GraphTable]:
        if made.given_as == "stored":
            packhouse.pyg.ingest(client, "random", source, **made.options)
            return []
        if made.given_as.endswith("saved"):
            with tempfile.TemporaryDirectory() as folder:
                path = saved(made, pathlib.Path(folder) / "data.pt")
                return list(pickles.tables(path, trust_pickle=True, **made.options))
        return list(packhouse.pyg.tables(source, graphs_per_table=made.per_table, **made.options))

    return random_sets.batches(client, server, give, padding, stored={"padding": padding})


def compare(client: Client, server: LocalServer, made: Set) -> None:
    excluded = made.options.get("exclude_keys", ())
    if made.given_as.startswith("in memory"):
        try:
            made.source = InMemory(made.graphs)
            made.graphs = [made.source[number] for number in range(len(made.source))]
        except Exception as error:
            raise PeerFailed("the data set in memory") from error
    warnings.simplefilter("ignore")
    try:
        expected = Batch.from_data_list(made.graphs, exclude_keys=excluded)
    except Exception as error:
        try:
            list(batches(client, server, made, Padding.NONE))
        except Refused:
            raise PeerFailed("and is refused") from error
        raise PeerFailed(f"{type(error).__name__}, not refused") from error
    del expected
    num_seen = 0
    padding = Padding.GRAPH if made.per_table == 1 and made.given_as != "stored" else Padding.NONE
    for batch in batches(client, server, made, padding):
        ours = packhouse.pyg.to_batch(batch, data_class=made.data_class)
        chosen = [made.graphs[number] for number in batch.graph_ids]
        theirs = Batch.from_data_list(chosen, exclude_keys=excluded)
        assert_same_batch(ours, theirs, made.has_orders)
        num_seen += len(chosen)
    assert num_seen == len(made.graphs)


@pytest.mark.filterwarnings("ignore")
def test_random_sets(client: Client, server: LocalServer) -> None:
    random_sets.run("PyG", 4000, make, lambda made: compare(client, server, made))
